"""A run on a machine: started once, recorded whatever dies, followed to its last byte, ended without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.templates.machine import RUN, Here, kill, until

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)"
COUNTER = "import time\nfor i in range(400): print(i); time.sleep(0.005)"


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_a_machine_that_never_ran_says_so(here: Here) -> None:
    status = here.ask("status")
    assert status["source"] == "" and "run_id" not in status and "-" in status["boot_id"]


def test_an_exit_code_and_every_line_arrive(here: Here) -> None:
    status = here.start(
        "import sys\nfor i in range(1000): print('line', i)\nsys.stderr.write('no newline')\nsys.exit(7)"
    )
    assert status["run_id"] == RUN and status["pid"] > 0
    log, end = here.followed()
    assert log == b"".join(b"line %d\n" % i for i in range(1000)) + b"no newline"
    assert (end["exit"]["code"], end["exit"]["signal"]) == (7, 0)
    assert here.ask("status")["alive"] is False
    until(lambda: "tpuops" not in here.tmux("list-sessions"))


def test_starting_again_finds_the_living_and_the_ended(here: Here) -> None:
    first = here.start(SLEEPER)
    assert here.start(SLEEPER)["pid"] == first["pid"]
    assert here.start(SLEEPER, attempt=2)["attempt"] == 1, "a living run is sacred: no second attempt beside it"
    kill(first["pid"])
    until(lambda: here.ask("status")["exit"])
    again = here.start(SLEEPER)
    assert again["pid"] == first["pid"] and again["exit"] == here.ask("status")["exit"]


def test_two_starts_at_once_start_one(here: Here) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(here.start(SLEEPER)["pid"])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert here.attempt("train.log").read_text().count("up") <= 1


def test_another_run_is_refused_while_one_lives(here: Here) -> None:
    here.start(SLEEPER)
    other = json.loads(here.spec(SLEEPER))
    error = here.refused("start", data=json.dumps({**other, "run_id": "r2"}).encode())
    assert error["kind"] == "busy" and RUN in error["message"]


def test_a_run_id_cannot_lead_elsewhere(here: Here) -> None:
    spec = json.dumps({**json.loads(here.spec(SLEEPER)), "run_id": "../../evil"}).encode()
    assert here.refused("start", data=spec)["kind"] == "usage"


def test_a_killed_training_is_recorded_with_its_signal(here: Here) -> None:
    pid = here.start(SLEEPER)["pid"]
    kill(pid)
    _, end = here.followed()
    assert (end["exit"]["code"], end["exit"]["signal"]) == (137, 9)


def test_the_log_and_the_run_survive_the_recorder_but_the_end_is_a_vanishing(here: Here) -> None:
    here.start(COUNTER)
    until(lambda: here.attempt("train.log").stat().st_size > 20)
    kill(here.pids()["recorder"]["pid"])
    assert here.ask("status")["alive"] is True
    log, end = here.followed()
    assert log == b"".join(b"%d\n" % i for i in range(400))
    assert end["vanished"]["alive"] is False and end["vanished"]["exit"] is None


def test_training_and_record_survive_the_tmux_server(here: Here) -> None:
    pid = here.start("import time, sys\ntime.sleep(1.5)\nprint('done')\nsys.exit(4)")["pid"]
    server = int(here.tmux("display-message", "-p", "-t", "tpuops", "#{pid}"))
    kill(server)
    until(lambda: gone(server))
    assert here.start(SLEEPER)["pid"] == pid, "found again, with a new window"
    assert "tpuops" in here.tmux("list-sessions")
    log, end = here.followed()
    assert log == b"done\n" and end["exit"]["code"] == 4


def test_recorder_and_training_lead_sessions_of_their_own(here: Here) -> None:
    here.start(SLEEPER)
    for who in ("recorder", "training"):
        pid = here.pids()[who]["pid"]
        assert os.getsid(pid) == os.getpgid(pid) == pid


def test_a_closed_window_does_not_end_the_run(here: Here) -> None:
    pid = here.start(SLEEPER)["pid"]
    here.tmux("kill-session", "-t", "tpuops")
    time.sleep(0.3)
    assert not gone(pid) and here.ask("status")["alive"] is True


def test_the_window_shows_the_log_and_passes_ctrl_c_on(here: Here) -> None:
    here.start(SLEEPER)
    until(lambda: "up" in here.tmux("capture-pane", "-p", "-t", "tpuops"))
    here.tmux("send-keys", "-t", "tpuops", "C-c")
    _, end = here.followed()
    assert end["exit"]["signal"] == signal.SIGINT


def test_stop_ends_gracefully_within_the_grace(here: Here) -> None:
    here.start("import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(9))\nprint('up')\ntime.sleep(600)")
    until(lambda: here.attempt("train.log").read_bytes() == b"up\n")
    assert here.ask("stop", "20")["exit"]["code"] == 9
    assert "tpuops" not in here.tmux("list-sessions")


def test_stop_ends_what_ignores_it_and_what_left_the_session(here: Here) -> None:
    stubborn = (
        "import signal, subprocess, sys, time\n"
        "for n in (2, 3, 15): signal.signal(n, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\ntime.sleep(600)"
    )
    pid = here.start(stubborn)["pid"]
    child = int(until(lambda: here.attempt("train.log").read_bytes()))
    status = here.ask("stop", "0.2")
    assert status["exit"]["signal"] == 9 and gone(pid) and gone(child)
    assert all(gone(here.pids()[who]["pid"]) for who in ("training", "recorder"))


def test_stop_without_a_run_and_twice_is_fine(here: Here) -> None:
    assert here.ask("stop", "0")["source"] == ""
    here.start(SLEEPER)
    assert here.ask("stop", "0") == here.ask("stop", "0")


def test_a_program_that_is_not_there_says_so_in_the_log(here: Here) -> None:
    here.ask("start", data=json.dumps({"run_id": RUN, "attempt": 1, "command": ["no-such-program"]}).encode())
    log, end = here.followed()
    assert end["exit"]["code"] == 127 and b"no-such-program" in log


def test_follow_goes_on_from_an_offset_and_cuts_at_lines(here: Here) -> None:
    here.start("print('first'); print('second'); print('third')")
    here.followed()
    assert here.followed(offset=6)[0] == b"second\nthird\n"


def test_follow_leaves_when_its_reader_does(here: Here) -> None:
    here.start(SLEEPER)
    process = here.popen("follow", RUN, "1", "0")
    assert process.stdout is not None and process.stdout.readline()
    process.communicate(timeout=2)
    assert process.returncode == 0


def test_a_follower_hears_of_the_end_within_50_ms(here: Here) -> None:
    delays = []
    for attempt in range(1, 8):
        here.start("import time\nprint('up', flush=True)\ntime.sleep(600)", attempt=attempt)
        process = here.popen("follow", RUN, str(attempt), "0")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        began = time.monotonic()
        kill(here.pids(attempt)["training"]["pid"])
        assert "exit" in json.loads(process.stdout.readline())["ok"]
        delays.append(time.monotonic() - began)
        process.communicate()
    assert sorted(delays)[len(delays) // 2] < 0.05, delays


def test_following_an_idle_run_costs_next_to_nothing(here: Here) -> None:
    here.start(SLEEPER)
    process = here.popen("follow", RUN, "1", "0")
    time.sleep(0.5)

    def ticks() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(2)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") / 2 < 0.02
    process.communicate()


def test_the_training_environment_is_told(here: Here) -> None:
    here.env["SSH_CONNECTION"] = "hidden"
    here.start(
        "import json, os; print(json.dumps(dict(os.environ)))",
        env={"GREETING": "a 'b' \"c\" $d\n\\e", "TPUOPS_CHECKPOINTS": "gs://b/c"},
    )
    env = json.loads(here.followed()[0])
    assert env["GREETING"] == "a 'b' \"c\" $d\n\\e" and env["TPUOPS_CHECKPOINTS"] == "gs://b/c"
    assert env["TPUOPS_RUN_ID"] == RUN and env["TPUOPS_ATTEMPT"] == "1" and env["PYTHONUNBUFFERED"] == "1"
    assert env["TPUOPS_OUTPUTS"] == str(here.home / f".tpuops/runs/{RUN}/outputs") and "SSH_CONNECTION" not in env
    assert not here.attempt("launch.json").exists(), "the environment does not stay on the disk"


def test_a_rehearsal_replaces_what_it_names_on_its_machines_only(here: Here) -> None:
    rehearsal = {"setup": [], "devices": 8, "env": {"WHERE": "rehearsal"}}
    code = "import os; print(os.environ.get('XLA_FLAGS'), os.environ.get('WHERE'))"
    spec = {"setup": [["false"]], "rehearsal": rehearsal, "env": {"WHERE": "cloud"}}
    assert here.refused("start", data=here.spec(code, **spec))["kind"] == "setup_failed"
    here.env.update(TPUOPS_REHEARSAL="1", XLA_FLAGS="--a=b --xla_force_host_platform_device_count=2")
    here.start(code, attempt=2, **spec)
    assert here.followed(2)[0] == b"--a=b --xla_force_host_platform_device_count=8 rehearsal\n"


def test_setup_runs_once_and_its_failure_is_told(here: Here) -> None:
    mark = here.home / "ran"
    good = [sys.executable, "-c", f"open({str(mark)!r}, 'a').write('x')"]
    bad = ["sh", "-c", "echo about to fail; exit 5"]
    error = here.refused("start", data=here.spec("pass", setup=[good, bad]))
    assert error["kind"] == "setup_failed" and error["code"] == 5 and error["evidence"][-1] == "about to fail"
    assert not here.attempt("pid.json").exists()
    here.start("pass", setup=[good])
    here.followed()
    here.start("pass", attempt=2, setup=[good])
    assert mark.read_text() == "xx"


def test_a_setup_whose_starter_was_killed_does_not_run_twice_at_once(here: Here) -> None:
    mark = here.home / "marks"
    slow = ["sh", "-c", f"echo begin $$ >> {mark}; sleep 1; echo end $$ >> {mark}"]
    starter = here.popen("start")
    assert starter.stdin is not None
    starter.stdin.write(here.spec("pass", setup=[slow]))
    starter.stdin.close()
    until(lambda: mark.exists() and (here.home / ".tpuops/setup/running.json").exists())
    starter.kill()
    starter.wait()
    assert starter.stdout is not None
    starter.stdout.close()
    here.start("pass", setup=[slow])
    lines = mark.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["begin", "begin", "end"]


def test_stop_ends_a_setup_that_hangs(here: Here) -> None:
    starter = here.popen("start")
    threading.Timer(1.0, lambda: here.ask("stop", "0")).start()
    out, _ = starter.communicate(here.spec("pass", setup=[["sleep", "600"]]), timeout=20)
    assert json.loads(out)["error"]["kind"] == "setup_failed"


def test_a_process_id_used_again_is_not_the_run(here: Here) -> None:
    here.start("pass")
    here.followed()
    here.attempt("exit.json").unlink()
    with subprocess.Popen(["sleep", "600"]) as other:
        record = here.pids()
        record["training"]["pid"] = record["recorder"]["pid"] = other.pid
        here.attempt("pid.json").write_text(json.dumps(record))
        status = here.ask("status")
        assert status["alive"] is False and status["exit"] is None
        here.ask("stop", "0")
        assert other.poll() is None, "a stranger was killed"
        other.kill()


def test_leftovers_of_an_attempt_are_gone_before_the_next(here: Here) -> None:
    here.start(
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True).pid)"
    )
    child = int(here.followed()[0])
    assert not gone(child)
    here.start("pass", attempt=2)
    assert gone(child)


def test_the_agents_files_are_for_this_user_only(here: Here) -> None:
    here.start("print(1)")
    here.followed()
    assert (here.home / ".tpuops").stat().st_mode & 0o077 == 0
    for name in ("spec.json", "pid.json", "train.log"):
        assert here.attempt(name).stat().st_mode & 0o077 == 0
