"""What the training left on this machine: it is ended with a grace, and its results are brought into the bucket."""

import json
import os
import pwd
import subprocess
import sys
import time

import api
import switch

STOP_GRACE_S = 20


def save(orders, fence):
    """End the training with a grace, and bring outputs and logs into the bucket; what came of it, for the journal.

    Tried for `doubt_s` at most: results are worth waiting for, a machine that bills for ever is not.
    """
    began, outcome = time.monotonic(), {"saved": 0, "unsaved": []}
    while True:
        agent = agent_of(orders["user"])
        if agent is None:
            return outcome
        program, owner, run_id = agent
        told(program, owner, fence, orders, "stop", str(STOP_GRACE_S))
        done = told(program, owner, fence, orders, "collect", orders["bucket"], "runs/%s/saved" % run_id)
        outcome = {"run": run_id, "saved": len(done.get("saved", [])), "unsaved": done.get("failed", ["unknown"])}
        if not outcome["unsaved"] or time.monotonic() - began > orders["doubt_s"]:
            return outcome
        api.say("outputs are not saved yet: %s" % outcome["unsaved"])
        time.sleep(min(orders["look_s"], 30))


def agent_of(user):
    """(program, its owner, run id) of the newest agent on this machine; None where no run ever was."""
    try:
        owner = pwd.getpwnam(user)
        folder = os.path.join(owner.pw_dir, ".tpuops")
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            run_id = str(json.load(file)["run_id"])
        programs = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pyz")]
        return (max(programs, key=os.path.getmtime), owner, run_id) if programs else None
    except (KeyError, OSError, ValueError):
        return None


def told(program, owner, fence, orders, *words):
    """One command of the agent as its user, while the fence is kept; its last reply's `ok`, {} where it has none."""

    def become():
        if os.getuid() != owner.pw_uid:
            os.initgroups(owner.pw_name, owner.pw_gid)
            os.setgid(owner.pw_gid)
            os.setuid(owner.pw_uid)

    env = dict(os.environ, HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
    argv = [sys.executable, "-I", "-S", program, *words]
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=owner.pw_dir,
        preexec_fn=become,  # noqa: PLW1509 - this program has one thread
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        out = waited_for(process, fence, orders)
    finally:
        process.kill()
        process.wait()
    try:
        return json.loads(out.decode("utf-8", "replace").splitlines()[-1]).get("ok", {})
    except (IndexError, ValueError):
        return {}


def waited_for(process, fence, orders):
    """What it printed until it ended, for `doubt_s` at most. Raises `Lost` where the fence is not ours any more."""
    began = time.monotonic()
    while time.monotonic() - began < orders["doubt_s"]:
        try:
            return process.communicate(timeout=min(orders["look_s"], 30))[0]
        except subprocess.TimeoutExpired:
            keep(fence)
    return b""


def keep(fence):
    """Renew the fence, as far as the bucket can be reached. Raises `Lost`."""
    try:
        if not fence.renew():
            raise switch.Lost()
    except api.Failed as error:
        api.say("cannot renew: %s" % error)
