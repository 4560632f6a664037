"""Where each thread of the run's processes stands, as far as the kernel tells it from outside: what a hang leaves.

Of every thread its state, what it waits for in the kernel, the system call it is in, and, where this user may be root,
its kernel stack. A program's own (Python) stack no image here can show from outside: a program that wants it seen
registers faulthandler for SIGQUIT, which a hung one gets before SIGKILL. Sends no signal and changes nothing.
"""

import os
import subprocess

import places
import processes

THREADS = 200
BYTES = 49152


def stacks():
    """The text; bounded in time and size."""
    run_id, attempt = places.current_run()
    noted = run_id and places.read_json(os.path.join(places.attempt_folder(run_id, attempt), "pid.json"))
    if not noted or not processes.lives(noted["training"]):
        return b"no training process lives\n"
    tasks = []
    for pid in processes.of_run(run_id, noted["training"]["pid"]):
        tasks += ["/proc/%d/task/%s" % (pid, name) for name in _listed("/proc/%d/task" % pid)]
    text = "".join(_thread(task) for task in tasks[:THREADS]).encode()
    if len(tasks) > THREADS:
        text += b"and %d threads more\n" % (len(tasks) - THREADS)
    return (text + _kernel_stacks(tasks[:THREADS]))[:BYTES]


def _listed(folder):
    try:
        return sorted(os.listdir(folder), key=int)
    except OSError:
        return []


def _thread(task):
    """One line: process, thread, name, state, wchan, system call, CPU ticks in user and kernel."""
    said = _read(task + "/stat")
    name, rest = said[said.find("(") + 1 : said.rfind(")")], said[said.rfind(")") + 1 :].split()
    state, ticks = (rest[0], "+".join(rest[11:13])) if len(rest) > 12 else ("?", "?")
    _, _, pid, _, thread = task.split("/")
    call = _read(task + "/syscall").split(" ")[0] or "?"
    words = (pid, thread, name, state, _read(task + "/wchan") or "?", call, ticks)
    return "process %s thread %s (%s): state %s, waits in %s, system call %s, ticks %s\n" % words


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _kernel_stacks(tasks):
    """The kernel's stacks, which only root may read; `tail` names each file before it."""
    paths = [task + "/stack" for task in tasks]
    try:
        done = subprocess.run(
            ["sudo", "-n", "tail", "-n", "+1", *paths], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=5, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return b"kernel stacks: not to be had without root\n"
    return done.stdout or b"kernel stacks: not to be had without root\n"
