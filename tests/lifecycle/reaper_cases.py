"""The reaper as it runs on a machine, as a process, against an embedded cloud without machines: all cases at once.

Each case is an environment of its own with a node, perhaps a VM, a lease in some state, and what has to stand at the
end. `broken` names what does not hold; a mutant is the same program with one guard taken out of its text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.cloud_fixture import LocalCloud
from tests.lifecycle.bodies import INSTANCES, NODES, PLACE, instance, node, queued
from tpuops import switch, templates
from tpuops.resources import Owned
from tpuops.stages.holders import Holder

GRACE_S = 4.0
LOOK_S = 1.0
LIVES_S = 16.0  # how long the cases are watched: several graces, on a machine that does much else
PATIENCE_S = 90.0  # more, on a machine that is busy
REAL = "real"
BUCKET = "the-reapers-bucket"
TERMS = switch.Terms(1.0, GRACE_S)


@dataclass(frozen=True, slots=True)
class Case:
    """One environment. `lease` is its bytes at the beginning (None: there is none), `renewed` whether somebody goes on
    writing them, `stands` what has to be there at the end.

    Half way somebody deletes the lease (`released`); once the VM is gone, somebody writes it (`taken_back`). Calls of
    `fails` fail, those of `slow` take long. The machine's own clock is `skew_s` ahead.
    """

    name: str
    stands: frozenset[str]
    lease: bytes | None = None
    renewed: bool = False
    role: str = "node"
    vm: bool = False
    foreign_vm: bool = False
    queued: bool = False
    over: bool = False
    fails: str = ""
    slow: str = ""
    released: bool = False
    taken_back: bool = False
    skew_s: int = 0

    @property
    def owned(self) -> Owned:
        return Owned(self.name, "ada")

    @property
    def node(self) -> str:
        return f"tpuops-{self.name}-ada"

    @property
    def path(self) -> str:
        return f"tpuops/{self.name}/lease.json"


HOLDER = Holder("t0", "ada", "laptop", 7, "x", "2026-01-01T00:00:00+00:00", "run", {}, TERMS.ttl_s, TERMS.grace_s)
NEWER = json.dumps({"format": 99, "leader": ["somebody", "new"]}).encode()
GONE, NODE, VM = frozenset[str](), frozenset({"node"}), frozenset({"vm"})
UNREADABLE = {"do": {"error": {"http": 503, "message": "backendError"}}}
CASES = (
    Case("stale", GONE, HOLDER.data(), vm=True),
    Case("renewed", NODE | VM, HOLDER.data(), renewed=True, vm=True),
    Case("none", NODE),
    Case("none-and-over", GONE, over=True),
    Case("renewed-and-over", NODE, HOLDER.data(), renewed=True, over=True),
    Case("not-json", GONE, b"\x00not json"),
    Case("not-json-renewed", NODE, b"\x00not json", renewed=True),
    Case("newer-renewed", NODE, NEWER, renewed=True),
    Case("patient", NODE, replace(HOLDER, grace_s=600.0).data()),
    Case("foreign-vm", VM, HOLDER.data(), vm=True, foreign_vm=True),
    Case("from-the-vm", GONE, HOLDER.data(), role="vm", vm=True),
    Case("unreadable", NODE, HOLDER.data(), fails="storage.objects.get"),
    Case("unwritable", NODE, HOLDER.data(), fails="storage.objects.insert"),
    Case("queued", GONE, queued=True),
    Case("queued-and-met", frozenset({"node", "queue"}), HOLDER.data(), renewed=True, queued=True, released=True),
    Case("taken-back", NODE, HOLDER.data(), vm=True, slow="compute.instances.delete", taken_back=True),
    Case("wrong-clock", NODE, HOLDER.data(), renewed=True, skew_s=7200),
    Case("wrong-clock-late", GONE, HOLDER.data(), skew_s=-7200),
    Case("undeletable-vm", VM, HOLDER.data(), vm=True, fails="compute.instances.delete"),
)


SKEWED = """
import runpy, sys, time
real = time.time
time.time = lambda: real() + {skew_s}
sys.argv = [{program!r}, {folder!r}]
runpy.run_path({program!r}, run_name="__main__")
"""


class Play:
    """Cases on one cloud, each with the reaper's process."""

    def __init__(self, cloud: LocalCloud, folder: Path, name: str, program: bytes) -> None:
        self.cloud, self.folder = cloud, folder / name
        self.folder.mkdir()
        self.program = self.folder / "reaper.pyz"
        self.program.write_bytes(program)
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, case: Case) -> None:
        """Make what stands, and start the reaper on it."""
        end = datetime.now(UTC) + (timedelta(days=-1) if case.over else timedelta(days=1))
        vm_at = (PLACE, f"{case.node}-vm") if case.vm else None
        watched = switch.Watched(case.owned, BUCKET, (PLACE, case.node), vm_at, end)
        if case.lease is not None:
            self.write(case)
        self._node(case, orders("node", watched))
        if case.vm:
            labels = {} if case.foreign_vm else dict(case.owned.labels)
            self.cloud.ask("POST", INSTANCES, instance(f"{case.node}-vm", labels, orders("vm", watched)))
        if case.fails:
            aimed = f"{BUCKET}/tpuops/{case.name}/*" if case.fails.startswith("storage") else f"*/{case.node}-vm"
            on = {"method": case.fails, "resource": aimed}
            self.cloud.add_faults({"faults": [{"on": on, **UNREADABLE}] * 60})
        if case.slow:
            on = {"method": case.slow, "resource": f"*/{case.node}-vm"}
            self.cloud.add_faults({"faults": [{"on": on, "do": {"delay_s": 5.0}}]})
        self._start(case)

    def _node(self, case: Case, metadata: Mapping[str, str]) -> None:
        body = node(case.owned.labels, metadata)
        if case.queued:
            self.cloud.ask("POST", f"{NODES}/queuedResources?queuedResourceId={case.node}", queued(case.node, body))
        else:
            self.cloud.ask("POST", f"{NODES}/nodes?nodeId={case.node}", body)

    def _start(self, case: Case) -> None:
        (folder := self.folder / case.name).mkdir()
        machine = self._machine(case)
        parts = urlsplit(self.cloud.url)
        env = {
            **os.environ,
            "GCE_METADATA_HOST": f"{parts.netloc}{parts.path}/m/{machine}",
            "STORAGE_EMULATOR_HOST": self.cloud.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{self.cloud.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.cloud.url}/compute/v1/",
        }
        with (folder / "log").open("ab") as log:
            skewed = SKEWED.format(program=str(self.program), folder=str(folder), skew_s=case.skew_s)
            command = [sys.executable, "-I", "-S", "-c", skewed]
            self.processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))

    def _machine(self, case: Case) -> str:
        """The id by which the metadata server knows the machine, once it runs: before, it is told nothing."""
        if case.role == "vm":
            return self._running(f"{INSTANCES}/{case.node}-vm")
        return f"{self._running(f'{NODES}/nodes/{case.node}')}-0"

    def _running(self, path: str) -> str:
        until(lambda: {"RUNNING", "READY"} & set(map(str, (self._get(path) or {}).values())) or None)
        return str(self._get(path)["id"])

    def write(self, case: Case) -> None:
        """Write the lease, as its holder renews it."""
        path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={case.path.replace('/', '%2F')}"
        self._raw("POST", path, case.lease or b"")

    def release(self, case: Case) -> None:
        """Delete the lease, as its holder does at the end."""
        self._raw("DELETE", f"/storage/v1/b/{BUCKET}/o/{case.path.replace('/', '%2F')}", b"")

    def _raw(self, verb: str, path: str, data: bytes) -> None:
        request = urllib.request.Request(self.cloud.url + path, data or None, method=verb)
        urllib.request.urlopen(request, timeout=20).close()

    def _get(self, path: str) -> Any:
        try:
            return self.cloud.ask("GET", path)
        except urllib.error.HTTPError as error:
            assert error.code == 404
            return None

    def standing(self, case: Case) -> frozenset[str]:
        """What of a case is there."""
        at = {
            "node": f"{NODES}/nodes/{case.node}",
            "vm": f"{INSTANCES}/{case.node}-vm",
            "queue": f"{NODES}/queuedResources/{case.node}",
        }
        return frozenset(kind for kind, path in at.items() if self._get(path) is not None)

    def wrong(self, case: Case) -> list[str]:
        """What does not stand as it has to, with the end of the reaper's log."""
        stands = self.standing(case)
        log = (self.folder / case.name / "log").read_text()[-1500:]
        found = f"{case.name}: there stand {sorted(stands)}, not {sorted(case.stands)}\n{log}"
        return [found] if stands != case.stands else []

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def orders(role: str, watched: switch.Watched) -> dict[str, str]:
    """As the product gives them, but for looks: many reapers share this machine."""
    given = dict(switch.orders(role, watched, TERMS))
    return {**given, "tpuops-reaper": json.dumps({**json.loads(given["tpuops-reaper"]), "look_s": LOOK_S})}


