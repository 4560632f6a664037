"""Results on their way to the bucket: verified, retried within bounds, sent once, and nothing else sent."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.templates.machine import RUN, Here
from tests.templates.storage_server import StorageServer

OUTPUTS = "import os\nfor n in range(3): open(os.environ['TPUOPS_OUTPUTS'] + '/f%d' % n, 'w').write('x' * n)"


def run(here: Here, storage: StorageServer, code: str = OUTPUTS, **more: Any) -> None:
    here.env.update(storage.environment())
    here.start(code, **more)
    here.followed()


def uploads(storage: StorageServer) -> int:
    return sum(line.startswith(("POST /upload", "PUT /upload")) for line in storage.requests)


def test_outputs_logs_and_the_setup_log_are_saved(here: Here, storage: StorageServer) -> None:
    run(here, storage, setup=[["echo", "set up"]])
    found = here.ask("collect", "b", f"runs/{RUN}")
    assert found["failed"] == []
    assert [file["name"] for file in found["saved"]] == sorted(storage.objects) == [
        f"runs/{RUN}/logs/1/exit.json",
        f"runs/{RUN}/logs/1/train.log",
        f"runs/{RUN}/logs/setup.log",
        f"runs/{RUN}/outputs/f0",
        f"runs/{RUN}/outputs/f1",
        f"runs/{RUN}/outputs/f2",
    ]  # fmt: skip
    assert storage.objects[f"runs/{RUN}/outputs/f2"] == b"xx"
    for file in found["saved"]:
        stored = storage.document(file["name"])
        assert (file["md5"], file["size"]) == (stored["md5Hash"], int(stored["size"]))


def test_what_is_there_is_not_sent_again_and_what_changed_is(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    first = here.ask("collect", "b", "p")
    before = uploads(storage)
    assert here.ask("collect", "b", "p") == first and uploads(storage) == before
    (here.home / f".tpuops/runs/{RUN}/outputs/f1").write_text("new")
    here.ask("collect", "b", "p")
    assert uploads(storage) == before + 1 and storage.objects["p/outputs/f1"] == b"new"


def test_passing_faults_are_retried(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    storage.faults = [("POST /upload", status) for status in (503, 429, 0, 408, 500)] + [("GET .*token", 0)]
    assert here.ask("collect", "b", "p")["failed"] == [] and not storage.faults


def test_an_expired_token_is_fetched_again(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    storage.faults = [("POST /upload.*f1", 401)]
    assert here.ask("collect", "b", "p")["failed"] == []


def test_a_refusal_is_not_retried_and_is_said(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    storage.faults = [("POST /upload.*f1", 403)] * 5
    found = here.ask("collect", "b", "p")
    assert [file["name"] for file in found["failed"]] == ["p/outputs/f1"] and "403" in found["failed"][0]["error"]
    assert len(storage.faults) == 4 and "p/outputs/f2" in storage.objects


def test_a_bucket_that_cannot_be_read_is_said(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    storage.faults = [("GET .*/o", 403)]
    assert here.refused("collect", "b", "p")["kind"] == "bucket"


def test_bytes_that_arrive_wrong_are_sent_again(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    storage.spoil = ["p/outputs/f2"]
    assert here.ask("collect", "b", "p")["failed"] == [] and storage.objects["p/outputs/f2"] == b"xx"
    storage.spoil = ["q/outputs/f2"] * 9
    assert here.ask("collect", "b", "q")["failed"][0]["name"] == "q/outputs/f2"


@pytest.mark.parametrize("faults", [[], [("PUT", 503), ("PUT", 0)]])
def test_a_large_file_goes_in_pieces(here: Here, storage: StorageServer, faults: list[tuple[str, int]]) -> None:
    run(here, storage, "pass")
    data = os.urandom(1 << 20) * 19 + b"end"
    (here.home / f".tpuops/runs/{RUN}/outputs/large").write_bytes(data)
    storage.faults = list(faults)
    assert here.ask("collect", "b", "p")["failed"] == []
    assert storage.objects["p/outputs/large"] == data and not storage.faults
    assert sum(line.startswith("PUT") for line in storage.requests) == 3 + len(faults)


def test_links_out_of_the_outputs_are_not_followed_and_said(here: Here, storage: StorageServer) -> None:
    run(here, storage)
    outputs = here.home / f".tpuops/runs/{RUN}/outputs"
    (here.home / "secret").write_text("secret")
    (outputs / "out").symlink_to(here.home / "secret")
    (outputs / "folder-out").symlink_to(here.home)
    (outputs / "deep").mkdir()
    (outputs / "deep" / "latest").symlink_to("../f1")
    (outputs / "same").symlink_to("deep")
    os.mkfifo(outputs / "pipe")
    found = here.ask("collect", "b", "p")
    assert sorted(file["name"] for file in found["failed"]) == ["folder-out", "out", "pipe"]
    assert b"secret" not in storage.objects.values() and storage.objects["p/outputs/deep/latest"] == b"x"


def test_the_spec_stays_on_the_machine(here: Here, storage: StorageServer) -> None:
    run(here, storage, env={"PASSWORD": "hush"})
    here.ask("collect", "b", "p")
    assert not any(b"hush" in data for data in storage.objects.values())


def test_a_run_with_a_failed_setup_still_brings_its_setup_log(here: Here, storage: StorageServer) -> None:
    here.env.update(storage.environment())
    here.refused("start", data=here.spec("pass", setup=[["sh", "-c", "echo why; exit 1"]]))
    here.ask("collect", "b", "p")
    assert b"why" in storage.objects["p/logs/setup.log"]


def test_a_folder_that_cannot_be_read_is_said(here: Here, storage: StorageServer) -> None:
    """Its path is too long to be opened, which root cannot either."""
    run(here, storage)
    inner, name = os.open(here.home / f".tpuops/runs/{RUN}/outputs", os.O_RDONLY), "x" * 250
    for _ in range(20):
        os.mkdir(name, dir_fd=inner)
        outer, inner = inner, os.open(name, os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)
    found = here.ask("collect", "b", "p")
    assert len(found["saved"]) == 5
    assert ["too long" in each["error"] for each in found["failed"]] == [True]


NOT_UTF8 = r"""
import os
out = os.fsencode(os.environ["TPUOPS_OUTPUTS"])
for name in (b"a.txt", b"caf\xe9.txt"): open(out + b"/" + name, "w").write("x")
"""


def test_a_name_that_is_no_utf8_is_saved_under_one_that_is(here: Here, storage: StorageServer) -> None:
    run(here, storage, NOT_UTF8)
    found = here.ask("collect", "b", "p")
    assert found["failed"] == []
    assert [file["name"] for file in found["saved"]][-2:] == ["p/outputs/a.txt", "p/outputs/caf\\xe9.txt"]
