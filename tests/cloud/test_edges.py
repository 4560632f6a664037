"""The small parts around the clients: endpoints, confinement, login, retries, threads, and what importing costs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest
from google.auth import exceptions

from tpuops.cloud.answers import of_http
from tpuops.cloud.credentials import credentials, refusal
from tpuops.cloud.endpoints import at, google, is_loopback
from tpuops.cloud.imports import submodules
from tpuops.cloud.retry import LONGEST_S, TRIES, repeatedly
from tpuops.cloud.threads import Once, Turns, in_thread
from tpuops.errors import AccessError, Conflict, Transient


class FastClock:
    """Sleeping is instant and counted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.slept)

    def elapsed(self) -> float:
        return self.monotonic()

    async def sleep(self, wait_s: float) -> None:
        self.slept.append(wait_s)


def test_local_endpoints_are_on_this_machine_only():
    there = at("http://127.0.0.1:8080/k-abc/", 2222)
    assert (there.tpu, there.local, there.ssh_port) == ("http://127.0.0.1:8080/k-abc", True, 2222)
    for url in ("https://tpu.googleapis.com", "http://127.0.0.1.example.org/", "http://10.0.0.1:80"):
        with pytest.raises(ValueError, match="not on this machine"):
            at(url, 22)
    assert google().local is False
    assert google().ssh_port == 22


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("10.0.0.1", False), ("", False)]
)
def test_loopback_is_told_by_the_address(host, local):
    assert is_loopback(host) is local


PROBE = """
import socket, sys
from tpuops.cloud.confinement import confine
from tpuops.cloud.endpoints import at, google
from tpuops.errors import Refused
confine(google())
confine(at("http://127.0.0.1:1/k", 22)) if sys.argv[1] == "local" else None
confine(at("http://127.0.0.1:1/k", 22)) if sys.argv[1] == "local" else None
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
unix = socket.socketpair(); unix[0].send(b"x")
for family, address in ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9, 0, 0))):
    for verb in ("connect", "sendto"):
        kind = socket.SOCK_STREAM if verb == "connect" else socket.SOCK_DGRAM
        probe = socket.socket(family, kind); probe.settimeout(0.05)
        try:
            probe.connect(address) if verb == "connect" else probe.sendto(b"x", address)
            print("went out")
        except Refused:
            print("refused")
        except OSError:
            print("went out")
"""


