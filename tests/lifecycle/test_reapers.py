"""Machines whose controller is gone end by themselves, and only then: over the wire, in scaled time.

`abandoned` is seconds here instead of minutes; everything that follows from it (renewals, when a controller knows that
it lost its lease, how often reapers look) is scaled with it. One embedded cloud holds all the fates at once, so that
each is the other's control.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.lifecycle.bodies import INSTANCES, NODES, PLACE, instance, node, queued
from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill
from tpuops import embedded, switch
from tpuops.resources import Owned
from tpuops.stages.holders import Holder

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]

GRACE_S = 12.0
MARGIN_S = 75.0
"""Looks, the training's end, its outputs and the deletions, on a machine that does much else at once."""

TERMS = switch.terms(timedelta(seconds=GRACE_S))


@pytest.fixture
def hurried(user: User) -> Iterator[User]:
    """The user with environments whose machines wait seconds: killed (with a VM), stopped, cut off and living."""
    user.write(TRAINER)
    text = ENVIRONMENT.replace("<steps>", "100000").replace("<pace>", "0.05").replace("<interrupt>", "keep")
    text = text.replace("<success>", "delete").replace("<failure>", "delete")
    text += f"limits: {{abandoned: {GRACE_S:.0f}s}}\n"
    for name, vm in (("killed", "{machine_type: e2-small}"), ("stopped", "none"), ("cut", "none"), ("living", "none")):
        path = user.folder / "environments" / f"{name}.yaml"
        path.write_text(text.replace("{machine_type: e2-small}", vm))
    user.run("cloud.start")
    yield user


