"""Starts the training command and writes down how it ended.

The recorder leads a session of its own, so that neither tmux nor a terminal can take it along; the training process
leads another, and writes straight into its log: whatever becomes of the recorder, no line is lost. The record of the
process is on disk before the first instruction of the command runs.
"""

import contextlib
import json
import os
import signal
import time

import hidden
import places
import processes

RECORD_BYTES = 4096


def record(run_id, attempt):
    """Run the attempt's command to its end; leaves pid.json and exit.json."""
    folder = places.attempt_folder(run_id, attempt)
    launch = places.read_json(os.path.join(folder, "launch.json"))
    if launch is None:
        return  # another recorder was faster
    launch["env"].update(hidden.read(run_id, attempt))
    log = os.open(os.path.join(folder, "train.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _reserve(folder)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ready, go = os.pipe()
    began = time.time()
    pid = os.fork()
    if pid == 0:
        _become(launch, log, ready, go)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: _forward(pid, number))
    os.close(log)
    both = {"training": processes.identity(pid), "recorder": processes.identity(os.getpid()), "began": began}
    if not places.write_json(os.path.join(folder, "pid.json"), both, exclusive=True):
        os.close(go)  # another recorder was faster: the child reads the end of the pipe and leaves
        os.waitpid(pid, 0)
        return
    os.write(go, b"g")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "launch.json"))  # it held the whole environment
    _, status = os.waitpid(pid, 0)
    _conclude(folder, status, began)


def _forward(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _become(launch, log, ready, go):
    """In the child: wait for the word, then become the training command. Never returns."""
    code = 125
    try:
        os.close(go)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if os.read(ready, 1) == b"g":
            os.chdir(launch["cwd"])
            os.execvpe(launch["command"][0], launch["command"], launch["env"])
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, ("tpuops: cannot run %r: %s\n" % (launch["command"][0], error)).encode())
    finally:
        os._exit(code)


def _reserve(folder):
    """Take the record's place on the disk now: a disk that is full later does not lose the exit code."""
    with open(os.path.join(folder, "exit.json.partial"), "wb") as file:
        file.write(b" " * RECORD_BYTES)
        os.fsync(file.fileno())


def _conclude(folder, status, began):
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = 128 + number if number else os.WEXITSTATUS(status)
    text = json.dumps({"code": code, "signal": number, "began": began, "ended": time.time()}).encode()
    partial = os.path.join(folder, "exit.json.partial")
    with open(partial, "r+b") as file:
        file.write(text.ljust(RECORD_BYTES - 1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(partial, os.path.join(folder, "exit.json"))
    places.sync_folder(folder)
