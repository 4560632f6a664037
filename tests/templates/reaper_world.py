"""One TPU and one VM, their bucket and metadata, as the reapers on them see these: small, quick, and easily in trouble.

A deleted machine takes its reaper with it; a reaper that dies is started again, as its startup script does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tpuops import templates

GRACE_S, TTL_S, LOOK_S = 3.0, 1.0, 0.4
NODE, VM = "nodes/n", "instances/n-vm"
LABELS = {"tpuops-env": "e"}
HOLDER: dict[str, Any] = {"token": "t0", "user": "ada", "host": "laptop", "doing": "run", "grace_s": GRACE_S}
Trouble = Callable[["World", str, str, str], tuple[int, bytes] | None]
START = """
import runpy, sys
sys.path.insert(0, {folder!r})
import api, results
asked = api.Google.metadata
api.Google.metadata = lambda self, path: {orders!r} if path.endswith("/tpuops-reaper") else asked(self, path)
results.agent_of = lambda homes="/home": {agent}
sys.argv = ["reaper", {state!r}]
runpy.run_path({folder!r} + "/__main__.py", run_name="__main__")
"""


@dataclass(slots=True)
class Reaper:
    """A reaper's life over all its processes."""

    over: bool = False
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    lives: threading.Thread | None = None

    def end(self) -> None:
        """For good, with the agents that it started."""
        self.over = True
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@dataclass(slots=True)
class Agent:
    """The agent's stand-in in a folder: it says what the files there make it say.

    `ill`: what it does instead of answering `status`, once the file `ill` is there. `asked` lists its commands. A run
    that is told to stop ends with exit code 0, as a program does that saves its state.
    """

    home: Path
    ill: str = "sys.exit(1)"
    run_id: str = "r1"
    slow_collect: bool = False
    program: Path = field(init=False)

    def __post_init__(self) -> None:
        self.program = self.home / "agent.py"
        at = lambda name: repr(str(self.home / name))  # noqa: E731
        self.program.write_text(f"""
import json, os, sys, time
word = sys.argv[1]
open({at("asked")}, "a").write(word + " ")
if word == "status" and os.path.exists({at("ill")}):
    {self.ill}
if word == "stop":
    open({at("stopped")}, "w").close()
if word == "collect" and {self.slow_collect} and not os.path.exists({at("again")}):
    time.sleep(60)
stopped = os.path.exists({at("stopped")})
status = {{"run_id": {self.run_id!r}, "attempt": 1, "alive": not stopped, "log_bytes": 10}}
status["exit"] = {{"code": 0, "signal": 0}} if stopped else None
print(json.dumps({{"ok": status if word == "status" else {{"saved": [], "failed": []}}}}))
""")

    @property
    def words(self) -> str:
        """It, as the reaper's program finds it."""
        return f"results.Agent({str(self.program)!r}, {str(self.home)!r}, {self.run_id!r})"

    @property
    def asked(self) -> list[str]:
        """The commands it was given."""
        path = self.home / "asked"
        return path.read_text().split() if path.exists() else []


