"""What the agent sees of its machine: real processes that hold real locks, a real bucket's refusals, real ports."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.templates.machine import RUN, Here, until
from tests.templates.storage_server import StorageServer
from tpuops.remote import readiness
from tpuops.remote.readiness import Readiness

HOLD = (
    "import fcntl, time; f = open({!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)"
)


def looked(here: Here, /, **question: Any) -> Readiness:
    return readiness.read(here.ask("preflight", data=json.dumps(question).encode()))


@contextmanager
def holder(lock: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the accelerator as libtpu has it: a record lock, for as long as it lives."""
    process = subprocess.Popen([sys.executable, "-c", HOLD.format(str(lock))], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_machine_at_rest_is_free_and_changes_nothing(here: Here) -> None:
    before = sorted(here.home.rglob("*"))
    found = looked(here)
    assert (found.holders, found.lock, found.alive, found.source, found.link) == ((), None, False, "", None)
    assert {disk.folder for disk in found.disks} == {"~", "/tmp", "/dev/shm"}
    assert all(disk.free > 0 and disk.problem == "" for disk in found.disks)
    assert [path for path in sorted(here.home.rglob("*")) if path not in before] == [here.home / ".tpuops"]


def test_whoever_holds_the_lock_is_named_with_user_command_and_time(here: Here, lock: Path) -> None:
    with holder(lock, here.env) as process:
        (found,) = looked(here).holders
        assert (found.pid, found.run, found.paths) == (process.pid, "", (str(lock),))
        assert found.user and found.command.startswith(f"{sys.executable} -c import fcntl")
        assert len(found.command) < 220
        assert found.since is not None and abs(found.since.timestamp() - time.time()) < 120


def test_a_lock_is_seen_also_where_its_file_is_not(here: Here, lock: Path) -> None:
    """Another user's open files are hidden; the kernel tells who has a record lock all the same."""
    hidden = (here.program / "devices.py").read_text().replace("os.listdir(folder)", "[]")
    (here.program / "devices.py").write_text(hidden)
    with holder(lock, here.env) as process:
        assert [(each.pid, each.paths) for each in looked(here).holders] == [(process.pid, (str(lock),))]
        assert [pid for pid, _ in here.ask("clear")["held"]] == [process.pid]
        assert lock.exists()


def test_what_a_run_left_is_told_by_its_run_and_a_free_lock_file_is_no_holder(here: Here, lock: Path) -> None:
    with holder(lock, {**here.env, "TPUOPS_RUN_ID": "old"}):
        assert [each.run for each in looked(here).holders] == ["old"]
    found = looked(here)
    assert found.holders == ()
    assert found.lock is not None and found.lock.usable


def test_a_living_run_is_told_and_left_alone(here: Here) -> None:
    pid = here.start("import time; time.sleep(600)")["pid"]
    found = looked(here, versions=True)
    assert (found.alive, found.run_id) == (True, RUN)
    assert here.ask("status")["pid"] == pid
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_bucket_is_written_read_and_left_as_it_was(here: Here, storage: StorageServer) -> None:
    here.env.update(storage.environment())
    found = looked(here, bucket="b", object="tpuops/e/preflight/n-0")
    assert dict(found.stored.troubles) == {}
    assert found.clock_s is not None and abs(found.clock_s) < 30
    assert storage.objects == {}
    verbs = [line.split()[0] for line in storage.requests if "/m/1" not in line]
    assert verbs == ["POST", "GET", "DELETE"]


def test_several_who_look_at_once_do_not_disturb_each_other(here: Here, storage: StorageServer) -> None:
    here.env.update(storage.environment())
    storage.written = threading.Barrier(4, timeout=30)
    with ThreadPoolExecutor(4) as together:
        found = list(together.map(lambda _: looked(here, bucket="b", object="x"), range(4)))
    assert [dict(each.stored.troubles) for each in found] == [{}] * 4
    assert storage.objects == {}


@pytest.mark.parametrize(
    ("pattern", "trouble"), [("POST /upload", "write"), (r"GET .*alt=media", "read"), ("DELETE", "remove")]
)
def test_what_the_bucket_refuses_is_told_in_its_words(
    here: Here, storage: StorageServer, pattern: str, trouble: str
) -> None:
    here.env.update(storage.environment())
    storage.faults.append((pattern, 403))
    found = looked(here, bucket="b", object="x")
    assert list(found.stored.troubles) == [trouble]
    assert "403" in found.stored.troubles[trouble] and "told to fail" in found.stored.troubles[trouble]


def test_a_bucket_that_stumbles_once_is_no_trouble(here: Here, storage: StorageServer) -> None:
    here.env.update(storage.environment())
    storage.faults += [("POST /upload", 503), (r"GET .*alt=media", 0)]
    assert dict(looked(here, bucket="b", object="x").stored.troubles) == {}


def test_an_object_that_comes_back_other_than_it_was_written_is_a_trouble(here: Here, storage: StorageServer) -> None:
    here.env.update(storage.environment())
    storage.spoil.append("x-")
    assert "other bytes" in looked(here, bucket="b", object="x").stored.troubles["read"]


def test_a_folder_that_nothing_can_be_written_to_is_told(here: Here) -> None:
    (here.program / "preflight.py").write_text(
        (here.program / "preflight.py").read_text().replace('"~", "/tmp"', '"/proc", "/tmp"')
    )
    assert {disk.folder: bool(disk.problem) for disk in looked(here).disks}["/proc"]


def workers(here: Here, others: int, calling: int, port: int, meeting: str = "m", wait_s: float = 3) -> list[Readiness]:
    """Worker 0 and `calling` others asked at once, as one machine with one address each."""
    shared = {"port": port, "first": "127.0.0.1", "others": others, "wait_s": wait_s, "meeting": meeting}
    asked = [{**shared, "worker": n, "here": "127.0.0.1" if n == 0 else f"127.0.0.{n + 1}"} for n in range(calling + 1)]
    found: dict[int, Readiness] = {}
    threads = [
        threading.Thread(target=lambda each=each: found.update({each["worker"]: looked(here, **each)}))
        for each in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[each] for each in sorted(found)]


def test_the_workers_meet_at_the_first_one(here: Here, free_port: int) -> None:
    first, second, third = workers(here, 2, 2, free_port)
    assert first.link is not None and first.link.heard == (1, 2)
    assert [each.link.problem for each in (second, third) if each.link] == ["", ""]


def test_a_worker_that_never_calls_is_missed(here: Here, free_port: int) -> None:
    first, _ = workers(here, 2, 1, free_port)
    assert first.link is not None and first.link.heard == (1,)


def test_several_who_look_at_a_slice_at_once_all_find_the_workers_meeting(here: Here, free_port: int) -> None:
    with ThreadPoolExecutor(3) as together:
        looks = list(together.map(lambda name: workers(here, 2, 2, free_port, name, 20), ("a", "b", "c")))
    for first, *others in looks:
        assert first.link is not None and (first.link.problem, first.link.heard) == ("", (1, 2))
        assert [each.link.problem for each in others if each.link] == ["", ""]


def test_a_look_that_never_gets_the_port_says_that_another_one_had_it(here: Here, free_port: int) -> None:
    with ThreadPoolExecutor(1) as together:
        long = together.submit(workers, here, 1, 0, free_port, "long", 8)
        until(lambda: _called(free_port))
        late = workers(here, 1, 1, free_port, "late", 1)
        (first,) = long.result()
    assert [each.link.shared and each.link.problem == "" for each in late if each.link] == [True, True]
    assert first.link is not None and (first.link.heard, first.link.shared) == ((), False)


def test_a_run_has_the_port_to_itself_and_one_that_begins_gets_it_at_once(here: Here, free_port: int) -> None:
    with ThreadPoolExecutor(1) as together:
        looking = together.submit(workers, here, 1, 0, free_port, "m", 30)
        until(lambda: _called(free_port))
        here.start("import time; time.sleep(600)")
        began = time.monotonic()
        (first,) = looking.result()
    assert first.link is None and time.monotonic() - began < 15
    assert [each.link for each in workers(here, 1, 1, free_port)] == [None, None]


def test_a_taken_port_is_told_and_a_stranger_behind_it_is_no_worker(here: Here, stranger: int) -> None:
    first, second = workers(here, 1, 1, stranger)
    assert first.link is not None and first.link.port_taken
    assert second.link is not None and second.link.problem == "something else answers there"


def test_a_stranger_who_calls_is_no_worker(here: Here, free_port: int) -> None:
    question = {"port": free_port, "here": "127.0.0.1", "first": "127.0.0.1", "others": 1, "wait_s": 3, "worker": 0}
    process = here.popen("preflight")
    assert process.stdin is not None
    process.stdin.write(json.dumps(question).encode())
    process.stdin.close()
    process.stdin = None
    until(lambda: _called(free_port))
    out, _ = process.communicate(timeout=30)
    link = readiness.read(json.loads(out.splitlines()[-1])["ok"]).link
    assert link is not None and link.heard == ()


def _called(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as line:
            line.sendall(b"GET /1 HTTP/1.1 11\r\n")
            return True
    except OSError:
        return False


@pytest.fixture
def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@pytest.fixture
def stranger() -> Iterator[int]:
    """Some server that says hello in its own way."""

    class Hello(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"220 mail\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_set_up_apart_from_starting_is_done_once_and_tells_the_versions(here: Here) -> None:
    count = here.home / "count"
    setup = [[sys.executable, "-c", f"open({str(count)!r}, 'a').write('x')"]]
    spec = here.spec("print('step=1')", setup=setup, secrets={"TOKEN": "canary-1234"})
    versions = here.ask("prepare", data=spec)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    status = here.ask("status")
    assert (status["run_id"], status["pid"], status["alive"]) == (RUN, 0, False)
    here.ask("start", data=spec)
    until(lambda: here.ask("status")["exit"])
    assert count.read_text() == "x"
    assert not [path for path in here.home.rglob("*") if path.is_file() and b"canary-1234" in path.read_bytes()]


def test_a_set_up_that_fails_is_refused_with_its_last_lines(here: Here) -> None:
    setup = [[sys.executable, "-c", "print('no such wheel'); raise SystemExit(4)"]]
    refused = here.refused("prepare", data=here.spec("pass", setup=setup))
    assert (refused["kind"], refused["code"]) == ("setup_failed", 4)
    assert "no such wheel" in "\n".join(refused["evidence"])


def test_nothing_is_set_up_under_a_living_run(here: Here) -> None:
    here.start("import time; time.sleep(600)")
    count = here.home / "count"
    setup = [[sys.executable, "-c", f"open({str(count)!r}, 'a').write('x')"]]
    here.ask("prepare", data=here.spec("pass", attempt=2, setup=setup))
    assert not count.exists()
    assert here.ask("status")["attempt"] == 1
