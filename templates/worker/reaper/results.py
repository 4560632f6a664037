"""What the training left on this machine: it is ended with a grace, and its results are brought into the bucket."""

import glob
import json
import os
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
        agent = agent_of()
        if agent is None:
            return outcome
        program, home, run_id = agent
        told(program, home, fence, orders, "stop", str(STOP_GRACE_S))
        done = told(program, home, fence, orders, "collect", orders["bucket"], "runs/%s/saved" % run_id)
        outcome = {"run": run_id, "saved": len(done.get("saved", [])), "unsaved": done.get("failed", ["unknown"])}
        if not outcome["unsaved"] or time.monotonic() - began > orders["doubt_s"]:
            return outcome
        api.say("outputs are not saved yet: %s" % outcome["unsaved"])
        time.sleep(min(orders["look_s"], 30))


def agent_of(homes="/home"):
    """(program, home, run id) of the run that this machine had last, whoever's it is; None where there was none."""
    records = glob.glob(os.path.join(homes, "*", ".tpuops", "run.json"))
    try:
        record = max(records, key=os.path.getmtime)
        with open(record, encoding="utf-8") as file:
            run_id = str(json.load(file)["run_id"])
        programs = glob.glob(os.path.join(os.path.dirname(record), "*.pyz"))
        return max(programs, key=os.path.getmtime), os.path.dirname(os.path.dirname(record)), run_id
    except (KeyError, OSError, ValueError):
        return None


def told(program, home, fence, orders, *words):
    """One command of the agent as its user, while the fence is kept; its last reply's `ok`, {} where it has none."""

    owner = os.stat(home)

    def become():
        if os.getuid() != owner.st_uid:
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)

    process = subprocess.Popen(
        [sys.executable, "-I", "-S", program, *words],
        env=dict(os.environ, HOME=home),
        cwd=home,
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
