"""The one way out of a machine whose network is closed: connections to the cloud itself, handed in one by one.

Such a machine has a network of its own with nothing in it. Whenever one of its programs calls the cloud's address,
the machine's first process asks here, and gets a connection to the cloud's port and to nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket


class Doorway:
    """The cloud's side. `inside` is what the machine gets; close both with the machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ours, self.inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        asyncio.get_running_loop().add_reader(self._ours, self._asked)

    def close(self) -> None:
        """Hand out nothing any more."""
        asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()

    def _asked(self) -> None:
        try:
            if not self._ours.recv(1):
                self.close()
                return
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
                socket.send_fds(self._ours, [b"c"], [connection.fileno()])
        except BlockingIOError:
            return
        except OSError:
            with contextlib.suppress(OSError):
                self._ours.send(b"-")
