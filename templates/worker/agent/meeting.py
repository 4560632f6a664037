"""Whether the workers of a slice reach each other: they meet at the first one, on the port that the program meets on.

Several people may look at once, and each of them has a meeting of their own: a worker waits until its own meeting has
the port, and an answer of another's proves the way as well. A run that lives here has the port to itself, and one that
begins meanwhile gets it at once.
"""

import errno
import socket
import time

import state

HELLO = b"tpuops preflight"
LOOK_S = 0.2
AGAIN_S = 0.05
SILENT = 10
"""How often in a row the port may be taken without anybody answering there: one meeting ends as another looks."""


def met(asked):
    """{"problem", "errno", "heard", "shared"}: the workers that called worker 0, and whether another meeting had the
    port for as long as this one waited. None where it is not asked, or a run has the port."""
    if not asked.get("port") or _lives():
        return None
    end = time.monotonic() + float(asked.get("wait_s", 10))
    act = _await if asked["here"] == asked["first"] else _call
    try:
        return act(asked, end)
    except OSError as error:
        return _said(error.strerror or str(error), error.errno)


def _said(problem="", number=0, heard=(), shared=False):
    return {"problem": problem, "errno": number or 0, "heard": sorted(heard), "shared": shared}


def _lives():
    return bool(state.now().get("alive"))


def _await(asked, end):
    door = _opened(asked, end)
    if door is None:
        return _said(shared=True)
    heard = set()
    with door:
        while len(heard) < int(asked["others"]) and time.monotonic() < end:
            if _lives():
                return None
            door.settimeout(max(0.01, min(LOOK_S, end - time.monotonic())))
            try:
                caller, _ = door.accept()
            except socket.timeout:
                continue
            with caller:
                caller.settimeout(2)
                heard |= _hear(caller, asked)
    return _said(heard=heard)


def _opened(asked, end):
    """The port, as soon as no other meeting has it; None where one had it until the end. Raises `OSError`: taken."""
    silent = 0
    while time.monotonic() < end:
        door = socket.socket(_family(asked["here"]), socket.SOCK_STREAM)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((asked["here"], int(asked["port"])))
            door.listen(64)
            return door
        except OSError as error:
            door.close()
            silent = 0 if _is_a_meeting(asked) else silent + 1
            if error.errno != errno.EADDRINUSE or silent == SILENT:
                raise
        time.sleep(AGAIN_S)
    return None


def _is_a_meeting(asked):
    try:
        return _greeted(asked, -1, 1.0).startswith(HELLO)
    except OSError:
        return False


def _hear(caller, asked):
    """The number of a worker of this meeting; who is of another one is told so, and a stranger nothing."""
    try:
        words = caller.makefile("rb").readline(100).split(b" ")
        if b" ".join(words[:2]) != HELLO:
            return set()
        caller.sendall(_hello(asked))
        return {int(words[3])} if words[2] == _name(asked) else set()
    except (OSError, ValueError, IndexError):
        return set()


def _call(asked, end):
    said = None
    while said is None or time.monotonic() < end:
        try:
            reply = _greeted(asked, int(asked["worker"]), max(0.2, min(3.0, end - time.monotonic())))
            if reply == _hello(asked):
                return _said()
            shared = reply.startswith(HELLO)
            said = _said("" if shared else "something else answers there", shared=shared)
        except OSError as error:
            said = _said(error.strerror or str(error) or "no answer", error.errno)
        time.sleep(AGAIN_S)
    return said


def _greeted(asked, worker, wait_s):
    """What is answered at the first worker. Raises `OSError` where nothing is."""
    with socket.create_connection((asked["first"], int(asked["port"])), wait_s) as line:
        line.sendall(b"%s %s %d\n" % (HELLO, _name(asked), worker))
        return line.makefile("rb").readline(100)


def _hello(asked):
    return b"%s %s\n" % (HELLO, _name(asked))


def _name(asked):
    return str(asked.get("meeting", "")).encode()


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET
