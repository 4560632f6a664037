"""With an embedded cloud nothing may slip through to the real one: the process loses the way out.

Once asked for it holds for the life of the process; Python's audit hooks cannot be removed, which is the point.
"""

from __future__ import annotations

import sys
from typing import Any

from tpuops.cloud.endpoints import Endpoints, is_loopback
from tpuops.errors import Refused

_WATCHED = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_state = {"confined": False}


def confine(endpoints: Endpoints) -> None:
    """Make any connection of this process to anything but this machine an error, if `endpoints` are local ones.

    Calling it again changes nothing; with Google's endpoints it does nothing.
    """
    if endpoints.local and not _state["confined"]:
        _state["confined"] = True
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED or len(arguments) < 2:
        return
    address = arguments[1]
    # A Unix socket's address is a text, an unconnected sendmsg's is None: neither leaves the machine.
    if isinstance(address, tuple) and not is_loopback(str(address[0])):
        raise Refused(
            f"a connection to {address[0]} was refused: with `cloud: local` nothing leaves this machine",
            method="connect",
            resource=str(address[0]),
        )
