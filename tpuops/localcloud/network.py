"""Loopback addresses for machines, and the port their sshd answers on.

Every cloud takes a random 127.A.B.0/24, so that two clouds on one host do not meet. Port 22 is used where it may be
bound there (unmodified gcloud connects to no other); otherwise one high port serves all machines.
"""

from __future__ import annotations

import errno
import random
import socket
from dataclasses import dataclass

_TRIES = 50
_MOST_MACHINES = 253


@dataclass(frozen=True, slots=True)
class Network:
    """The cloud's share of loopback: `prefix` is `127.A.B`."""

    prefix: str
    ssh_port: int

    def address(self, number: int) -> str:
        """The address of the `number`-th machine, counted from 0; ValueError beyond the /24."""
        if not 0 <= number < _MOST_MACHINES:
            raise ValueError(f"machine {number}: one embedded cloud has {_MOST_MACHINES} addresses")
        return f"{self.prefix}.{number + 2}"


def choose_network(draw: random.Random) -> Network:
    """A free share of loopback. OSError where no port can be bound at all."""
    for _ in range(_TRIES):
        prefix = f"127.{draw.randint(16, 254)}.{draw.randint(0, 254)}"
        port = draw.randint(20000, 29999)  # below the range the kernel hands out to clients
        for candidate in (22, port):
            if _free(f"{prefix}.1", candidate):
                return Network(prefix, candidate)
    raise OSError(errno.EADDRINUSE, "no loopback address has a free port for sshd")


def _free(address: str, port: int) -> bool:
    try:
        listening(address, port).close()
    except OSError:
        return False
    return True


def listening(address: str, port: int) -> socket.socket:
    """A socket bound to the address, for a machine's sshd to listen on. OSError where it may not be bound."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound
