"""What a shell suggests where Invoke's own completion has nothing to say: the values of --env and --cloud.

The scripts that `--print-completion-script` prints ask with `--complete -- WORDS...`; everything else about completion
is Invoke's, but for zsh's script: Invoke's never reads the words of the line, so that it knows tasks and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tpuops.tasks.task import CLOUDS

ASKED = "--complete"
SCRIPT = "--print-completion-script"
ZSH = """\
_complete_tpuops() {
    local words
    read -cA words
    reply=( $(tpuops --complete -- ${words}) )
}
compctl -K _complete_tpuops + -f tpuops
"""


def complete(arguments: Sequence[str]) -> None:
    """Print zsh's script, or the candidates for a value of ours, and end the process; return where Invoke answers."""
    if " ".join(arguments).replace("=", " ") == f"{SCRIPT} zsh":
        print(ZSH, end="")
        sys.exit(0)
    if ASKED not in arguments or "--" not in arguments:
        return
    words = " ".join(arguments[arguments.index("--") + 1 :]).split()  # one word, or many: the shells differ
    found = candidates(words, Path.cwd())
    if found:
        print("\n".join(found))
        sys.exit(0)


def candidates(words: Sequence[str], here: Path) -> list[str]:
    """The values that may stand at the end of a command line; none where no value is being typed.

    A shell does not say whether the last word is finished: one that names a value in full is.
    """
    told = ["", "", *(word for word in words if word != "=")]  # bash takes `--env=v3` apart
    last = told[-1]
    flag = last if last in {"-e", "--env", "--cloud"} else told[-2]
    if flag == "--cloud":
        known = list(CLOUDS)
    elif flag in {"-e", "--env"}:
        from tpuops.environment import available

        known = sorted(available(here))
    else:
        return []
    return [] if last in known else known