class Way:
    """The controller's way to the cloud, which can be cut: connections break, and new ones are refused."""

    def __init__(self, port: int, at: int = 0) -> None:
        self._target, self._ends = ("127.0.0.1", port), set[socket.socket]()
        self._door = socket.create_server(("127.0.0.1", at))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.create_connection(self._target)
                self._ends |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """From now on nothing passes."""
        for end in (self._door, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def through(user: User, port: int) -> Iterator[None]:
    """What is started meanwhile looks for the cloud at that port."""
    endpoint = user.state / "endpoint.json"
    real = endpoint.read_text()
    told = json.loads(real)
    real_port = str(urlsplit(told["url"]).port)
    endpoint.write_text(json.dumps({**told, "url": told["url"].replace(f":{real_port}/", f":{port}/")}))
    yield
    endpoint.write_text(real)


def ask(user: User, verb: str, path: str, body: Any = None) -> Any:
    stage = embedded.status(user.state)
    assert stage is not None
    return embedded.ask(stage, verb, path, b"" if body is None else json.dumps(body).encode())


def names(user: User) -> set[str]:
    """Everything that stands and bills: nodes, queued resources, instances."""
    nodes = ask(user, "GET", f"{NODES}/nodes").get("nodes", [])
    queues = ask(user, "GET", f"{NODES}/queuedResources").get("queuedResources", [])
    instances = ask(user, "GET", INSTANCES).get("items", [])
    found = {each["name"].rpartition("/")[2] for each in (*nodes, *instances)}
    return found | {f"queued {each['name'].rpartition('/')[2]}" for each in queues}


def plant(user: User, name: str, owner: str, environment: str) -> None:
    """A TPU that looks nearly like one of ours."""
    labels = Owned(environment, owner).labels
    ask(user, "POST", f"{NODES}/nodes?nodeId={name}", node(labels, {}))


def bucket(user: User) -> str:
    return str(next(each["name"] for each in ask(user, "GET", f"/storage/v1/b?project={PLACE.project}")["items"]))


def queue(user: User, environment: str, *, watches: tuple[str, ...] = ("node",), vm: bool = False) -> None:
    """A TPU from the queue, perhaps with a VM, made with what the product gives its machines; who of them `watches`
    has the product's startup script."""
    owned, name = Owned(environment, "ada"), f"tpuops-{environment}-ada"
    end = datetime.now(UTC) + timedelta(days=1)
    watched = switch.Watched(owned, bucket(user), (PLACE, name), (PLACE, f"{name}-vm") if vm else None, end)
    told = {role: dict(switch.orders(role, watched, TERMS)) if role in watches else {} for role in ("node", "vm")}
    body = queued(name, node(owned.labels, told["node"]))
    ask(user, "POST", f"{NODES}/queuedResources?queuedResourceId={name}", body)
    if vm:
        ask(user, "POST", INSTANCES, instance(f"{name}-vm", owned.labels, told["vm"]))


@contextmanager
def renewed(user: User, *environments: str) -> Iterator[None]:
    """Somebody holds the leases of these environments, until the block ends: then nobody lets go of them."""
    over = threading.Event()
    holder = Holder("t", "ada", "elsewhere", 7, "x", "2026-01-01T00:00:00+00:00", "run", {}, TERMS.ttl_s, TERMS.grace_s)
    where = f"/upload/storage/v1/b/{bucket(user)}/o?uploadType=media&name="

    def renew() -> None:
        for each in environments:
            ask(user, "POST", f"{where}tpuops%2F{each}%2Flease.json", asdict(holder))

    def keep() -> None:
        while not over.wait(TERMS.renew_s):
            renew()

    renew()
    keeping = threading.Thread(target=keep)
    keeping.start()
    try:
        yield
    finally:
        over.set()
        keeping.join()


def stepping(user: User) -> int:
    """How many trainings have written a step; 0 where a folder went while it was being looked through."""
    try:
        return sum(1 for path in user.state.rglob("train.log") if b"step=" in path.read_bytes())
    except FileNotFoundError:
        return 0


def saved(user: User) -> list[str]:
    found = [request["resource"] for request in user.requests() if request["method"] == "storage.objects.insert"]
    return [name for name in found if "/saved/" in name]


def test_machines_end_themselves_exactly_where_nobody_renews_the_lease(
    hurried: User, until: Callable[..., Any]
) -> None:
    user = hurried
    stage = embedded.status(user.state)
    assert stage is not None
    way = Way(urlsplit(stage.url).port or 0)
    with through(user, way.port):
        controllers = {"cut": user.start("run", "--env", "cut")}
        until(lambda: bool(user.requests()))
    controllers |= {name: user.start("run", "--env", name) for name in ("killed", "stopped", "living")}
    until(lambda: stepping(user) == len(controllers), 60)
    decoys = {"tpuops-killed-ada-2": ("ada-2", "killed"), "tpuops-killed-ad": ("ad", "killed")}
    for name, (owner, environment) in decoys.items():
        plant(user, name, owner, environment)
    queue(user, "queued")
    until(lambda: {"queued tpuops-queued-ada", "tpuops-queued-ada"} <= names(user))
    vm = ask(user, "GET", f"{INSTANCES}/tpuops-killed-ada-vm")["scheduling"]
    assert vm["instanceTerminationAction"] == "DELETE"
    assert datetime.fromisoformat(vm["terminationTime"]) > datetime.now(UTC) + timedelta(days=7)
    with renewed(user, "waited", "mute"):
        queue(user, "waited", vm=True)
        queue(user, "mute", vm=True, watches=("vm",))
        time.sleep(GRACE_S * 2.5)
        assert {
            "tpuops-killed-ada",
            "tpuops-killed-ada-vm",
            "tpuops-stopped-ada",
            "tpuops-cut-ada",
            "tpuops-living-ada",
            *(f"{kind}tpuops-{each}-ada" for each in ("waited", "mute") for kind in ("", "queued ")),
            *(f"tpuops-{each}-ada-vm" for each in ("waited", "mute")),
        } <= names(user)

    kill(controllers["killed"])
    controllers["stopped"].send_signal(signal.SIGSTOP)
    way.cut()
    struck = time.monotonic()
    until(lambda: names(user) == {*decoys, "tpuops-living-ada"}, GRACE_S * (1 + switch.BEHIND) + MARGIN_S)
    assert time.monotonic() - struck > GRACE_S / 2, "it was deleted before the lease can have been stale"
    assert controllers["living"].poll() is None
    uploads = saved(user)
    assert len({name for name in uploads if name.endswith("/train.log")}) == 3, uploads
    controllers["cut"].kill()
    _, said = controllers["cut"].communicate()
    assert b"cannot be renewed" in said, said.decode()

    controllers["stopped"].send_signal(signal.SIGCONT)
    _, said = controllers["stopped"].communicate(timeout=60)
    assert controllers["stopped"].returncode == 7, said.decode()
    assert b"reaper" in said
    assert names(user) == {*decoys, "tpuops-living-ada"}
    shown = user.run("lock.show", "--env", "living")
    assert shown["lease"]["doing"] == "run"
