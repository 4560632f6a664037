"""Whose host keys are believed: guest attributes before the bucket, and there only what this very machine told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.pure.builders import a_node, a_vm
from tpuops import templates
from tpuops.cloud.port import ObjectStat, StoredObject
from tpuops.errors import AccessError, Conflict, Refused, Transient
from tpuops.remote.known import by_kind
from tpuops.remote.port import Host
from tpuops.stages import hostkeys

MADE = datetime(2026, 11, 20, 12, tzinfo=UTC)
NODE, VM = a_node(created=MADE), a_vm(created=MADE)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZlN8Yz4P1bnyqf3DVdGHBP0dwKhcPGcXFdhpEyGYvk"
FORBIDDEN = Conflict("Request violates constraint 'constraints/compute.disableGuestAttributesAccess'", status=412)
LACKING = AccessError("this login lacks tpu.nodes.getGuestAttributes", kind="permission-denied")
POLICY = AccessError("the organization's policy forbids this", kind="org-policy")
OF_NODE = {"name": f"{NODE.name}-0", "instance": "77", "hostname": "t1v-n-7-w-0", "keys": [KEY]}
OF_VM = {"name": VM.name, "instance": VM.id, "keys": [KEY]}


class Cloud:
    """Guest attributes: keys or a name, or what they are refused with."""

    def __init__(self, answer: tuple[str, ...] | str | Exception) -> None:
        self.answer = answer

    async def host_keys(self, *_: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    vm_host_keys = instance_of = host_keys


def stored(document: Any, after_s: float = 60.0) -> StoredObject:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    at = MADE + timedelta(seconds=after_s)
    return StoredObject(ObjectStat("o", 1, len(data), "", at), data, at)


async def keys(answer: Any, document: Any = OF_NODE, *, index: int = 0, settled: bool = False) -> tuple[str, ...]:
    async def told(name: str) -> StoredObject | None:
        assert name == f"{NODE.name}-{index}"
        return None if document is None else stored(document)

    return await hostkeys.of_worker(Cloud(answer), NODE, index, told, settled)  # type: ignore[arg-type]


async def test_guest_attributes_come_first() -> None:
    assert await keys(("theirs",)) == ("theirs",)


@pytest.mark.parametrize("refusal", [FORBIDDEN, POLICY, Refused("no", status=403)])
async def test_where_policy_refuses_them_the_bucket_tells(refusal: Exception) -> None:
    assert await keys(refusal) == (KEY,)
    assert await keys(refusal, None) == ()


@pytest.mark.parametrize(
    ("answer", "after_s", "name"),
    [
        ("theirs", 60.0, "theirs"),
        ("", 60.0, "t1v-n-7-w-0"),
        (FORBIDDEN, 60.0, "t1v-n-7-w-0"),
        (FORBIDDEN, -1.0, ""),  # an earlier machine's
        (FORBIDDEN, None, ""),
    ],
)
async def test_a_workers_name_as_an_instance_comes_the_same_way(answer: Any, after_s: float | None, name: str) -> None:
    async def told(_: str) -> StoredObject | None:
        return None if after_s is None else stored(OF_NODE, after_s)

    assert await hostkeys.instance_of(Cloud(answer), NODE, 0, told) == name  # type: ignore[arg-type]


async def test_absent_ones_are_waited_for_before_anything_weaker_is_believed() -> None:
    assert await keys((), settled=False) == ()
    assert await keys((), settled=True) == (KEY,)
    assert not hostkeys.grown(NODE, MADE + timedelta(minutes=14))
    assert hostkeys.grown(NODE, MADE + timedelta(minutes=15))


@pytest.mark.parametrize("refusal", [LACKING, Transient("503")])
async def test_another_refusal_is_no_policy(refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        await keys(refusal)


@pytest.mark.parametrize(
    ("machine", "name", "document", "after_s", "is_believed"),
    [
        (NODE, f"{NODE.name}-0", OF_NODE, 0.0, True),
        (NODE, f"{NODE.name}-0", OF_NODE, -0.001, False),  # an earlier machine's
        (replace(NODE, created=None), f"{NODE.name}-0", OF_NODE, 60.0, False),
        (NODE, f"{NODE.name}-1", OF_NODE, 60.0, False),  # another worker's
        (VM, VM.name, OF_VM, 60.0, True),
        (VM, VM.name, OF_VM, -1.0, False),
        (VM, VM.name, {**OF_VM, "instance": "3"}, 60.0, False),
    ],
)
def test_only_what_this_machine_told_counts(
    machine: Any, name: str, document: Any, after_s: float, is_believed: bool
) -> None:
    assert hostkeys.believed(stored(document, after_s), machine, name).keys == ((KEY,) if is_believed else ())


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b'{"keys": 7}', b'{"keys": []}', b"\xff", b'{"name": "n"}'])
def test_what_is_no_such_object_is_refused(data: bytes) -> None:
    with pytest.raises(AccessError) as refused:
        hostkeys.believed(stored(data), NODE, f"{NODE.name}-0")
    assert refused.value.kind == "ssh-host-key-malformed"


@pytest.mark.parametrize("line", [f"{KEY}\n* {KEY}", f"{KEY} * {KEY}", f"* {KEY}", "@cert-authority *", "", KEY[:-9]])
def test_a_line_in_the_object_adds_no_other(line: str) -> None:
    lines = hostkeys.believed(stored({**OF_NODE, "keys": [line]}), NODE, f"{NODE.name}-0").keys
    with pytest.raises(AccessError):
        by_kind(Host("n", "127.0.0.1", "u", lines))


@pytest.fixture
def program() -> Iterator[ModuleType]:
    """The reaper's module `hostkeys`."""
    folder = str(templates.folder("worker/reaper"))
    sys.path.insert(0, folder)
    try:
        import hostkeys as found  # noqa: PLC0415

        yield found
    finally:
        sys.path.remove(folder)
        for name in ("hostkeys", "api"):
            sys.modules.pop(name, None)


