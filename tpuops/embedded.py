"""The embedded cloud as seen from outside: a process with a state folder, and the only room that knows it exists.

Starts, finds and ends `python -m tpuops.localcloud` and nothing more: what it answers is learnt on the wire, as with
Google. It is found by the file it writes when it is ready (`endpoint.json`) and believed only while the process named
there lives. It outlives whoever started it, until it is told to stop.
"""

from __future__ import annotations

import asyncio
import fcntl
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tpuops.clock import Clock, SystemClock
from tpuops.errors import AccessError, EnvironmentFileError, TpuopsError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.02
REFUSED = 2
"""The exit code of an embedded cloud that will not begin, after one line saying why and perhaps a `hint: ` line."""

OWN_FILES = frozenset({"endpoint.json", "cloud.sqlite", "cloud.lock", "cloud.log", "start.lock"})


@dataclass(frozen=True, slots=True)
class Stage:
    """A running embedded cloud: `url` with its path key and no slash at the end, the SSH port of all its machines.

    `tunnel` is where Identity-Aware Proxy's tunnels begin, `certificate` the file that proves it.
    """

    url: str
    ssh_port: int
    pid: int
    tunnel: str = ""
    certificate: str = ""


def folder() -> Path:
    """Where the embedded cloud keeps its state: `cloud/` in TPUOPS_STATE, or in the user's state folder."""
    given = os.environ.get("TPUOPS_STATE")
    if given:
        return Path(given).expanduser().absolute() / "cloud"
    import platformdirs  # noqa: PLC0415 - a task that never meets the embedded cloud need not load it

    return Path(platformdirs.user_state_dir("tpuops")) / "cloud"


