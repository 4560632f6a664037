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
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.lifecycle.conftest import ENVIRONMENT, TRAINER, User, kill
from tpuops import embedded, switch
from tpuops.resources import Owned, Place

pytestmark = [pytest.mark.wire, pytest.mark.timeout(400)]

GRACE_S = 12.0
MARGIN_S = 75.0
"""Looks, the training's end, its outputs and the deletions, on a machine that does much else at once."""

PLACE = Place("local-tests", "us-central1-a")
NODES = f"/v2/projects/{PLACE.project}/locations/{PLACE.zone}"
INSTANCES = f"/compute/v1/projects/{PLACE.project}/zones/{PLACE.zone}/instances"


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

    def __init__(self, port: int) -> None:
        self._target, self._ends = ("127.0.0.1", port), set[socket.socket]()
        self._door = socket.create_server(("127.0.0.1", 0))
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
def through(user: User, way: Way) -> Iterator[None]:
    """What is started meanwhile reaches the cloud by that way."""
    endpoint = user.state / "endpoint.json"
    real = endpoint.read_text()
    told = json.loads(real)
    port = str(urlsplit(told["url"]).port)
    endpoint.write_text(json.dumps({**told, "url": told["url"].replace(f":{port}/", f":{way.port}/")}))
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
    node = {
        "acceleratorType": "v3-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": dict(Owned(environment, owner).labels),
    }
    ask(user, "POST", f"{NODES}/nodes?nodeId={name}", node)


def queue(user: User, name: str) -> None:
    """A queued resource as a controller leaves it that died while it waited: nobody will come."""
    owned = Owned("queued", "ada")
    bucket = next(each["name"] for each in ask(user, "GET", f"/storage/v1/b?project={PLACE.project}")["items"])
    end = datetime.now(UTC) + timedelta(days=1)
    watched = switch.Watched(owned, bucket, (PLACE, name), None, end)
    metadata = switch.orders("node", watched, switch.terms(timedelta(seconds=GRACE_S)))
    node = {
        "acceleratorType": "v3-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": dict(owned.labels),
        "metadata": dict(metadata),
    }
    spec = {"parent": NODES[4:], "nodeId": name, "node": node}
    ask(user, "POST", f"{NODES}/queuedResources?queuedResourceId={name}", {"tpu": {"nodeSpec": [spec]}})


def stepping(user: User) -> int:
    """How many trainings have written a step."""
    return sum(1 for path in user.state.rglob("train.log") if b"step=" in path.read_bytes())


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
    with through(user, way):
        controllers = {"cut": user.start("run", "--env", "cut")}
        until(lambda: bool(user.requests()))
    controllers |= {name: user.start("run", "--env", name) for name in ("killed", "stopped", "living")}
    until(lambda: stepping(user) == len(controllers), 60)
    decoys = {"tpuops-killed-ada-2": ("ada-2", "killed"), "tpuops-killed-ad": ("ad", "killed")}
    for name, (owner, environment) in decoys.items():
        plant(user, name, owner, environment)
    queue(user, "tpuops-queued-ada")
    until(lambda: {"queued tpuops-queued-ada", "tpuops-queued-ada"} <= names(user))
    vm = ask(user, "GET", f"{INSTANCES}/tpuops-killed-ada-vm")["scheduling"]
    assert vm["instanceTerminationAction"] == "DELETE"
    assert datetime.fromisoformat(vm["terminationTime"]) > datetime.now(UTC) + timedelta(days=7)
    time.sleep(GRACE_S)
    assert {
        "tpuops-killed-ada",
        "tpuops-killed-ada-vm",
        "tpuops-stopped-ada",
        "tpuops-cut-ada",
        "tpuops-living-ada",
    } <= names(user)

    kill(controllers["killed"])
    controllers["stopped"].send_signal(signal.SIGSTOP)
    way.cut()
    struck = time.monotonic()
    until(lambda: names(user) == {*decoys, "tpuops-living-ada"}, GRACE_S + MARGIN_S)
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
