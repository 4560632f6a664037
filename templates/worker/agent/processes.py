"""Which process is which: a process id counts only with its start time and the machine's boot. Sends signals."""

import os
import signal
import time


def boot_id():
    """This boot of this machine. The kernel's id is the host's inside a sandbox, so pid 1's start time goes with it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return "%s-%d" % (file.read().strip(), started(1))


def _stat(pid):
    with open("/proc/%d/stat" % pid, "rb") as file:
        # The name in brackets may hold anything, brackets too: what follows the last one is ours.
        return file.read().rpartition(b")")[2].split()


def started(pid):
    """The process's start in clock ticks since the host's boot; 0 where there is no such process, or only its ghost."""
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def began(pid):
    """When it started, in seconds since the epoch; 0 where there is no such process."""
    ticks = started(pid)
    if not ticks:
        return 0
    with open("/proc/stat", encoding="ascii") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted + ticks // os.sysconf("SC_CLK_TCK")


def identity(pid):
    """What names the process for good."""
    return {"pid": pid, "start": started(pid), "boot": boot_id()}


def lives(record):
    """Whether the very process that `record` names still runs."""
    return bool(record) and record["boot"] == boot_id() and 0 < record["start"] == started(record["pid"])


def pids():
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment_has(pid, entry):
    """Whether the process was started with `entry` (b"NAME=value") in its environment; False where that is hidden."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return entry in file.read().split(b"\0")
    except OSError:
        return False


def of_run(run_id, session):
    """Processes of a run: those of its session, and those that left it but carry the run's id."""
    entry = ("TPUOPS_RUN_ID=" + run_id).encode()
    found = []
    for pid in pids():
        if pid == os.getpid() or not started(pid):
            continue
        try:
            leader = int(_stat(pid)[3])
        except OSError:
            continue
        if (session and leader == session) or environment_has(pid, entry):
            found.append(pid)
    return found


def send(some, number):
    """Send a signal to each; one that is gone needs none. Returns those that may not be signalled."""
    refused = []
    for pid in some:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(pid)
    return refused


def wait_until(done, limit_s, every_s=0.02):
    """Look until `done()` or the limit; whether it came."""
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() >= end:
            return False
        time.sleep(every_s)
    return True


def end(find, grace_s):
    """SIGTERM, after the grace SIGQUIT (stacks, where the program dumps them), then SIGKILL, to all that `find` finds.

    Returns what could not be ended.
    """
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGQUIT, 1.0), (signal.SIGKILL, 10.0)):
        some = find()
        if not some:
            return []
        send(some, number)
        send(some, signal.SIGCONT)  # a stopped process takes no other signal
        if wait_until(lambda: not find(), wait_s):
            return []
    return find()
