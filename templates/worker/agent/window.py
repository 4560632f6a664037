"""What the tmux session shows: the run's log as it grows. The run does not depend on it, and outlives it.

Ctrl-C in the session and a SIGTERM to this program are meant for the training, and are passed on to it.
"""

import os
import signal
import subprocess
import sys

import places
import processes
import state

SHOWN_BYTES = 65536


def supervise(run_id, attempt):
    """Start the recorder unless one was started, then show the log until the run ends."""
    folder = places.attempt_folder(run_id, attempt)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: _forward(folder, number))
    pid_path = os.path.join(folder, "pid.json")
    if not os.path.exists(pid_path):
        with open(os.path.join(folder, "recorder.log"), "ab") as said:
            subprocess.Popen(
                places.itself("record", run_id, attempt),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
    if processes.wait_until(lambda: os.path.exists(pid_path), 30):
        _show(folder, run_id, attempt)


def _forward(folder, number):
    pid = places.read_json(os.path.join(folder, "pid.json"))
    if pid and processes.lives(pid["training"]):
        os.killpg(pid["training"]["pid"], number)


def _show(folder, run_id, attempt):
    with open(os.path.join(folder, "train.log"), "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - SHOWN_BYTES))
        ended = False
        while True:
            data = log.read(SHOWN_BYTES)
            if data:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            elif ended:
                return
            else:
                ended = processes.wait_until(lambda: not state.of_attempt(run_id, attempt)["alive"], 0.1, 0.1)
