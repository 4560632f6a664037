"""Starts and stops an attempt: at most one lives on the machine, and asking twice gives the same one."""

import json
import os
import shutil
import signal
import subprocess
import sys

import devices
import hidden
import places
import processes
import setup
import state
import versions

HIDDEN = ("SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "TMUX", "TMUX_PANE")
DEVICE_FLAG = "--xla_force_host_platform_device_count"


def start_asked():
    """`start` with the spec on standard input. A connection that breaks meanwhile must not end a setup half way."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return start(json.load(sys.stdin))


def start(spec):
    """Set up and start the attempt, or find the run living; the status document. Refuses while another run lives."""
    spec = _checked(spec)
    with places.locked():
        now = state.now()
        if now.get("alive"):
            if now["run_id"] != spec["run_id"]:
                raise places.Refused("busy", "run %s, attempt %d lives here" % (now["run_id"], now["attempt"]))
            _open_window(now["run_id"], now["attempt"])
            return now
        folder = places.attempt_folder(spec["run_id"], spec["attempt"])
        if not os.path.exists(os.path.join(folder, "pid.json")):
            secrets = spec.pop("secrets")
            _prepare(spec, folder, now.get("run_id", ""))
            hidden.put(spec["run_id"], spec["attempt"], secrets)
            try:
                _launch(spec, folder)
            finally:
                hidden.clear()
        return state.of_attempt(spec["run_id"], spec["attempt"])


def prepare_asked():
    """`prepare` with the spec on standard input."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return prepare(json.load(sys.stdin))


def prepare(spec):
    """Set up and start nothing, so that `start` has only to start; which packages the training will find.

    Where a run lives, what it uses is left as it is.
    """
    spec = _checked(spec)
    with places.locked():
        if not state.now().get("alive"):
            spec.pop("secrets")
            _place(spec, places.attempt_folder(spec["run_id"], spec["attempt"]))
        return versions.found(spec["command"], _cwd(spec), environment(spec))


def _checked(spec):
    """The spec with what is missing filled in, and with the rehearsal's part where this is a rehearsal's machine."""
    spec = {"setup": [], "env": {}, "outputs": [], "rehearsal": {}, "secrets": {}, **spec}
    places.attempt_folder(spec["run_id"], spec["attempt"])
    if os.environ.get("TPUOPS_REHEARSAL") == "1":
        differs = spec["rehearsal"]
        spec.update({key: differs[key] for key in ("setup", "command") if differs.get(key) is not None})
        spec["env"] = {**spec["env"], **(differs.get("env") or {})}
    else:
        spec["rehearsal"] = {}
    for command in [spec["command"], *spec["setup"]]:
        if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
            raise places.Refused("usage", "a command is not a list of words: %r" % (command,))
    spec["source"] = places.current_source()
    return spec


def environment(spec):
    """What setup and training see: this login's environment, the spec's, then ours."""
    run = places.run_folder(spec["run_id"])
    env = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    env["PATH"] = env.get("PATH", os.defpath) + os.pathsep + os.path.expanduser("~/.local/bin")
    env.setdefault("TPUOPS_CHECKPOINTS", os.path.join(run, "checkpoints"))
    env.update({str(key): str(value) for key, value in spec["env"].items()})
    env.update(
        PYTHONUNBUFFERED="1",
        TPUOPS_RUN_ID=spec["run_id"],
        TPUOPS_ATTEMPT=str(spec["attempt"]),
        TPUOPS_OUTPUTS=os.path.join(run, "outputs"),
    )
    count = spec["rehearsal"].get("devices")
    if count:
        flags = [flag for flag in env.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICE_FLAG + "=")]
        env["XLA_FLAGS"] = " ".join([*flags, "%s=%d" % (DEVICE_FLAG, int(count))])
    return env


def _cwd(spec):
    return places.source_folder(spec["source"]) if spec["source"] else os.path.expanduser("~")


