"""The files that OpenSSH is given: strict, private, and read by OpenSSH itself as they were meant."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from tpuops.errors import AccessError
from tpuops.remote import openssh
from tpuops.remote.port import Host

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZlN8Yz4P1bnyqf3DVdGHBP0dwKhcPGcXFdhpEyGYvk"
HOST = Host("tpuops-tiny-ada-0", "127.0.0.9", "tpuops", (KEY,), 2222)


def understood(config: Path) -> dict[str, str]:
    """What OpenSSH makes of the configuration."""
    done = subprocess.run(["ssh", "-G", "-F", config, HOST.name], capture_output=True, text=True, check=True)
    return {key: value for key, _, value in (line.partition(" ") for line in done.stdout.splitlines())}


@pytest.mark.parametrize("folder", ["plain", "with blanks", "100%u", "ümlaut"])
def test_openssh_reads_what_was_meant(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    config = openssh.files(HOST, place / "id_ed25519", place / "ssh")
    read = understood(config)
    assert (read["hostname"], read["port"], read["user"]) == ("127.0.0.9", "2222", "tpuops")
    assert (read["identitiesonly"], read["stricthostkeychecking"]) == ("yes", "true")
    assert read["hostkeyalias"] == HOST.name
    assert read["forwardagent"] == "no"
    assert {stat.S_IMODE(path.stat().st_mode) for path in config.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700


def test_a_file_that_was_open_to_others_is_replaced_and_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / f"{HOST.name}.config").symlink_to(tmp_path / "target")
    config = openssh.files(HOST, tmp_path / "key", tmp_path)
    assert not config.is_symlink()
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize("folder", ['a"b', "a\nb", "a${HOME}b"])
def test_a_path_that_openssh_would_misread_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(AccessError):
        openssh.files(HOST, tmp_path / folder / "key", tmp_path)


@pytest.mark.parametrize("line", ["ssh-ed25519 AAAA\n* ssh-ed25519 BBBB", "ssh-ed25519", "@cert-authority * AAAA x"])
def test_a_host_key_that_is_not_one_key_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(AccessError):
        openssh.files(Host("h", "127.0.0.9", "tpuops", (line,)), tmp_path / "key", tmp_path)


def test_the_command_line_holds_the_host_behind_the_options() -> None:
    argv = openssh.argv(Path("/c"), HOST, ("tmux", "attach"), terminal=True)
    assert argv == ("ssh", "-F", "/c", "-t", "--", HOST.name, "tmux", "attach")
