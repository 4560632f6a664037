"""Logging in to a machine: commands, codes, signals, terminals, files, tunnels; what outlives a connection."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time

import asyncssh
import pytest

from tests.localcloud.machines.test_orders import until


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exit_codes_arrive(site, machine, code) -> None:
    assert site.run(machine, f"exit {code}").returncode == code


def test_input_output_and_errors_arrive_whole_and_apart(site, machine) -> None:
    text = "".join(f"line {n}\n" for n in range(200_000))
    done = site.run(machine, "cat; echo problem >&2", input=text)
    assert (done.stdout == text, done.stderr, done.returncode) == (True, "problem\n", 0)


def test_a_clean_end_says_nothing_on_the_clients_side(site, machine) -> None:
    for _ in range(5):
        done = site.run(machine, "seq 3")
        assert (done.stdout, done.stderr) == ("1\n2\n3\n", "")


async def test_a_command_killed_by_a_signal_is_reported_as_that_signal(site, machine) -> None:
    async with site.connect(machine) as connection:
        killed = await connection.run("kill -KILL $$")
        assert killed.exit_signal[0] == "KILL"
        behind_a_shell = await connection.run("bash -c 'kill -KILL $$'; exit $?")
        assert behind_a_shell.exit_status == 128 + signal.SIGKILL


async def test_a_signal_from_the_client_reaches_the_whole_command(site, machine) -> None:
    async with site.connect(machine) as connection:
        process = await connection.create_process(
            "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        )
        assert await process.stdout.readline() == "ready\n"
        process.send_signal("TERM")
        done = await asyncio.wait_for(process.wait(), 5)
        assert (done.stdout, done.exit_status) == ("caught\n", 5)


async def test_many_channels_of_one_connection_run_side_by_side(site, machine) -> None:
    async with site.connect(machine) as connection:
        began = time.monotonic()
        done = await asyncio.gather(*(connection.run(f"sleep 0.5; echo {n}") for n in range(30)))
        assert [int(one.stdout) for one in done] == list(range(30))
        assert time.monotonic() - began < 8


def test_a_login_finds_its_home_and_its_name(site, machine) -> None:
    assert site.says(machine, "cd; pwd; echo $USER $LOGNAME; echo ~alice; id -u").splitlines() == [
        "/home/alice", "alice alice", "/home/alice", "0",
    ]  # fmt: skip


def test_sudo_runs_its_command(site, machine) -> None:
    assert site.says(machine, "sudo -n -u root WHO=me bash -c 'echo $WHO $0 $1' a b") == "me a b"


def test_an_unknown_key_and_an_unknown_user_are_turned_away(site, machine, tmp_path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    wrong_key = [word.replace(str(site.key), str(tmp_path / "other")) for word in site.ssh_argv(machine)]
    for argv in (wrong_key, site.ssh_argv(machine, user="root"), site.ssh_argv(machine, user="mallory")):
        done = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
        assert done.returncode == 255
        assert "Permission denied" in done.stderr


class Terminal:
    """A person's terminal with ssh in it."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execvp(argv[0], argv)
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, pattern: str, within_s: float = 10) -> str:
        deadline = time.monotonic() + within_s
        while not (found := re.search(pattern, self.text)) and time.monotonic() < deadline:
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        assert found, self.text
        self.text = self.text[found.end() :]
        return found.group()

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_a_shell_on_a_terminal_behaves_like_one(site, machine) -> None:
    terminal = Terminal(site.ssh_argv(machine, "-tt"))
    try:
        terminal.type("tty; echo size $(stty size) term $TERM; shopt -q login_shell && echo login-shell\n")
        terminal.wait_for("/dev/pts/[0-9]+")
        terminal.wait_for(r"size [0-9]+ [0-9]+ term xterm")
        terminal.wait_for("\nlogin-shell")
        terminal.type("sleep 1000\n")
        terminal.wait_for("sleep")
        time.sleep(0.3)
        terminal.type("\x03")
        terminal.type("echo interrupted $?\n")
        terminal.wait_for("interrupted 130")
    finally:
        terminal.close()