def _prepare(spec, folder, previous):
    """Everything before the first process: folders, records, setup, leftovers of the run before."""
    cwd, env = _place(spec, folder)
    for run_id in {previous, spec["run_id"]} - {""}:
        processes.end(lambda run_id=run_id: processes.of_run(run_id, 0), 0.0)
    devices.clear()
    places.write_json(os.path.join(folder, "launch.json"), {"command": spec["command"], "env": env, "cwd": cwd})


def _place(spec, folder):
    """Folders, records and setup; the folder and the environment that the program will have."""
    outputs = os.path.join(places.run_folder(spec["run_id"]), "outputs")
    os.makedirs(outputs, exist_ok=True)
    os.makedirs(folder, exist_ok=True)
    cwd, env = _cwd(spec), environment(spec)
    places.write_json(os.path.join(folder, "spec.json"), spec)
    places.write_json(
        os.path.join(places.root(), "run.json"), {"run_id": spec["run_id"], "attempt": int(spec["attempt"])}
    )
    for name in spec["outputs"]:
        _lead_outputs(cwd, name, outputs)
    setup.ensure(spec, cwd, env)
    return cwd, env


def _lead_outputs(cwd, name, outputs):
    """Make `<source>/<name>` lead to the run's outputs folder, where it outlives source and attempt."""
    path = os.path.normpath(os.path.join(cwd, name))
    if os.path.isabs(name) or not path.startswith(cwd + os.sep):
        raise places.Refused("usage", "outputs are folders inside the source tree, not %r" % name[:200])
    goal = outputs if name == "outputs" else os.path.join(outputs, os.path.relpath(path, cwd))
    os.makedirs(goal, exist_ok=True)
    if os.path.islink(path):
        os.unlink(path)
    if os.path.lexists(path):
        # Left in the source by a run elsewhere: not this run's results, so not to be collected as such.
        os.rename(path, "%s.synced-%d" % (path, os.getpid()))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(goal, path)


def _tmux(*words):
    env = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    try:
        return subprocess.run(
            ["tmux", *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=30, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise places.Refused("no_tmux", "tmux is not installed here", ["sudo apt-get install -y tmux"]) from None


def _open_window(run_id, attempt):
    """The tmux session that shows the run; its program starts the recorder where none was started yet."""
    if _tmux("has-session", "-t", "=" + places.SESSION).returncode == 0:
        return
    opened = _tmux(
        "new-session", "-d", "-s", places.SESSION, "-x", "200", "-y", "50",
        *places.itself("supervise", run_id, str(attempt)),
    )  # fmt: skip
    if opened.returncode != 0:
        raise places.Refused("tmux", "tmux did not start", opened.stdout.decode("utf-8", "replace").splitlines()[-5:])


def _close_window():
    if shutil.which("tmux"):
        _tmux("kill-session", "-t", "=" + places.SESSION)


def _launch(spec, folder):
    _close_window()
    _open_window(spec["run_id"], spec["attempt"])
    if not processes.wait_until(lambda: os.path.exists(os.path.join(folder, "pid.json")), 30, 0.005):
        said = os.path.join(folder, "recorder.log")
        lines = places.tail(said, 4096).decode("utf-8", "replace").splitlines() if os.path.exists(said) else []
        raise places.Refused("launch", "the training process did not start within 30 s", lines)


def stop(grace_s):
    """End the run and what it left behind; the status document. Nothing of it lives when this returns."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    setup.interrupt()
    with places.locked():
        run_id, attempt = places.current_run()
        if run_id:
            _end(run_id, attempt, float(grace_s))
        hidden.clear()
        _close_window()
        return state.now()


def _end(run_id, attempt, grace_s):
    pid = places.read_json(os.path.join(places.attempt_folder(run_id, attempt), "pid.json"))
    # The session's number is its own only as long as its leader lives.
    session = pid["training"]["pid"] if pid and processes.lives(pid["training"]) else 0
    left = processes.end(lambda: processes.of_run(run_id, session), grace_s)
    if pid and not processes.wait_until(lambda: not processes.lives(pid["recorder"]), 5.0):
        left += processes.end(lambda: [pid["recorder"]["pid"]] if processes.lives(pid["recorder"]) else [], 0.0)
    if left:
        raise places.Refused("left", "could not end process %s" % ", ".join(map(str, left)))
