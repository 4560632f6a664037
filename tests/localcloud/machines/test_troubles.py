"""What faults do to a machine's disk, network, device and programs: real programs meet real errors."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path

from tests.localcloud.machines.test_orders import framework, until

AGENT = Path(__file__).parents[3] / "templates/worker"


def took(work) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_a_full_disk_refuses_every_program_and_only_files(site, fresh) -> None:
    running = subprocess.Popen(
        [*site.ssh_argv(fresh), "echo ready; read go; cd /tmp; echo x >relative"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout.readline() == "ready\n"
    assert site.order(fresh, order="disk_full") == {}
    assert "No space left on device" in running.communicate("go\n", timeout=20)[1]
    for command in ("mkdir d", "cp /etc/passwd here", 'python3 -c \'open("x", "w")\'', "tar cf t.tar /etc/passwd"):
        done = site.run(fresh, command)
        assert (done.returncode != 0, "No space left on device" in done.stderr) == (True, True), done
    assert site.says(fresh, "echo quiet >/dev/null; cat /etc/hostname; ls / >/dev/null; echo fine").endswith("fine")
    assert site.order(fresh, order="disk_full", for_s=0.1) == {}
    assert until(lambda: site.run(fresh, "echo x >file").returncode == 0)


def test_a_slow_disk_makes_every_file_wait(site, fresh) -> None:
    assert site.order(fresh, order="slow_disk", delay_s=0.7) == {}
    assert took(lambda: site.says(fresh, "echo x >file")) > 0.7
    assert took(lambda: site.says(fresh, "python3 -c 'import os; os.fsync(os.open(\"file\", os.O_RDONLY))'")) > 0.7
    assert site.order(fresh, order="slow_disk", delay_s=0) == {}
    assert site.says(fresh, "cat file") == "x"


def test_a_slow_network_delays_connections_both_ways_and_holds_ssh_to_its_pace(site, fresh) -> None:
    dial = "import socket, time; b = time.time(); socket.socket().connect_ex(('127.0.0.1', 9)); print(time.time() - b)"
    call = f"python3 -c {shlex.quote(dial)}"
    assert site.order(fresh, order="slow_network", delay_s=0.5, bytes_per_s=200_000, for_s=60) == {}
    assert float(site.says(fresh, call)) > 0.5
    assert took(lambda: site.says(fresh, "head -c 300000 /dev/urandom | wc -c")) < 60
    slow = took(lambda: site.run(fresh, "head -c 300000 /dev/zero | tr '\\0' x"))
    assert slow > 1.5
    assert site.order(fresh, order="slow_network", delay_s=0) == {}
    assert float(site.says(fresh, call)) < 0.5


def test_keys_that_are_not_yet_propagated_open_nothing(site, fresh) -> None:
    assert site.order(fresh, order="key_delay", for_s=1.5) == {}
    began = time.monotonic()
    refused = site.run(fresh, "true")
    assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True)
    site.order(fresh, order="metadata", metadata=dict(fresh.metadata))
    assert until(lambda: site.run(fresh, "true").returncode == 0, 20)
    assert time.monotonic() - began > 1.4


def test_a_program_with_a_device_hangs_as_in_a_call_that_never_returns(site, fresh) -> None:
    tough = "faulthandler.register(signal.SIGUSR1); signal.signal(signal.SIGTERM, lambda *_: None)"
    command = framework(site, fresh, wait=100).replace(
        "import jaxlib, time", f"import faulthandler, signal, jaxlib, time; {tough}"
    )
    program = subprocess.Popen([*site.ssh_argv(fresh), f"exec env {command}"], stdout=-1, stderr=-1, text=True)
    assert program.stdout.readline() == "started\n"
    answer = site.order(fresh, order="hang", match="jaxlib")
    assert answer["how"] == "call"
    pid = answer["hung"]
    site.says(fresh, f"kill -TERM {pid}; kill -USR1 {pid}; sleep 0.3; kill -0 {pid}")
    site.says(fresh, f"kill -KILL {pid}")
    assert "most recent call first" in program.communicate(timeout=20)[1]
    assert site.order(fresh, order="hang", match="jaxlib") == {"hung": None}


def test_any_other_program_that_hangs_is_stopped(site, fresh) -> None:
    program = subprocess.Popen([*site.ssh_argv(fresh), "exec -a lazybones sleep 1000"])
    assert until(lambda: site.run(fresh, "pgrep -f ^lazybone[s]").returncode == 0)
    answer = site.order(fresh, order="hang", match="lazybones")
    assert answer["how"] == "stopped"
    assert site.says(fresh, f"sed 's/.*) //' /proc/{answer['hung']}/stat").startswith("T ")
    site.says(fresh, f"kill -KILL {answer['hung']}")
    program.wait(20)


def test_a_held_device_refuses_the_next_program_until_its_holder_is_gone(site, fresh) -> None:
    command = f"export TPUOPS_RUN_ID=r1; exec env {framework(site, fresh, wait=100)}"
    program = subprocess.Popen([*site.ssh_argv(fresh), command], stdout=-1, stderr=-1, text=True)
    assert program.stdout.readline() == "started\n"
    answer = site.order(fresh, order="device_held", match="jaxlib")
    program.communicate(timeout=20)
    refused = site.run(fresh, framework(site, fresh))
    assert refused.returncode == 1
    assert f"The TPU is already in use by process with pid {answer['held']}." in refused.stderr
    subprocess.run(
        [*site.ssh_argv(fresh, "-r", program="scp"), AGENT / "agent", f"alice@{fresh.address}:agent"], check=True
    )
    listed = site.says(
        fresh, "cd; python3 -c \"import sys; sys.path.insert(0, 'agent'); import devices; print(devices.holders())\""
    )
    assert str(answer["held"]) in listed
    site.says(fresh, f"kill {answer['held']}")
    assert until(lambda: site.run(fresh, framework(site, fresh)).returncode == 0)


def test_the_gate_stands_on_this_kernel(site, machine) -> None:
    booted = next(notice for notice in site.notices if notice.id == machine.id)
    assert booted.agent["gate"] == 1


def test_everything_on_a_machine_descends_from_the_gates_keeper_orphans_too(site, fresh) -> None:
    """Yama lets the keeper look into its descendants alone, whose paths tell whether a disk is meant."""
    site.says(fresh, "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); tmux new -d -s work 'sleep 1000'; sleep 0.3")
    parents = dict(line.split() for line in site.says(fresh, "ps -eo pid=,ppid=").splitlines())
    keeper = next(pid for pid, parent in parents.items() if parent == "1")

    def ancestors(pid: str) -> list[str]:
        return [pid, *(ancestors(parents[pid]) if pid in parents else [])]

    listed = site.says(fresh, "pgrep -d, -x 'sleep|tmux: server|bash'").split(",")
    assert len(listed) >= 3
    assert all(keeper in ancestors(pid) for pid in parents if pid != "1"), parents
    sleeper = site.says(fresh, "pgrep -ox sleep")
    assert parents[sleeper] == keeper
    site.says(fresh, f"kill {sleeper}; sleep 0.3; ! ps -p {sleeper}")
