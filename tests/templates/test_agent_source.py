"""A source tree on a machine: whole or not there, and never outside its folder."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tests.templates.machine import RUN, Here, tar_of
from tpuops.remote import sync


def link(target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, target
    return info


def special(kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo("x")
    info.type = kind
    return info


def source(here: Here) -> Path:
    folder = here.home / "work"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "train.py").write_text("print(open('deep/er/data').read())")
    (folder / "deep" / "er" / "data").write_bytes(bytes(range(256)) * 3000)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").touch()
    (folder / "link").symlink_to("deep/er")
    (folder / "name with \u00fc and \n newline").write_text("x")
    return folder


def there(here: Here, digest: str) -> Path:
    return here.home / ".tpuops" / "source" / digest


def test_a_tree_arrives_with_its_bits_links_and_names(here: Here) -> None:
    folder = source(here)
    digest = sync.digest(folder)
    assert here.ask("sync", digest, data=b"".join(sync.tar(folder))) == {"source": digest}
    assert here.ask("status")["source"] == digest
    assert sync.digest(there(here, digest)) == digest
    assert (there(here, digest) / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (here.home / ".tpuops/source/current").resolve() == there(here, digest)


def test_a_tree_that_is_there_needs_nothing_sent(here: Here) -> None:
    folder = source(here)
    digest = sync.digest(folder)
    here.ask("sync", digest, data=b"".join(sync.tar(folder)))
    assert here.replies("sync", digest)[0] == {"have": True}


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_stream_cut_short_leaves_the_old_tree(here: Here, part: float) -> None:
    folder = source(here)
    old = sync.digest(folder)
    here.ask("sync", old, data=b"".join(sync.tar(folder)))
    (folder / "more").write_text("more")
    new, stream = sync.digest(folder), b"".join(sync.tar(folder))
    assert here.refused("sync", new, data=stream[: int(len(stream) * part)])["kind"] == "torn"
    assert here.ask("status")["source"] == old
    assert not there(here, new).exists() and not list(there(here, new).parent.glob("*.partial"))


def test_a_whole_stream_of_another_tree_is_refused(here: Here) -> None:
    error = here.refused("sync", "0" * 64, data=b"".join(sync.tar(source(here))))
    assert error["kind"] == "torn" and not there(here, "0" * 64).exists()


@pytest.mark.parametrize(
    "members",
    [
        {"../evil": b"x"},
        {"/tmp/evil": b"x"},
        {"a/../../evil": b"x"},
        {"link": link("/etc")},
        {"link": link("../../..")},
        {"link": link("."), "link/evil": b"x"},
        {"a/b": link(".."), "c": link("a/b/../..")},
        {"hard": link("/etc/passwd", tarfile.LNKTYPE)},
        {"pipe": special(tarfile.FIFOTYPE)},
        {"device": special(tarfile.CHRTYPE)},
    ],
)
def test_what_would_leave_the_tree_is_refused(here: Here, members: dict[str, object]) -> None:
    outside = sorted(here.home.iterdir())
    digest = hashlib.sha256(json.dumps(sorted(members)).encode()).hexdigest()
    assert here.refused("sync", digest, data=tar_of(members))["kind"] == "escape"
    assert not there(here, digest).exists() and not Path("/tmp/evil").exists()
    assert [path for path in sorted(here.home.iterdir()) if path.name != ".tpuops"] == outside


def test_a_digest_cannot_lead_elsewhere(here: Here) -> None:
    assert here.refused("sync", "../../x")["kind"] == "usage"


def test_training_runs_in_the_tree_and_old_trees_go(here: Here) -> None:
    folder = source(here)
    for number in range(8):
        (folder / "train.py").write_text(f"import os; print({number}, os.getcwd())")
        digest = sync.digest(folder)
        here.ask("sync", digest, data=b"".join(sync.tar(folder)))
    spec = {"run_id": RUN, "attempt": 1, "command": ["python3", "train.py"]}
    here.ask("start", data=json.dumps(spec).encode())
    assert here.followed()[0] == f"7 {there(here, digest)}\n".encode()
    assert len([path for path in there(here, "").iterdir() if path.name != "current"]) <= 4


def test_outputs_written_into_the_tree_land_in_the_runs_folder(here: Here) -> None:
    folder = source(here)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "of-yesterday").touch()
    digest = sync.digest(folder)
    here.ask("sync", digest, data=b"".join(sync.tar(folder)))
    code = "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/a', 'w')\nopen('results/deep/b', 'w')"
    here.start(code, outputs=["outputs", "results/deep"])
    assert here.followed()[1]["exit"]["code"] == 0
    saved = here.home / f".tpuops/runs/{RUN}/outputs"
    assert sorted(path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()) == [
        "a",
        "results/deep/b",
    ]


@pytest.mark.parametrize("name", ["/etc", "../x", ".", "a/../../x"])
def test_outputs_outside_the_tree_are_refused(here: Here, name: str) -> None:
    folder = source(here)
    digest = sync.digest(folder)
    here.ask("sync", digest, data=b"".join(sync.tar(folder)))
    assert here.refused("start", data=here.spec("pass", outputs=[name]))["kind"] == "usage"