class Google:
    """A machine's way to a bucket that fails at first."""

    storage = "http://127.0.0.1"

    def __init__(self, program: ModuleType, worker: str | None, failures: int) -> None:
        self.failed, self.worker, self.failures = program.api.Failed, worker, failures
        self.written: list[tuple[str, Any]] = []

    def metadata(self, path: str) -> str | None:
        known = {"instance/id": "77", "instance/hostname": "t1v-n-7-w-0.us-central1-a.c.p.internal"}
        return {**known, "instance/attributes/agent-worker-number": self.worker}[path]

    def ask(self, verb: str, url: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self.failures:
            self.failures -= 1
            raise self.failed("503")
        self.written.append((f"{verb} {url.partition('name=')[2]}", json.loads(body)))
        return 200, {}


@pytest.mark.parametrize(
    ("role", "worker", "name"), [("node", "3", "n-3"), ("node", "0", "n-0"), ("node", None, "n-0"), ("vm", None, "v")]
)
def test_a_machine_tells_its_public_halves_until_the_bucket_takes_them(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, worker: str | None, name: str
) -> None:
    monkeypatch.setattr(program.time, "sleep", lambda seconds: None)
    (tmp_path / "ssh_host_ed25519_key").write_text("secret")
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(f"{KEY} root@machine\n")
    (tmp_path / "ssh_host_dsa_key.pub").write_text("ssh-dss AAAA root@machine\n")
    (tmp_path / "ssh_host_rsa_key.pub").write_text("rubbish")
    google = Google(program, worker, failures=3)
    orders = {
        "role": role,
        "bucket": "b",
        "host_keys": "tpuops/e/hostkeys/",
        "node": {"name": "n"},
        "vm": {"name": "v"},
    }
    program.publish(google, orders, str(tmp_path / "ssh_host_*_key.pub"), 0.05)
    document = {"name": name, "instance": "77", "hostname": "t1v-n-7-w-0", "keys": [KEY]}
    assert google.written == [(f"POST tpuops%2Fe%2Fhostkeys%2F{name}.json", document)]
