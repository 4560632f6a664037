"""Real machines, without the cloud around them: started, ordered about and tried from inside over SSH."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tpuops.localcloud.core.events import Booted, Crashed, MachineSpec, Notice
from tpuops.localcloud.machines import Machines
from tpuops.localcloud.network import choose_network

CANARY = "CANARY-7f3a9c"


class Site:
    """One cloud's machines, in an event loop of their own thread, with a key that opens the account `alice`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", self.key], check=True)
        self.public = (folder / "key.pub").read_text().strip()
        self.network = choose_network(random.Random())
        self.notices: list[Notice] = []
        self.numbers = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        url = "http://127.0.0.1:9/k-path"
        self.machines = Machines(self.state, url, self.network.ssh_port, self.notices.append)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def spec(self, **changes: Any) -> MachineSpec:
        number = next(self.numbers)
        plain = MachineSpec(
            id=f"{1000 + number}-0", name=f"node-{number}", kind="tpu", project="local-test", zone="us-central1-a",
            address=self.network.address(number), hostname=f"t1v-n-{number}-w-0", accelerator="v3-8", worker=0,
            metadata={"ssh-keys": f"alice:{self.public}"}, boot=1, service_account="robot", scopes=(), devices=8,
        )  # fmt: skip
        return dataclasses.replace(plain, **changes)

    def start(self, spec: MachineSpec) -> Booted:
        after = len(self.notices)
        self.do(self.machines.start(spec))
        return self.notice(Booted, spec.id, after)

    def boot(self, **changes: Any) -> MachineSpec:
        spec = self.spec(**changes)
        self.start(spec)
        return spec

    def order(self, spec: MachineSpec, **order: Any) -> Mapping[str, Any]:
        return self.do(self.machines.order(spec.id, order))

    def notice(self, kind: type, id: str, after: int = 0, within_s: float = 10) -> Any:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for notice in self.notices[after:]:
                if isinstance(notice, kind) and notice.id == id:
                    return notice
                assert not isinstance(notice, Crashed) or notice.id != id, notice
            time.sleep(0.005)
        raise AssertionError(f"no {kind.__name__} of {id} within {within_s} s: {self.notices[after:]}")

    def host_keys(self, spec: MachineSpec) -> tuple[str, ...]:
        """What the machine said of itself when it last booted."""
        booted = [notice for notice in self.notices if isinstance(notice, Booted) and notice.id == spec.id]
        return tuple(booted[-1].host_keys)

    def ssh_argv(self, spec: MachineSpec, *options: str, program: str = "ssh", user: str = "alice") -> list[str]:
        port = "-p" if program == "ssh" else "-P"
        argv = [program, "-F", "none", "-i", str(self.key), port, str(self.network.ssh_port), *options]
        known = self.key.with_name(f"known-{spec.id}")
        told = "".join(f"* {key}\n" for key in self.host_keys(spec))
        if not known.exists() or known.read_text() != told:  # one that logs in already may read it now
            known.write_text(told)
        for option in ("StrictHostKeyChecking=yes", f"UserKnownHostsFile={known}", "IdentitiesOnly=yes",
                       "LogLevel=ERROR", "BatchMode=yes"):  # fmt: skip
            argv += ["-o", option]
        return [*argv, f"{user}@{spec.address}"] if program == "ssh" else argv

    def run(self, spec: MachineSpec, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """The command on the machine, over OpenSSH's client."""
        given = {"timeout": 30, **({"stdin": subprocess.DEVNULL} if "input" not in options else {}), **options}
        argv = [*self.ssh_argv(spec), command]
        return subprocess.run(argv, capture_output=True, text=True, check=False, **given)

    def says(self, spec: MachineSpec, command: str) -> str:
        done = self.run(spec, command)
        assert done.returncode == 0, done
        return done.stdout.strip()

    def connect(self, spec: MachineSpec) -> Any:
        """An asyncssh connection, to be used in a test's own loop."""
        return asyncssh.connect(
            spec.address, self.network.ssh_port, username="alice", client_keys=[str(self.key)],
            known_hosts=("".join(f"* {key}\n" for key in self.host_keys(spec))).encode(), config=None, agent_path=None,
        )  # fmt: skip

    def close(self) -> None:
        self.do(self.machines.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="session")
def user_home() -> Iterator[Path]:
    """A user's home with secrets in every usual place, in force while the machines are set up."""
    folder = Path(tempfile.mkdtemp(prefix="tpuops-user-"))
    for name in (".ssh/id_ed25519", ".ssh/google_compute_engine", ".config/gcloud/credentials.db", ".netrc",
                 ".config/gcloud/application_default_credentials.json", ".aws/credentials"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(CANARY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def site(user_home: Path) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="tpuops-m-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(user_home))
        patch.setenv("SECRET_TOKEN", CANARY)
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(user_home / ".config/gcloud/credentials.db"))
        site = Site(folder)
        (site.state / "endpoint.json").parent.mkdir(parents=True, exist_ok=True)
        (site.state / "endpoint.json").write_text(CANARY)
        site.shared = site.boot()  # type: ignore[attr-defined]
    yield site
    site.close()
    shutil.rmtree(folder)


@pytest.fixture
def machine(site: Site) -> MachineSpec:
    """A machine that tests share and leave as it was."""
    return site.shared  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def fresh(site: Site) -> Iterator[MachineSpec]:
    """A machine of the test's own."""
    spec = site.boot()
    yield spec
    site.do(site.machines.delete(spec.id))
