"""What the cloud can do to a machine while it runs: each order, seen from inside."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import time
from datetime import UTC, datetime, timedelta

from tpuops.localcloud.core.events import LogLine
from tpuops.localcloud.machine.accounts import Accounts, keys_of
from tpuops.localcloud.machine.progress import Progress, find, glob_pattern

WATCH = {"order": "watch", "file": "**/train.log", "pattern": r"step=(\d+)"}


def steps(site, spec) -> list[tuple[int, int]]:
    return [(n.fault_index, n.step) for n in site.notices if isinstance(n, LogLine) and n.id == spec.id]


def until(condition, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(held)


def test_kill_takes_the_newest_process_that_matches_and_never_the_machine_itself(site, fresh) -> None:
    site.says(fresh, 'for n in 1 2; do tmux new -d -s s$n "exec -a doomed-$n sleep 1000"; sleep .05; done')
    # The brackets keep the looking shell itself, which may linger, from being a match.
    # Until tmux's shell has become the program, its own command line would match, or none.
    assert until(lambda: site.run(fresh, "pgrep -f ^doome[d]-1 && pgrep -f ^doome[d]-2").returncode == 0, 20)
    pids = {f"doomed-{n}": int(site.says(fresh, f"pgrep -f ^doome[d]-{n}")) for n in (1, 2)}
    assert site.order(fresh, order="kill", match="doomed")["killed"] == pids["doomed-2"]
    assert site.order(fresh, order="kill", match="doomed-2") == {"killed": None}
    assert site.order(fresh, order="kill", match="doomed") == {"killed": pids["doomed-1"]}
    for match in ("machine", "sshd", "bwrap"):
        assert site.order(fresh, order="kill", match=match) == {"killed": None}
    assert site.says(fresh, "echo alive") == "alive"


def test_pkill_of_python_spares_the_machine(site, fresh) -> None:
    site.run(fresh, "pkill -9 python; killall python; sh -c 'pkill -9 -f [p]ython'")
    assert site.says(fresh, "echo alive") == "alive"


def test_an_ssh_drop_aborts_connections_refuses_new_ones_and_ends(site, fresh) -> None:
    client = subprocess.Popen([*site.ssh_argv(fresh), "echo ready; sleep 1000"], stdout=subprocess.PIPE)
    assert client.stdout.readline() == b"ready\n"
    site.order(fresh, order="ssh_drop", for_s=0.3)
    site.order(fresh, order="ssh_drop", for_s=0.6)
    began = time.monotonic()
    assert client.wait(5) == 255
    client.stdout.close()
    refused = site.run(fresh, "true")
    assert (refused.returncode, "Connection refused" in refused.stderr) == (255, True)
    assert until(lambda: site.run(fresh, "true").returncode == 0)
    assert 0.5 < time.monotonic() - began < 3


def test_ssh_can_be_made_slow_and_quick_again(site, fresh) -> None:
    site.order(fresh, order="ssh_delay", delay_s=0.7)
    began = time.monotonic()
    site.says(fresh, "true")
    assert time.monotonic() - began > 0.7
    site.order(fresh, order="ssh_delay", delay_s=0)
    began = time.monotonic()
    site.says(fresh, "true")
    assert time.monotonic() - began < 0.6


def test_an_unknown_or_malformed_order_is_answered_and_harms_nothing(site, machine) -> None:
    assert "unknown order" in site.order(machine, order="dance")["error"]
    assert "KeyError" in site.order(machine, order="kill")["error"]
    assert "error" in site.order(machine, **(WATCH | {"pattern": "(", "step": 1, "fault_index": 0}))
    assert site.do(site.machines.order("not-there", {"order": "kill", "match": "x"})) == {"ignored": "it does not run"}
    assert site.says(machine, "echo alive") == "alive"


MESSAGE = "Traceback (most recent call last):\n  ...\njaxlib.xla_extension.XlaRuntimeError: INTERNAL: device gone\n"
PROGRAM = (
    "import FRAMEWORK, time\nprint('started', flush=True); print('buffered', end='')\ntime.sleep(WAIT); print('ended')"
)


def framework(site, machine, name: str = "jaxlib", wait: float = 0) -> str:
    """The command of a program that imports a framework of that name, an empty package of its own."""
    site.says(machine, f"mkdir -p ~/lib/{name}; touch ~/lib/{name}/__init__.py")
    program = PROGRAM.replace("FRAMEWORK", name).replace("WAIT", str(wait))
    return f"PYTHONPATH=$PYTHONPATH:$HOME/lib python -c {shlex.quote(program)}"


def test_a_device_fault_ends_programs_with_a_device_at_once_and_at_every_start_until_stop_and_start(site) -> None:
    spec = site.boot()
    device = subprocess.Popen([*site.ssh_argv(spec), framework(site, spec, wait=100)], stdout=-1, stderr=-1, text=True)
    plain = subprocess.Popen(
        [*site.ssh_argv(spec), framework(site, spec, "plain", 100)], stdout=-1, stderr=-1, text=True
    )
    assert device.stdout.readline() == plain.stdout.readline() == "started\n"
    began = time.monotonic()
    site.order(spec, order="device_fault", message=MESSAGE)
    assert device.wait(5) == 1
    assert time.monotonic() - began < 0.5
    assert device.communicate() == ("buffered", MESSAGE)
    assert plain.poll() is None
    again = site.run(spec, framework(site, spec, wait=100))
    assert (again.returncode, again.stderr) == (1, MESSAGE)
    assert site.run(spec, framework(site, spec, "plain")).stdout == "started\nbufferedended\n"
    assert "imitated device fault ended process" in site.says(spec, "cat /var/log/rehearsal-device.log")
    site.do(site.machines.stop(spec.id))
    plain.communicate()
    site.start(dataclasses.replace(spec, boot=2))
    assert site.run(spec, framework(site, spec)).stdout == "started\nbufferedended\n"
    site.do(site.machines.delete(spec.id))


def test_the_words_of_a_device_fault_are_a_program_s_last(site, fresh) -> None:
    framework(site, fresh)
    program = "import jaxlib\nwhile True: print('busy', flush=True)"
    command = f"PYTHONPATH=$PYTHONPATH:$HOME/lib exec python -c {shlex.quote(program)} >~/log 2>&1"
    busy = subprocess.Popen([*site.ssh_argv(fresh), command])
    assert until(lambda: site.run(fresh, "test -s ~/log").returncode == 0)
    site.order(fresh, order="device_fault", message=MESSAGE)
    assert busy.wait(5) == 1
    assert site.says(fresh, "tail -n 1 ~/log") == MESSAGE.splitlines()[-1]


def test_the_device_stand_in_leaves_programs_alone(site, machine) -> None:
    program = (
        "import sys, threading; assert threading.active_count() == 1\n"
        "try: import libtpu\nexcept ImportError as missing: print(missing.name)\n"
        "print(sys.meta_path[0].__class__.__name__, 'pathlib' in sys.modules, 'importlib.util' in sys.modules)"
    )
    assert site.says(machine, f"python -c {shlex.quote(program)}") == "libtpu\n_DeviceWatch False False"
    forked = "import os; pid = os.fork(); os._exit(0) if not pid else print(os.waitpid(pid, 0)[1])"
    assert site.says(machine, f"python -c {shlex.quote(forked)}") == "0"


def test_the_device_stand_in_hides_no_sitecustomize_of_the_user(site, machine) -> None:
    site.says(machine, "mkdir -p ~/own; echo 'print(\"own\")' > ~/own/sitecustomize.py")
    assert site.says(machine, "PYTHONPATH=$PYTHONPATH:$HOME/own python -c 'print(1)'") == "own\n1"


def test_a_forked_child_dies_of_the_device_too(site, fresh) -> None:
    framework(site, fresh)
    program = (
        "import jaxlib, os, time\npid = os.fork()\n"
        "if not pid: time.sleep(100)\nprint('started', flush=True); os.waitpid(pid, 0); os._exit(7)"
    )
    command = f"PYTHONPATH=$PYTHONPATH:$HOME/lib exec python -c {shlex.quote(program)}"
    parent = subprocess.Popen([*site.ssh_argv(fresh), command], stdout=-1, stderr=-1)
    parent.stdout.readline()
    site.order(fresh, order="device_fault", message=MESSAGE)
    assert parent.wait(5) in (1, 7)
    assert until(lambda: site.run(fresh, "pgrep -f jaxlib,").returncode == 1)
    parent.communicate()


def test_the_first_step_at_or_beyond_the_wanted_one_is_reported_once(site, fresh) -> None:
    site.says(fresh, "mkdir -p ~/.tpuops/runs/r/1; printf 'step=10 loss=\\xff\\xfe\\n' > ~/.tpuops/runs/r/1/train.log")
    site.order(fresh, **WATCH, step=40, fault_index=0)
    log = "~/.tpuops/runs/r/1/train.log"
    site.says(fresh, f"echo step=39 >> {log}; printf step=4 >> {log}")
    time.sleep(0.2)
    assert steps(site, fresh) == []
    began = time.monotonic()
    site.says(fresh, f"printf '1 loss=2\\nstep=42\\nstep=43\\n' >> {log}")
    assert until(lambda: steps(site, fresh)), site.notices
    assert time.monotonic() - began < 0.5
    site.order(fresh, **WATCH, step=40, fault_index=1)  # the next watch goes on where this one stopped
    assert until(lambda: len(steps(site, fresh)) == 2)
    assert steps(site, fresh) == [(0, 41), (1, 42)]
    site.order(fresh, **WATCH, step=80, fault_index=2)
    site.says(fresh, "mkdir ~/.tpuops/runs/r/2; echo step=95 > ~/.tpuops/runs/r/2/train.log")
    assert until(lambda: (2, 95) in steps(site, fresh))
    site.order(fresh, **WATCH, step=100, fault_index=3)
    site.order(fresh, order="unwatch")
    site.says(fresh, f"echo step=120 >> {log}")
    time.sleep(0.3)
    assert len(steps(site, fresh)) == 3


def test_logs_of_an_earlier_boot_count_only_from_their_end_on(tmp_path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step=50\n")
    os.utime(log, (1, 1))
    progress = Progress(since=time.time() - 100)
    pattern = re.compile(rb"step=(\d+)")
    assert progress.first([log], pattern, 40) is None
    with log.open("a") as file:
        file.write("step=x\nstep=60\n")
    assert progress.first([log], pattern, 40) == 60


def test_a_log_that_shrinks_or_is_replaced_is_read_from_its_beginning(tmp_path) -> None:
    log, progress, pattern = tmp_path / "train.log", Progress(since=0), re.compile(rb"step=(\d+)")
    log.write_text("step=1\nstep=2\n")
    assert progress.first([log], pattern, 9) is None
    log.write_text("step=9\n")
    assert progress.first([log], pattern, 9) == 9
    (tmp_path / "new").write_text("step=10\r\nstep=11\n")
    (tmp_path / "new").rename(log)
    assert progress.first([log], pattern, 10) == 10
    log.unlink()
    assert progress.first([log, tmp_path], pattern, 10) is None


def test_a_glob_means_what_people_think(tmp_path) -> None:
    for path in ("a/train.log", "a/b/c/train.log", "a/xtrain.log", "a/site-packages/train.log"):
        (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / path).touch()
    assert [str(p.relative_to(tmp_path)) for p in find(tmp_path, "**/train.log")] == [
        "home/a/b/c/train.log",
        "home/a/train.log",
    ]
    assert glob_pattern("*.log").match("train.log")
    assert not glob_pattern("*.log").match("a/train.log")
    assert find(tmp_path / "nowhere", "*") == []


def test_login_keys_are_read_as_googles_guest_agent_reads_them(tmp_path) -> None:
    text = (
        "alice:ssh-ed25519 AAAA alice@host\n\nnot a line\n../etc:ssh-rsa BBBB x\n"
        'bob:ssh-rsa CCCC google-ssh {"userName":"bob","expireOn":"2026-11-20T12:00:00+0000"}\n'
        "carol:ssh-rsa DDDD google-ssh {broken\n"
    )
    accounts = Accounts(tmp_path)
    accounts.replace(keys_of({"ssh-keys": text, "sshKeys": "root:ssh-rsa EEEE"}))
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert accounts.keys("alice", noon) == ("ssh-ed25519 AAAA",)
    assert accounts.keys("bob", noon - timedelta(seconds=1)) == ("ssh-rsa CCCC",)
    assert accounts.keys("bob", noon) == accounts.keys("carol", noon) == accounts.keys("../etc", noon) == ()
    assert accounts.keys("root", noon) == ("ssh-rsa EEEE",)
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["alice", "bob"]
    assert "alice:x:0:0::/home/alice:/bin/bash" in (tmp_path / "etc/passwd").read_text()
    assert keys_of({"ssh-keys": text, "enable-oslogin": "TRUE"}) == ()
