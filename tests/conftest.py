"""What holds for every test: a home of its own, no way out of this machine, and nothing left behind.

The first two are set for each test; the last is looked at when all tests are over, by a mark that every process
started here inherits, and by the real home's folders, which must be as they were.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

REAL_HOME = Path(os.environ.get("TPUOPS_TESTS_HOME", "~")).expanduser()  # told to the processes that share the tests
KEPT_CLEAN = (".config/gcloud", ".ssh", ".tpuops", ".local/state/tpuops")
MARK = f"tpuops-tests-{uuid.uuid4().hex[:12]}"
BASE = Path(tempfile.mkdtemp(prefix="tpuops-t-"))  # short: sockets below it must fit into 107 bytes

UNSET = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "TPUOPS_ENV",
    "TMUX",
    "SSH_AUTH_SOCK",
    "COLUMNS",
    "LINES",
    "PYTHONDONTWRITEBYTECODE",  # each command that is started would compile the whole product anew
)
LONG = ("wire", "gcloud", "slow")


def private(folder: Path) -> dict[str, str]:
    """The variables that put everything a program of ours could remember below `folder`."""
    return {
        "HOME": str(folder),
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_RUNTIME_DIR": str(folder),
        "TMUX_TMPDIR": str(folder),
        "TPUOPS_STATE": str(folder / "tpuops"),
        "TPUOPS_TESTS": MARK,
    }


def pytest_configure() -> None:
    """Fixtures that live longer than a test get a private home too."""
    sys.addaudithook(_stay_on_this_machine)
    os.environ.update(private(BASE), TPUOPS_TESTS_HOME=str(REAL_HOME))
    for name in UNSET:
        os.environ.pop(name, None)


def pytest_unconfigure() -> None:
    """Also where no test ran."""
    shutil.rmtree(BASE, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A machine without gcloud fails the tests that need it, unless it says openly that it has none.

    Files that drive the embedded cloud come first, then the simulation: whoever shares them out to several processes
    has the many short ones left to fill up the end.
    """
    if os.environ.get("TPUOPS_WITHOUT_GCLOUD") == "1":
        left_out = [item for item in items if item.get_closest_marker("gcloud")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    long = {item.path for item in items if any(item.get_closest_marker(mark) for mark in LONG)}
    simulated = Path(__file__).parent / "simulation"
    items.sort(key=lambda item: (item.path not in long, simulated not in item.path.parents))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This test's home, removed after it."""
    folder = Path(tempfile.mkdtemp(dir=BASE))
    for name, value in private(folder).items():
        monkeypatch.setenv(name, value)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_behind() -> Iterator[None]:
    """Fails the session where a process of ours outlives it, or where the real home changed."""
    before = _snapshot()
    yield
    left = processes_left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes outlived their tests: {left}"
    assert _snapshot() == before, f"the tests changed the real home: {_snapshot() ^ before}"


def processes_left(patience_s: float = 5.0) -> dict[int, str]:
    """Processes with our mark, or that work below our folder, which do not end by themselves in `patience_s`."""
    deadline = time.monotonic() + patience_s
    while (left := _marked()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _marked() -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            ours = MARK.encode() in (entry / "environ").read_bytes() or os.fsencode(BASE) in words
        except OSError:
            continue
        if ours and words:  # a zombie has no words, and only waits to be looked at
            found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")[:200]
    return found


def _snapshot() -> set[tuple[str, int, int]]:
    """Every file in the folders of the real home that a careless program would touch."""
    files: set[tuple[str, int, int]] = set()
    for folder in KEPT_CLEAN:
        for path in [REAL_HOME / folder, *(REAL_HOME / folder).rglob("*")]:
            if path.exists():
                stat = path.lstat()
                files.add((str(path), stat.st_mtime_ns, stat.st_size))
    return files


def _stay_on_this_machine(event: str, arguments: tuple[object, ...]) -> None:
    if event != "socket.connect":
        return
    address = arguments[1]
    if isinstance(address, tuple) and not _is_loopback(str(address[0])):
        raise OSError(f"a test tried to connect to {address[0]}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
