"""Which files of a source tree are sent, and when two trees are the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tpuops.errors import EnvironmentFileError
from tpuops.remote import sync


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.py", "sub/b.py", ".git/config", "__pycache__/a.pyc", "sub/.venv/x", "build/out.o", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def names(folder: Path) -> list[str]:
    return [entry.path for entry in sync.entries(folder)]


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@e", *words], cwd=folder, check=True)


def repository(folder: Path) -> Path:
    git(folder, "init", "-q", "--template=")
    return folder


def test_without_git_everything_but_its_own_leavings_is_sent(tree: Path) -> None:
    assert names(tree) == [".hidden", "a.py", "build/out.o", "sub/b.py"]


def test_git_decides_inside_a_work_tree(tree: Path) -> None:
    for path in sorted((tree / ".git").iterdir()):
        path.unlink()
    repository(tree)
    (tree / ".gitignore").write_text("build/\n")
    git(tree, "add", "a.py")
    (tree / "a.py").write_text("changed and not committed")
    git(tree, "add", "sub/b.py")
    (tree / "sub" / "b.py").unlink()
    assert names(tree) == [".gitignore", ".hidden", "a.py"]


def test_a_folder_of_a_work_tree_is_sent_alone_and_an_ignored_one_whole(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / ".gitignore").write_text("ignored/\n")
    for name in ("top", "part/x", "ignored/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert names(tmp_path / "part") == ["x"]
    assert names(tmp_path / "ignored") == ["y"]


def test_a_repository_inside_the_repository_is_sent_too(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "inner").mkdir()
    repository(tmp_path / "inner")
    (tmp_path / "inner" / "file").touch()
    assert names(tmp_path) == ["inner/file"]


def test_gits_own_variables_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").touch()
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert names(tmp_path) == [".gitignore"]


def test_a_link_out_of_the_tree_is_refused_with_its_name(tree: Path) -> None:
    (tree / "sub" / "secret").symlink_to("/etc/hostname")
    with pytest.raises(EnvironmentFileError, match="sub/secret"):
        sync.entries(tree)


def test_links_inside_stay_links_and_pipes_are_left_out(tree: Path) -> None:
    (tree / "to-folder").symlink_to("sub")
    (tree / "to-nothing").symlink_to("missing")
    (tree / "to-itself").symlink_to("to-itself")
    os.mkfifo(tree / "pipe")
    found = {entry.path: entry.link for entry in sync.entries(tree)}
    assert found["to-folder"] == "sub" and found["to-nothing"] == "missing" and "pipe" not in found


def test_the_digest_knows_content_names_bits_and_links_and_no_times(tree: Path) -> None:
    first = sync.digest(tree)
    os.utime(tree / "a.py", (1, 1))
    assert sync.digest(tree) == first
    seen = {first}
    for change in (
        lambda: (tree / "a.py").write_text("other"),
        lambda: (tree / "a.py").rename(tree / "c.py"),
        lambda: (tree / "c.py").chmod(0o755),
        lambda: (tree / "link").symlink_to("c.py"),
    ):
        change()
        seen.add(sync.digest(tree))
    assert len(seen) == 5


def test_equal_trees_give_equal_streams(tree: Path) -> None:
    first = b"".join(sync.tar(tree))
    os.utime(tree / "a.py", (1, 1))
    assert b"".join(sync.tar(tree)) == first


def test_a_source_that_is_no_folder_is_the_files_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFileError):
        sync.entries(tmp_path / "missing")


def test_large_files_are_named_largest_first_with_their_sizes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "LARGE_BYTES", 50)
    (tree / "data.bin").write_bytes(bytes(60))
    (tree / "sub" / "more.bin").write_bytes(bytes(70))
    (tree / "small.bin").write_bytes(bytes(49))
    (tree / "link.bin").symlink_to("data.bin")
    found = sync.survey(tree)
    assert [(entry.path, entry.size) for entry in found.large] == [("sub/more.bin", 70), ("data.bin", 60)]
    assert (found.digest, found.files) == (sync.digest(tree), len(sync.entries(tree)))
    assert found.size == sum(entry.size for entry in sync.entries(tree))


def test_the_revision_is_the_commit_and_how_far_the_folder_is_from_it(tmp_path: Path) -> None:
    assert sync.revision(tmp_path) == sync.Revision()
    repository(tmp_path)
    for name in ("top", "part/x", "ignored/y", ".gitignore"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("ignored\n")
    assert sync.revision(tmp_path / "part") == sync.Revision()  # nothing was ever committed
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = sync.revision(tmp_path / "part")
    assert (len(clean.commit), clean.changed) == (40, 0)
    (tmp_path / "top").write_text("outside the folder")
    assert sync.revision(tmp_path / "part") == clean
    (tmp_path / "part" / "x").write_text("changed")
    (tmp_path / "part" / "new").touch()
    assert sync.revision(tmp_path / "part") == sync.Revision(clean.commit, 2)
    assert sync.revision(tmp_path / "ignored") == sync.Revision()
