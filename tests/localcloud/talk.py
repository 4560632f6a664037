"""Speaks to a core without any wire, in virtual time."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tpuops.localcloud.core.core import Core
from tpuops.localcloud.core.events import Booted, Event, LogLine, StartMachine
from tpuops.localcloud.core.profile import INSTANT, Profile
from tpuops.localcloud.core.wire import Reply, Request
from tpuops.localcloud.core.world import World

ZONE = "/v2/projects/local-p/locations/us-central1-a"
NODES = f"{ZONE}/nodes"
COMPUTE = "/compute/v1/projects/local-p/zones/us-central1-a"
INSTANCES = f"{COMPUTE}/instances"
START = 1_800_000_000.0


class Talk:
    """A core, the time there, and every event so far."""

    def __init__(self, faults: Any = None, profile: Profile = INSTANT, world: World | None = None) -> None:
        self.world = World() if world is None else world
        self.now = START
        self.core = Core(self.world, faults, profile, seed=7, now=START)
        self.events: list[Event] = []

    def raw(self, verb: str, path: str, body: Any = b"", headers: dict[str, str] | None = None, **query: str) -> Reply:
        """One request; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply, events = self.core.handle(Request(verb, path, query, headers or {}, data), self.now)
        self.events += events
        return reply

    def call(self, verb: str, path: str, body: Any = b"", **query: str) -> tuple[int, Any]:
        """Status and JSON of one request."""
        reply = self.raw(verb, path, body, None, **query)
        return reply.status, json.loads(reply.body) if reply.body else None

    def wait(self, passing_s: float = 10.0) -> None:
        """Let time pass, alarm by alarm, as the server does."""
        end = self.now + passing_s
        while (due := self.core.next_due(self.now)) is not None and due <= end:
            self.now = max(self.now, due)
            self.events += self.core.advance(self.now)
        self.now = end
        self.events += self.core.advance(self.now)

    def boot(self) -> None:
        """Have every machine that was started report that it booted."""
        for event in [event for event in self.events if isinstance(event, StartMachine)]:
            notice = Booted(event.machine.id, ("ssh-ed25519 AAAAkey", "ssh-rsa BBBBkey"))
            self.events += self.core.tell(notice, self.now)

    def reached(self, machine: str, index: int, step: int) -> None:
        """Have a machine report a training step."""
        self.events += self.core.tell(LogLine(machine, index, step), self.now)

    def node(self, name: str = "n1", **fields: Any) -> dict[str, Any]:
        """Create a node, let it become ready, and give it back."""
        body = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base", **fields}
        status, operation = self.call("POST", NODES, body, nodeId=name)
        assert status == 200, operation
        self.wait()
        return self.call("GET", f"{NODES}/{name}")[1]

    def vm(self, name: str = "vm1", **fields: Any) -> dict[str, Any]:
        """Insert an instance, let it run, and give it back."""
        status, operation = self.call("POST", INSTANCES, instance(name, **fields))
        assert status == 200, operation
        self.wait(2)
        return self.call("GET", f"{INSTANCES}/{name}")[1]

    def put(self, name: str, data: bytes, **query: str) -> tuple[int, Any]:
        """Upload an object into bucket `bkt` in one piece."""
        return self.call("POST", "/upload/storage/v1/b/bkt/o", data, uploadType="media", name=name, **query)

    def bucket(self, name: str = "bkt") -> None:
        """Create a bucket."""
        assert self.call("POST", "/storage/v1/b", {"name": name}, project="local-p")[0] == 200

    def object(self, name: str) -> str:
        """The path of an object in bucket `bkt`."""
        return f"/storage/v1/b/bkt/o/{quote(name, safe='')}"


def instance(name: str, **fields: Any) -> dict[str, Any]:
    """A small instance as clients ask for it."""
    return {
        "name": name,
        "machineType": "zones/us-central1-a/machineTypes/e2-small",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "10"}}],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{"name": "external-nat"}]}],
        "serviceAccounts": [{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        **fields,
    }