def test_tmux_can_be_attached_detached_and_survives_a_lost_connection(site, fresh) -> None:
    site.says(fresh, "tmux new -d -s work 'echo beginning; sleep 1000'")
    terminal = Terminal([*site.ssh_argv(fresh, "-tt"), "tmux attach -t work"])
    terminal.wait_for("beginning")
    terminal.close()
    assert site.says(fresh, "tmux ls -F '#{session_name}'") == "work"
    terminal = Terminal([*site.ssh_argv(fresh, "-tt"), "tmux attach -t work"])
    terminal.wait_for("beginning")
    terminal.type("\x02d")
    terminal.wait_for("detached")
    terminal.close()
    assert until(lambda: site.order(fresh, order="ssh_drop", for_s=0)["dropped"] == 0)
    assert site.says(fresh, "tmux ls -F '#{session_name}'") == "work"


def test_losing_the_connection_hangs_up_a_terminal_and_closes_the_pipes_of_a_command(site, fresh) -> None:
    terminal = Terminal([*site.ssh_argv(fresh, "-tt"), "trap 'echo hup > ~/hup' HUP; echo ready; sleep 1000 & wait"])
    terminal.wait_for("ready")
    command = subprocess.Popen(
        [*site.ssh_argv(fresh), "echo ready; cat; echo end > ~/eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert command.stdout.readline() == b"ready\n"
    assert site.order(fresh, order="ssh_drop", for_s=0)["dropped"] == 2
    terminal.close()
    assert command.wait(10) == 255
    command.stdin.close()
    command.stdout.close()
    look = "for n in $(seq 100); do [ -s ~/hup ] && [ -s ~/eof ] && break; sleep 0.05; done; cat ~/hup ~/eof"
    assert site.says(fresh, look) == "hup\nend"


async def test_a_terminal_can_be_resized(site, machine) -> None:
    async with site.connect(machine) as connection:
        process = await connection.create_process(
            "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done",
            term_type="xterm",
            term_size=(80, 24),
        )
        assert "ready" in await process.stdout.readline()
        process.change_terminal_size(120, 50)
        assert "50 120" in await asyncio.wait_for(process.stdout.readline(), 5)


@pytest.mark.parametrize("old", [[], ["-O"]])
def test_scp_lands_in_the_users_home(site, machine, tmp_path, old) -> None:
    (tmp_path / "sent").write_bytes(os.urandom(300_000))
    argv = site.ssh_argv(machine, *old, program="scp")
    there = f"alice@{machine.address}"
    subprocess.run([*argv, tmp_path / "sent", f"{there}:arrived"], check=True)
    subprocess.run([*argv, f"{there}:/home/alice/arrived", tmp_path / "back"], check=True)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()
    assert site.says(machine, "stat -c %s ~/arrived; rm ~/arrived") == "300000"


async def test_sftp_begins_at_home_and_ends_at_the_sandboxs_root(site, machine) -> None:
    async with site.connect(machine) as connection, connection.start_sftp_client() as sftp:
        assert await sftp.getcwd() == "/home/alice"
        await sftp.mkdir("folder")
        async with sftp.open("folder/file", "w") as file:
            await file.write("text")
        assert await sftp.listdir("/home/alice/folder") == [".", "..", "file"]
        with pytest.raises(asyncssh.SFTPError):
            await sftp.listdir(str(site.state))
        await sftp.rmtree("folder")


async def test_a_tunnel_reaches_a_port_of_the_machine(site, machine) -> None:
    server = (
        "import socket; door = socket.create_server(('127.0.0.1', 0))\n"
        "print(door.getsockname()[1], flush=True); door.accept()[0].send(b'hello')"
    )
    async with site.connect(machine) as connection:
        process = await connection.create_process(f"python -c {shlex.quote(server)}")
        port = int(await process.stdout.readline())
        reader, writer = await connection.open_connection("127.0.0.1", port)
        assert await reader.read(5) == b"hello"
        writer.close()