class World:
    """The service. `trouble` may answer a call (role of the asker, verb, path) in its stead."""

    def __init__(self, folder: Path, trouble: Trouble = lambda world, role, verb, path: None) -> None:
        self.folder, self.trouble, self.lock = folder, trouble, threading.RLock()
        self.lease: bytes | None = None
        self.generation, self.updated, self.has_bucket = 0, 0.0, True
        self.machines = {NODE: {"name": "n", "labels": LABELS}, VM: {"name": "n-vm", "labels": LABELS}}
        self.reapers: dict[str, Reaper] = {}
        self.calls: list[tuple[str, str]] = []
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Silent."""

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                status, data = world.answer(token, self.command, self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of the library

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def holder(self) -> dict[str, Any]:
        """What the lease says, {} where there is none."""
        return dict(json.loads(self.lease)) if self.lease else {}

    @property
    def stands(self) -> set[str]:
        """The machines that are there."""
        return set(self.machines)

    def write(self, **holder: Any) -> None:
        """Somebody else's write of the lease."""
        with self.lock:
            self.lease = json.dumps({**HOLDER, **holder}).encode()
            self.generation, self.updated = self.generation + 1, time.time()

    def answer(self, role: str, verb: str, url: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of one call."""
        path, query = unquote(urlsplit(url).path), parse_qs(urlsplit(url).query)
        if "/computeMetadata/" in path:
            asker = path.split("/")[1]
            return (200, json.dumps({"access_token": asker}).encode()) if path.endswith("/token") else (404, b"")
        self.calls.append((verb, path))
        if (told := self.trouble(self, role, verb, path)) is not None:
            return told
        with self.lock:
            return self._object(verb, path, query, body) if "/storage/" in path else self._machine(verb, path)

    def _object(self, verb: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        name = query.get("name", [path.partition("/o/")[2]])[0]
        if not self.has_bucket:
            return 404, b"{}"
        if not name.endswith("lease.json"):
            return 200, b'{"generation": "1"}'
        wanted = query.get("ifGenerationMatch")
        if wanted and int(wanted[0]) != (self.generation if self.lease else 0):
            return 412, b"{}"
        if verb == "POST":
            self.lease, self.generation, self.updated = body, self.generation + 1, time.time()
        elif self.lease is None:
            return 404, b"{}"
        elif verb == "DELETE":
            self.lease = None
            return 204, b""
        elif "alt" in query:
            return 200, self.lease
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.updated)) + f"{self.updated % 1:.3f}Z"[1:]
        return 200, json.dumps({"generation": str(self.generation), "updated": stamp}).encode()

    def _machine(self, verb: str, path: str) -> tuple[int, bytes]:
        key = "/".join(path.split("/")[-2:])
        if key not in self.machines:
            return 404, b"{}"
        if verb != "DELETE":
            return 200, json.dumps(self.machines[key]).encode()
        del self.machines[key]
        if key in self.reapers:
            self.reapers[key].end()
        return 200, b'{"name": "operation"}'

    def start(
        self, role: str, agent: str = "None", *, end_s: float = 86400.0, log: str = "", vm: bool = True
    ) -> Reaper:
        """A reaper on the TPU (node) or the VM (vm); `log` is where its words go."""
        at = {"project": "p", "zone": "z"}
        orders = {
            "role": role,
            "bucket": "b",
            "lease": "tpuops/e/lease.json",
            "host_keys": "h/",
            "labels": LABELS,
            "node": {**at, "name": "n"},
            "vm": {**at, "name": "n-vm"} if vm else None,
            "end": time.time() + end_s,
            "ttl_s": TTL_S,
            "grace_s": GRACE_S,
            "behind_s": GRACE_S if role == "vm" else 0.0,
            "boot_s": GRACE_S,
            "doubt_s": 4 * GRACE_S,
            "look_s": LOOK_S,
        }
        state = self.folder / role
        state.mkdir()
        folder = str(templates.folder("worker/reaper"))
        code = START.format(folder=folder, orders=json.dumps(orders), agent=agent, state=str(state))
        reaper = self.reapers[NODE if role == "node" else VM] = Reaper()
        reaper.lives = threading.Thread(target=self._live, args=(reaper, role, code, Path(log or state / "log")))
        reaper.lives.start()
        return reaper

    def _live(self, reaper: Reaper, role: str, code: str, log: Path) -> None:
        where = f"127.0.0.1:{self.server.server_address[1]}"
        env = {
            **os.environ,
            "GCE_METADATA_HOST": f"{where}/{role}",
            "STORAGE_EMULATOR_HOST": f"http://{where}",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://{where}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"http://{where}/compute/v1/",
        }
        command = [sys.executable, "-I", "-S", "-c", code]
        while not reaper.over:
            with log.open("ab") as said:
                process = subprocess.Popen(command, env=env, stdout=said, stderr=said, start_new_session=True)
            reaper.processes.append(process)
            if process.wait() == 0:
                return
            time.sleep(0.5)

    def close(self) -> None:
        """End everybody."""
        for reaper in self.reapers.values():
            reaper.end()
        for reaper in self.reapers.values():
            if reaper.lives is not None:
                reaper.lives.join()
        self.server.shutdown()
        self.server.server_close()


def until(claim: Callable[[], object], patience_s: float) -> bool:
    """Whether it came true in that time."""
    end = time.monotonic() + patience_s
    while not claim():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
