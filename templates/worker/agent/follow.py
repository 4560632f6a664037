"""Pushes an attempt's log as it grows, then its end. Reads only; sleeps in the kernel until something changes."""

import base64
import ctypes
import os
import select
import time

import places
import replies
import state

CHUNK_BYTES = 49152
PARTIAL_LINE_S = 0.5
LOOK_S = 0.2
GATHER_S = 0.005
IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100


class Changes:
    """Waits for a change in a folder, or for the end of standard input (the reader is gone)."""

    def __init__(self, folder):
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN | select.POLLHUP)
        self.handle = self._watch(folder)
        if self.handle >= 0:
            self.poll.register(self.handle, select.POLLIN)

    def _watch(self, folder):
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if handle >= 0 and libc.inotify_add_watch(handle, folder.encode(), IN_MODIFY | IN_MOVED_TO | IN_CREATE) < 0:
                os.close(handle)
                return -1
            return handle
        except (OSError, AttributeError):
            return -1

    def wait(self):
        """Wait at most `LOOK_S` (a tenth of it where the kernel tells nothing); False once the reader is gone."""
        for handle, _ in self.poll.poll((LOOK_S if self.handle >= 0 else LOOK_S / 10) * 1000):
            if handle == 0 and not os.read(0, 4096):
                return False
            if handle == self.handle:
                os.read(handle, 65536)
        return True


def follow(run_id, attempt, offset):
    """Say {"offset", "data"} lines from `offset` on, then {"exit"}, or {"vanished"} where nobody recorded an end."""
    folder = places.attempt_folder(run_id, attempt)
    if not os.path.exists(os.path.join(folder, "pid.json")):
        raise places.Refused("unknown", "run %s, attempt %s never started here" % (run_id, attempt))
    changes, looked = Changes(folder), 0.0
    with open(os.path.join(folder, "train.log"), "rb") as log:
        pushed = Pushed(log, int(offset))
        while True:
            if not pushed.some(final=False):
                if os.path.exists(os.path.join(folder, "exit.json")) or time.monotonic() - looked > LOOK_S:
                    looked, now = time.monotonic(), state.of_attempt(run_id, attempt)
                    if not now["alive"]:
                        pushed.rest()
                        return {"exit": now["exit"]} if now["exit"] else {"vanished": now}
                if not changes.wait():
                    return None
            time.sleep(GATHER_S)


class Pushed:
    """How far the log has been said."""

    def __init__(self, log, offset):
        self.log, self.offset, self.held_since = log, offset, 0.0

    def some(self, final):
        """Say the next piece, up to its last line end; a line without one waits a moment. Whether any was said."""
        data = os.pread(self.log.fileno(), CHUNK_BYTES, self.offset)
        end = data.rfind(b"\n") + 1
        if not end and data and not final and len(data) < CHUNK_BYTES:
            self.held_since = self.held_since or time.monotonic()
            if time.monotonic() - self.held_since < PARTIAL_LINE_S:
                return False
        self.held_since = 0.0
        data = data[: end or len(data)]
        if data:
            replies.say({"offset": self.offset, "data": base64.b64encode(data).decode()})
            self.offset += len(data)
        return bool(data)

    def rest(self):
        """Say all that is left."""
        while self.some(final=True):
            pass