def status(state: Path) -> Stage | None:
    """The cloud that lives on `state`, or None."""
    try:
        endpoint = json.loads((state / "endpoint.json").read_bytes())
        stage = Stage(
            url=endpoint["url"].rstrip("/"),
            ssh_port=int(endpoint["ssh_port"]),
            pid=int(endpoint["pid"]),
            tunnel=endpoint.get("tunnel", ""),
            certificate=endpoint.get("certificate", ""),
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return stage if _is_cloud(stage.pid, state) else None


async def ensure(state: Path, *, faults: Path | None = None, clock: Clock | None = None) -> Stage:
    """Find the cloud on `state` or start one, then hand it `faults`, a fault script in YAML or JSON.

    Returns when it answers. Raises `AccessError` with its own words where it refuses to start (no sandbox, another
    system than Linux), `EnvironmentFileError` where it refuses the script, `TpuopsError` where it does not come up in
    30 s.
    """
    if not sys.platform.startswith("linux"):
        raise AccessError(f"the embedded cloud runs on Linux, and this is {sys.platform}", hint="use a Linux machine")
    clock = clock or SystemClock()
    running = status(state)
    if running is None:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with _starting(state, clock):
            running = status(state) or await _start(state, clock)
    if faults is not None:
        await asyncio.to_thread(_arm, running, faults)
    return running


async def stop(state: Path, *, clock: Clock | None = None) -> bool:
    """End the cloud and everything in it; whether there was one. Its state stays for the next start."""
    clock, serving = clock or SystemClock(), _serving(state)
    if serving is None:
        (state / "endpoint.json").unlink(missing_ok=True)
        return False
    family = _session(serving) | {serving}
    _send(serving, signal.SIGTERM)
    if not await _gone({serving}, clock, STOP_TIMEOUT_S):
        _send(serving, signal.SIGKILL)
    family |= _session(serving)
    for pid in family:
        _send(pid, signal.SIGKILL)
    if not await _gone(family, clock, STOP_TIMEOUT_S):
        raise TpuopsError(f"the embedded cloud (process {serving}) does not end", hint=f"ps -g {serving}")
    (state / "endpoint.json").unlink(missing_ok=True)
    return True


async def reset(state: Path, *, clock: Clock | None = None) -> bool:
    """Stop it and forget everything it held; whether there was anything.

    Raises `AccessError` where `state` holds no embedded cloud's files: a mistyped folder must not be emptied.
    """
    await stop(state, clock=clock)
    if not state.exists() or not any(state.iterdir()):
        return False
    if not any((state / name).exists() for name in OWN_FILES):
        raise AccessError(f"{state} is not an embedded cloud's folder", hint="set TPUOPS_STATE to the right one")
    await asyncio.to_thread(shutil.rmtree, state)
    return True


def ask(stage: Stage, verb: str, path: str, body: bytes = b"") -> Mapping[str, Any]:
    """One question to the cloud's own `/_cloud/...` paths. Raises `TpuopsError` where it does not answer well."""
    parts = urlsplit(stage.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request(verb, parts.path + path, body=body)
        reply = connection.getresponse()
        data = reply.read()
    except (OSError, http.client.HTTPException) as error:
        raise TpuopsError(f"the embedded cloud does not answer: {error}", hint="tpuops cloud.start") from error
    finally:
        connection.close()
    if reply.status != 200:
        raise _Declined(f"the embedded cloud refused {verb} {path}", evidence=[_reason(data)])
    document: Mapping[str, Any] = json.loads(data or b"{}")
    return document


class _Declined(TpuopsError):
    """It answered, and the answer was no; `evidence` says why."""


def _reason(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:400]


def _arm(stage: Stage, faults: Path) -> None:
    try:
        script = yaml.safe_load(faults.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EnvironmentFileError(f"{faults} is not YAML", evidence=str(error).splitlines()) from error
    except OSError as error:
        raise EnvironmentFileError(f"{faults} cannot be read: {error.strerror}") from error
    try:
        ask(stage, "POST", "/_cloud/faults", json.dumps(_plain(script or [])).encode())
    except _Declined as error:
        raise EnvironmentFileError(f"{faults} is no fault script", evidence=error.evidence) from error


def _plain(value: Any) -> Any:
    """YAML 1.1 reads the key `on` as true; put the word back."""
    if isinstance(value, dict):
        return {"on" if key is True else str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


async def _start(state: Path, clock: Clock) -> Stage:
    if (serving := _serving(state)) is not None:
        raise AccessError(
            f"process {serving} is the embedded cloud of {state}, and its endpoint.json cannot be read",
            hint="tpuops cloud.stop ends it, and what it holds stays",
        )
    log = state / "cloud.log"
    said_before = log.stat().st_size if log.exists() else 0
    (state / "endpoint.json").unlink(missing_ok=True)
    process = _spawn(state, log)
    deadline = clock.monotonic() + START_TIMEOUT_S
    try:
        while clock.monotonic() < deadline:
            stage = status(state)
            if stage is not None:
                return stage
            if process.poll() is not None:
                raise _refusal(log, said_before, process.returncode)
            await clock.sleep(LOOK_EVERY_S)
        raise TpuopsError(f"the embedded cloud is not ready after {START_TIMEOUT_S:.0f} s", evidence=_tail(log, 0))
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        # It is meant to outlive us: Popen must neither wait for it nor complain that nobody did.
        process.returncode = process.returncode or 0


@asynccontextmanager
async def _starting(state: Path, clock: Clock) -> AsyncIterator[None]:
    """Of several commands that need a cloud at once, one starts it and the others find it."""
    lock = _private(str(state / "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await clock.sleep(LOOK_EVERY_S)
        yield
    finally:
        os.close(lock)


def _spawn(state: Path, log: Path) -> subprocess.Popen[bytes]:
    # -P: its working folder must not become a place to import from.
    command = [sys.executable, "-P", "-m", "tpuops.localcloud", "serve", "--state", str(state.absolute())]
    with open(log, "ab", opener=_private) as out:
        # A session of its own: Ctrl-C here must not reach it, and its family can be found by the session's number.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=state, start_new_session=True
        )


def _private(path: str, flags: int) -> int:
    """Nobody else on this machine reads its files."""
    return os.open(path, flags, 0o600)


def _refusal(log: Path, said_before: int, code: int) -> TpuopsError:
    """Its own last words where it refused; the end of its log where it broke."""
    lines = _tail(log, said_before)
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    words = [line for line in lines if not line.startswith("hint: ")]
    if code == REFUSED and words:
        return AccessError(words[-1], hint=hints[-1] if hints else f"read {log}")
    return TpuopsError("the embedded cloud ended while starting", evidence=lines, hint=f"read {log}")


def _tail(log: Path, offset: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace").splitlines()[-12:]


def _serving(state: Path) -> int | None:
    """The process of the cloud on `state`, also where the file that names it was spoilt."""
    found = status(state)
    if found is not None:
        return found.pid
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return next((pid for pid in pids if _is_cloud(pid, state)), None) if Path("/proc/self").exists() else None


def _is_cloud(pid: int, state: Path) -> bool:
    """Whether `pid` lives and is the cloud of `state`: the number alone may have passed to a stranger.

    Two people on one machine may share a cloud, the one's folder being a link to the other's.
    """
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    folders = {os.fsencode(state.absolute()), os.fsencode(state.resolve())}
    return b"tpuops.localcloud" in words and not folders.isdisjoint(words)


def _session(leader: int) -> set[int]:
    """Living processes of the session that `leader` began."""
    members = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # After the name in brackets: state, parent, process group, session (proc_pid_stat(5)).
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == leader and fields[0] not in (b"Z", b"X"):
                    members.add(int(entry.name))
    return members


async def _gone(pids: set[int], clock: Clock, timeout_s: float) -> bool:
    deadline = clock.monotonic() + timeout_s
    while any(_lives(pid) for pid in pids):
        if clock.monotonic() > deadline:
            return False
        await clock.sleep(LOOK_EVERY_S)
    return True


def _lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X")


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
