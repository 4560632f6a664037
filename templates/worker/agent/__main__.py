"""tpuops on the machine: one program, one subcommand for each thing the controller may ask. No decisions of its own.

Requests come as words, and as JSON or a tar stream on standard input; replies go to standard output as JSON lines, the
last one {"ok": ...} or {"error": ...}. Standard library only, Python 3.8 and later: worker images are old.

    status                          what runs here now
    sync DIGEST                     a source tree on standard input
    preflight                       a question on standard input: whether a run can start here; changes nothing
    prepare                         a spec on standard input: set up, and no more
    start                           a spec on standard input: set up, and run in tmux
    follow RUN ATTEMPT OFFSET       the log, pushed, then the end
    stop GRACE_S                    end the run
    collect BUCKET PREFIX           outputs and logs into the bucket
    evidence                        small texts that explain a failure
    clear                           stale device holders and lock files
    supervise, record RUN ATTEMPT   its own halves inside tmux
    holders                         its own eyes as root
"""

import importlib
import sys

import places
import replies

COMMANDS = {
    "status": ("state", "now"),
    "sync": ("tree", "sync"),
    "preflight": ("preflight", "preflight"),
    "prepare": ("launch", "prepare_asked"),
    "start": ("launch", "start_asked"),
    "follow": ("follow", "follow"),
    "stop": ("launch", "stop"),
    "collect": ("collect", "collect"),
    "evidence": ("evidence", "evidence"),
    "clear": ("devices", "clear_idle"),
}
INSIDE = {
    "supervise": ("window", "supervise"),
    "record": ("recorder", "record"),
    "holders": ("devices", "say_holders"),
}


def main(words):
    """Do one command; 0, or 1 after a refusal, or 2 for one it does not know."""
    name, rest = (words or [""])[0], words[1:]
    module, function = {**COMMANDS, **INSIDE}.get(name, ("", ""))
    if not module:
        sys.stderr.write(__doc__)
        return 2
    try:
        # Imported here, so that each command pays only for its own imports.
        result = getattr(importlib.import_module(module), function)(*rest)
    except places.Refused as error:
        replies.say(
            {"error": {"kind": error.kind, "message": str(error), "evidence": error.evidence, "code": error.code}}
        )
        return 1
    if name in COMMANDS:
        replies.say({"ok": result})
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except BrokenPipeError:
        # The reader is gone. What was done stays done; nobody is left to hear of it.
        sys.stdout = None
        code = 0
    sys.exit(code)
