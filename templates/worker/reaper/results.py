"""What the training left on this machine: it is ended with a grace, and its results are brought into the bucket."""

import collections
import contextlib
import glob
import json
import os
import subprocess
import sys
import time

import api
import switch

STOP_GRACE_S = 20

Agent = collections.namedtuple("Agent", "program home run_id")
"""The agent's program on this machine, its user's home, and the run that it had last."""


def save(fence, past):
    """End the training with a grace, and bring outputs and logs into the bucket; what came of it, for the journal.

    Tried for `doubt_s` at most: results are worth waiting for, a machine that bills for ever is not. How it ended is
    left beside them. Raises `Failed`, `Lost`.
    """
    orders, began, outcome = fence.orders, time.monotonic(), {"saved": 0, "unsaved": []}
    while True:
        agent = agent_of()
        if agent is None:
            return outcome
        now = told(agent, orders, lambda: keep(fence), "status")
        lived = was_alive(past["folder"], now)
        told(agent, orders, lambda: keep(fence), "stop", str(STOP_GRACE_S))
        prefix = "runs/%s/saved" % agent.run_id
        done = told(agent, orders, lambda: keep(fence), "collect", orders["bucket"], prefix)
        outcome = {"run": agent.run_id, "saved": len(done.get("saved", [])), "unsaved": done.get("failed", ["unknown"])}
        if not outcome["unsaved"] or time.monotonic() - began > orders["doubt_s"]:
            break
        api.say("outputs are not saved yet: %s" % outcome["unsaved"])
        time.sleep(min(orders["look_s"], 30))
    if now and not fence.blind:
        beside = "runs/%s/evidence/%d/" % (agent.run_id, now["attempt"])
        if lived and past["run"] is not None and past["run"]["stalled"]:
            fence.put(beside + "stalled.json", {"silence_s": past["run"]["silent_s"], "phase": ""})
        fence.put(beside + "reaped.json", {"lived": lived, "unsaved": outcome["unsaved"]})
    return outcome


def was_alive(folder, now):
    """Whether the attempt lived when this machine came to end it: also asked again, by a later process of this program.

    So the exit of a program that was told to end is never taken for its own.
    """
    mark, name = os.path.join(folder, "ending.json"), [now.get("run_id"), now.get("attempt")]
    if now.get("alive"):
        with contextlib.suppress(OSError):  # a full disk must not keep the machine
            with open(mark + ".partial", "w", encoding="utf-8") as file:
                json.dump(name, file)
            os.replace(mark + ".partial", mark)
        return True
    try:
        with open(mark, encoding="utf-8") as file:
            return bool(json.load(file) == name)
    except (OSError, ValueError):
        return False


def agent_of(homes="/home"):
    """The `Agent` of the run that this machine had last, whoever's it is; None where there was none."""
    records = glob.glob(os.path.join(homes, "*", ".tpuops", "run.json"))
    try:
        record = max(records, key=os.path.getmtime)
        with open(record, encoding="utf-8") as file:
            run_id = str(json.load(file)["run_id"])
        programs = glob.glob(os.path.join(os.path.dirname(record), "*.pyz"))
        return Agent(max(programs, key=os.path.getmtime), os.path.dirname(os.path.dirname(record)), run_id)
    except (KeyError, OSError, ValueError):
        return None


def told(agent, orders, meanwhile, *words):
    """One command of the agent as its user, `meanwhile` every look; its last reply's `ok`, {} where it has none."""

    owner = os.stat(agent.home)

    def become():
        if os.getuid() != owner.st_uid:
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)

    process = subprocess.Popen(
        [sys.executable, "-I", "-S", agent.program, *words],
        env=dict(os.environ, HOME=agent.home),
        cwd=agent.home,
        preexec_fn=become,  # noqa: PLW1509 - this program has one thread
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        out = waited_for(process, orders, meanwhile)
    finally:
        process.kill()
        process.wait()
    try:
        return json.loads(out.decode("utf-8", "replace").splitlines()[-1]).get("ok", {})
    except (IndexError, ValueError):
        return {}


def waited_for(process, orders, meanwhile):
    """What it printed until it ended, for `doubt_s` at most. Raises what `meanwhile` does."""
    began = time.monotonic()
    while time.monotonic() - began < orders["doubt_s"]:
        try:
            return process.communicate(timeout=min(orders["look_s"], 30))[0]
        except subprocess.TimeoutExpired:
            meanwhile()
    return b""


def keep(fence):
    """Renew the fence, as far as the bucket can be reached. Raises `Lost`."""
    try:
        if not fence.renew():
            raise switch.Lost()
    except api.Failed as error:
        api.say("cannot renew: %s" % error)