@pytest.mark.parametrize(("where", "expected"), [("local", "refused"), ("google", "went out")])
def test_with_local_endpoints_nothing_leaves_the_machine(where, expected):
    done = subprocess.run([sys.executable, "-c", PROBE, where], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[:-1] == [expected] * 4


def test_importing_the_cloud_room_loads_no_client_library():
    code = (
        "import sys, tpuops.cloud, tpuops.cloud.client, tpuops.cloud.confinement, tpuops.cloud.endpoints\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('google', 'requests', 'grpc')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_of_compute_only_the_used_services_are_loaded_and_the_whole_can_be_had_later():
    code = (
        "import sys\n"
        "from tpuops.cloud.compute import _library\n"
        "part = _library()\n"
        "print(sum(name.startswith('google.cloud.compute_v1.services.') for name in sys.modules) < 60)\n"
        "print('google.cloud.compute_v1' in sys.modules)\n"
        "from google.cloud import compute_v1\n"
        "print(compute_v1.InstancesClient is part.InstancesClient, hasattr(compute_v1, 'DisksClient'))\n"
        "print(_library().Instance is compute_v1.Instance)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "True", "True"]


def test_a_package_that_is_not_there_is_said_so():
    with pytest.raises(ModuleNotFoundError):
        submodules("google.cloud.not_there_v1", "x")


def test_local_endpoints_look_for_no_credentials(monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    assert type(credentials(at("http://127.0.0.1:1/k", 22))).__name__ == "AnonymousCredentials"


def test_without_a_login_the_command_is_named(monkeypatch):
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AccessError) as raised:
        credentials(google())
    assert raised.value.hint == "run `gcloud auth application-default login`"
    assert raised.value.exit_code == 3


def test_gclouds_own_login_is_read_without_starting_gcloud(monkeypatch, tmp_path):
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    (tmp_path / "application_default_credentials.json").write_text(json.dumps(login))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    found = credentials(google())
    assert type(found).__name__ == "Credentials"
    assert found.refresh_token == "r"


def test_the_heavy_import_waits_for_the_light_ones():
    turns, order, held = Turns(), [], threading.Event()

    def build(name: str, *, heavy: bool) -> None:
        with turns.taken(heavy=heavy), turns.taken(heavy=heavy):
            order.append(name)
            held.wait(5)

    threads = []
    for name, heavy in (("first", False), ("heavy", True), ("light", False)):
        threads.append(threading.Thread(target=build, args=(name,), kwargs={"heavy": heavy}))
        threads[-1].start()
        time.sleep(0.05)
    held.set()
    for thread in threads:
        thread.join(5)
    assert order == ["first", "light", "heavy"]


def test_a_client_is_built_once_and_a_failed_build_again():
    built: list[int] = []

    def build() -> int:
        built.append(1)
        if len(built) == 1:
            raise ValueError("not yet")
        return len(built)

    once = Once(build)
    with pytest.raises(ValueError, match="not yet"):
        once()
    assert [once(), once()] == [2, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "Reauthentication is needed. Please run `gcloud auth application-default login` to reauthenticate.",
            "confirmed",
        ),
        ("invalid_grant: Bad Request", "expired or was revoked"),
        ("Unable to acquire impersonated credentials", "may not act as"),
        ("something else", "did not work"),
    ],
)
def test_a_login_that_fails_says_what_to_do(text, says):
    assert says in refusal(exceptions.RefreshError(text)).message


@pytest.mark.parametrize(
    "secret", ["ya29.a0AfB_by-canary", "1//03canary-canary", "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl", "GOCSPX-canarycanary"]
)
def test_what_an_answer_quotes_of_a_secret_is_not_passed_on(secret):
    error = refusal(Exception(f"invalid_grant: {secret} is stale to sign-in.", f'{{"error": "{secret}"}}'))
    assert secret not in " ".join([error.message, error.hint, *error.evidence])
    assert "[hidden]" in error.evidence[0]


async def test_only_passing_faults_are_repeated_within_tries_and_time():
    clock, tries = FastClock(), 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise Transient("x")

    with pytest.raises(Transient):
        await repeatedly(fail, clock)
    assert tries == TRIES
    assert len(clock.slept) == TRIES - 1
    assert sum(clock.slept) < LONGEST_S + 10

    async def refuse() -> None:
        nonlocal tries
        tries += 1
        raise Conflict("x")

    tries = 0
    with pytest.raises(Conflict):
        await repeatedly(refuse, clock)
    assert tries == 1


async def test_repeating_stops_when_the_time_is_over_even_with_tries_left():
    clock, tries = FastClock(), 0

    async def slow() -> None:
        nonlocal tries
        tries += 1
        clock.slept.append(LONGEST_S)
        raise Transient("x")

    with pytest.raises(Transient):
        await repeatedly(slow, clock)
    assert tries == 1


@pytest.mark.parametrize(("asked_s", "tries"), [(0.0, TRIES), (11.0, TRIES), (20.0, 3), (LONGEST_S, 1)])
async def test_a_service_that_says_when_to_come_back_is_not_asked_before_nor_past_the_end(asked_s, tries):
    clock, made = FastClock(), 0

    async def fail() -> None:
        nonlocal made
        made += 1
        error = Transient("x")
        error.retry_after_s = asked_s
        raise error

    with pytest.raises(Transient):
        await repeatedly(fail, clock)
    assert (made, len(clock.slept)) == (tries, tries - 1)
    assert all(slept >= asked_s for slept in clock.slept)


@pytest.mark.parametrize(
    ("header", "asked_s"), [("7", 7.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0), ("²", 0.0)]
)
def test_a_header_that_is_no_number_of_seconds_asks_for_nothing(header, asked_s):
    assert of_http(429, b"{}", header).retry_after_s == asked_s


async def test_a_cancelled_call_is_left_behind_at_once():
    gate = threading.Event()
    task = asyncio.create_task(in_thread(gate.wait))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "tpuops-cloud")
    gate.set()


async def test_what_a_thread_raises_arrives_as_it_is():
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_thread(fail)