def until(claim: Callable[[], Any], patience_s: float = 20.0) -> Any:
    deadline = time.monotonic() + patience_s
    while (found := claim()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found is not None
    return found


@contextmanager
def served() -> Iterator[tuple[LocalCloud, Path]]:
    """A cloud without machines, with the bucket."""
    with tempfile.TemporaryDirectory(prefix="tpuops-r-") as folder:
        cloud = LocalCloud(Path(folder) / "cloud", "--seed", "1", "--no-machines")
        cloud.start()
        try:
            cloud.ask("POST", f"/storage/v1/b?project={PLACE.project}", {"name": BUCKET, "location": "US-CENTRAL1"})
            yield cloud, Path(folder)
        finally:
            cloud.stop()


def broken(programs: Mapping[str, tuple[bytes, Sequence[str]]]) -> dict[str, list[str]]:
    """By the name of a program with the names of its cases: what does not end as it has to, in words. All at once."""
    pairs: list[tuple[Play, Case]] = []
    half = threading.Event()
    with served() as (cloud, folder):
        try:
            with _renewing(pairs, half):
                for name, (packed_, chosen) in programs.items():
                    play = Play(cloud, folder, name, packed_)
                    for case in _cases(name, chosen):
                        play.begin(case)
                        pairs.append((play, case))
                time.sleep(LIVES_S / 2)
                half.set()
                time.sleep(LIVES_S / 2)
                end = time.monotonic() + PATIENCE_S
                while not _settled(found := _wrong(programs, pairs)) and time.monotonic() < end:
                    time.sleep(1)
        finally:
            for play, _ in pairs:
                play.end()
    return found


def _wrong(programs: Iterable[str], pairs: Sequence[tuple[Play, Case]]) -> dict[str, list[str]]:
    wrong = [(play.folder.name, line) for play, case in pairs for line in play.wrong(case)]
    return {name: [line for of, line in wrong if of == name] for name in programs}


def _settled(found: Mapping[str, list[str]]) -> bool:
    # Waiting longer can change nothing: the real one is right, and every mutant is noticed.
    return all(bool(lines) == (name != REAL) for name, lines in found.items())


def _cases(name: str, chosen: Sequence[str]) -> list[Case]:
    """The cases of these names, or all of them, as environments of their own."""
    return [replace(case, name=f"{case.name}-{name}") for case in CASES if not chosen or case.name in chosen]


@contextmanager
def _renewing(pairs: Sequence[tuple[Play, Case]], half: threading.Event) -> Iterator[None]:
    """Renew what is renewed, meanwhile; when the half is over, release and take back."""
    over, released = threading.Event(), set()

    def renew() -> None:
        while not over.wait(0.8):
            for play, case in list(pairs):
                if half.is_set() and case.released:
                    if case not in released:
                        play.release(case)
                    released.add(case)
                elif case.renewed or (case.taken_back and "vm" not in play.standing(case)):
                    play.write(case)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def program() -> bytes:
    """The reaper as it is."""
    return packed({path.name: path.read_text() for path in templates.folder("worker/reaper").glob("*.py")})


def mutated(module: str, guard: str, instead: str) -> bytes:
    """The reaper with one guard replaced in its text."""
    texts = {path.name: path.read_text() for path in templates.folder("worker/reaper").glob("*.py")}
    assert texts[module].count(guard) == 1, f"{module} has {texts[module].count(guard)} of {guard!r}"
    return packed({**texts, module: texts[module].replace(guard, instead)})


def packed(texts: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
        file.seek(0)
        return file.read()
