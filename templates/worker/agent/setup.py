"""Runs a spec's setup commands, once per source tree and set of commands on this disk. Never starts training.

The marker is written after success only: whatever was interrupted runs again. Output is kept in a log of its own.
"""

import hashlib
import json
import os
import signal
import subprocess

import places
import processes


def _paths(digest, commands):
    folder = os.path.join(places.root(), "setup")
    os.makedirs(folder, exist_ok=True)
    name = "%s-%s" % (digest[:16] or "none", hashlib.sha256(json.dumps(commands).encode()).hexdigest()[:16])
    return os.path.join(folder, name + ".log"), os.path.join(folder, name + ".done")


def log_of(spec):
    """The log of a spec's setup, or None where it has none."""
    path = _paths(spec["source"], spec["setup"])[0]
    return path if spec["setup"] and os.path.exists(path) else None


def ensure(spec, cwd, env):
    """Run the commands in order unless they succeeded before; the first failure is refused with its last lines."""
    log, done = _paths(spec["source"], spec["setup"])
    if not spec["setup"] or os.path.exists(done):
        return
    interrupt()  # one that outlived its starter would work on the same files
    with open(log, "wb") as file:
        for number, command in enumerate(spec["setup"], 1):
            file.write(("$ " + json.dumps(command) + "\n").encode())
            file.flush()
            code = _run(command, cwd, env, file)
            if code != 0:
                raise places.Refused(
                    "setup_failed",
                    "setup command %d of %d ended with code %d: %s"
                    % (number, len(spec["setup"]), code, " ".join(command)[:200]),
                    places.tail(log, 8192).decode("utf-8", "replace").splitlines()[-20:],
                    code,
                )
    places.write_json(done, {"setup": spec["setup"]})


def _record():
    return os.path.join(places.root(), "setup", "running.json")


def _run(command, cwd, env, log):
    try:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    except OSError as error:
        log.write(("tpuops: cannot run it: %s\n" % error).encode())
        return 127 if isinstance(error, FileNotFoundError) else 126
    places.write_json(_record(), processes.identity(process.pid))
    code = process.wait()
    os.unlink(_record())
    return 128 - code if code < 0 else code


def interrupt():
    """End a setup command that runs, whoever started it."""
    record = places.read_json(_record())
    if processes.lives(record):
        try:
            os.killpg(record["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return
        processes.wait_until(lambda: not processes.lives(record), 10)
