"""Files that come home: below their folder and nowhere else, whole or not at all, and over nothing that is there."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from tpuops.remote.home import Home, Unsafe

OUTSIDE = ["../x", "/etc/x", "a/../../x", "a//b", "", ".", "a/.", "a/\0b", "x" * 300]


def md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def bring(home: Home, name: str, data: bytes, claimed: bytes | None = None) -> None:
    with home.new(name, md5(data if claimed is None else claimed)) as file:
        file.write(data)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with Home(tmp_path / "home") as home:
        with pytest.raises(Unsafe):
            home.md5(name)
        with pytest.raises(Unsafe):
            bring(home, name, b"data")
    assert list(tmp_path.rglob("*")) == [tmp_path / "home"]


def test_a_file_comes_whole_into_folders_that_are_made_for_it(tmp_path: Path) -> None:
    with Home(tmp_path / "deep" / "home") as home:
        assert home.md5("a/b/c.txt") is None
        bring(home, "a/b/c.txt", b"data")
        assert home.md5("a/b/c.txt") == md5(b"data")
    assert [path.name for path in (tmp_path / "deep/home/a/b").iterdir()] == ["c.txt"]


def test_other_bytes_than_promised_leave_nothing_behind(tmp_path: Path) -> None:
    with Home(tmp_path) as home, pytest.raises(ValueError, match="not what the bucket has"):
        bring(home, "a.txt", b"data", claimed=b"other")
    assert list(tmp_path.iterdir()) == []


def test_a_break_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    with Home(tmp_path) as home, pytest.raises(ConnectionError), home.new("a.txt", md5(b"data")) as file:
        file.write(b"da")
        raise ConnectionError
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with Home(tmp_path) as home, pytest.raises(FileExistsError):
        bring(home, "a.txt", b"data")
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_links_are_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "home"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret").write_text("secret")
    (folder / "outputs").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret")
    with Home(folder) as home:
        for name in ("outputs/new", "outputs/secret", "file"):
            with pytest.raises(Unsafe):
                home.md5(name)
        with pytest.raises(Unsafe):
            bring(home, "outputs/new", b"data")
        with pytest.raises(FileExistsError):
            bring(home, "file", b"data")
    assert [path.name for path in outside.iterdir()] == ["secret"]
