"""What runs here now, read from the files of the attempt and from the process table. Changes nothing."""

import os

import places
import processes


def of_attempt(run_id, attempt):
    """The status document of one attempt: `exit` is null while it lives, and where it vanished without a record."""
    folder = places.attempt_folder(run_id, attempt)
    # The order matters: a process that ends between the two looks has left its record for the second one.
    pid = places.read_json(os.path.join(folder, "pid.json"))
    alive = processes.lives(pid and pid["training"])
    recording = processes.lives(pid and pid["recorder"])
    ended = places.read_json(os.path.join(folder, "exit.json"))
    try:
        size = os.stat(os.path.join(folder, "train.log")).st_size
    except OSError:
        size = 0
    return {
        "boot_id": processes.boot_id(),
        "run_id": run_id,
        "attempt": int(attempt),
        "pid": pid["training"]["pid"] if pid else 0,
        # Between the process's end and its record it still counts as alive, as long as somebody is there to write it.
        "alive": ended is None and (alive or recording),
        "exit": ended,
        "source": places.current_source(),
        "log_bytes": size,
    }


def now():
    """The status document of the machine."""
    run_id, attempt = places.current_run()
    if run_id:
        return of_attempt(run_id, attempt)
    return {"boot_id": processes.boot_id(), "source": places.current_source()}
