"""The dead-man's switch on a machine: where nobody supervises any more, it saves the outputs and deletes everything.

Runs on the VM and on worker 0 of the TPU, with the machine's own identity, from boot on. It reads the age of the
environment's lease in the home bucket, by the server's clock alone. A lease that is renewed is never touched, whoever
holds it; one that cannot be read is not a stale one. Before it acts it takes the lease itself, over the generation it
judged: a controller that comes back is refused, and one that was faster wins. It deletes the other machine first, then
its own, each only if it carries this environment's labels. It ends nothing else, and may be started many times.

A lease that its holder left to the machine of its run is renewed there for as long as the run lives, says something and
has not reached its limit; then the results are saved, and the machines are deleted or left as the file says.

Needs, on the home bucket: storage.objects.get, create, delete. On the project: tpu.nodes.get, tpu.nodes.delete,
tpu.queuedresources.get, tpu.queuedresources.delete, compute.instances.get, compute.instances.delete.
Standard library only, Python 3.8 and later.
"""

import fcntl
import json
import os
import secrets
import sys
import time

import api
import hostkeys
import machines
import results
import runs
import switch

REST = 3
"""For how many graces the lease is left alone by one who cannot end everything: the VM acts after two."""


def watch(google, orders, folder):
    """Look for as long as the machine lives."""
    me, began = secrets.token_hex(8), time.monotonic()
    read, unread = began, began
    mark, queued, run, failing = os.path.join(folder, "checked-in"), None, runs.Run(orders), None
    while True:
        time.sleep(orders["look_s"])
        queued = machines.is_queued(google, orders) if queued is None else queued
        seen = switch.seen(google, orders)
        if seen["state"] == "unknown":
            unread = time.monotonic()
        else:
            read = time.monotonic()
        if seen["state"] == "held" and seen["age_s"] <= orders["grace_s"] and seen["token"] != me:
            open(mark, "ab").close()
        past = {
            "me": me,
            "folder": folder,
            "checked_in": os.path.exists(mark),
            "since_boot_s": time.monotonic() - began,
            "readable_s": read - unread,
            "unknown_s": unread - read,
            "queued": bool(queued),
            "run": run.look(seen.get("keeper")),
        }
        if seen.get("token") not in (None, "", me):
            run.doubt()
        failed = act(switch.Fence(google, orders, me, seen), past, *switch.judge(orders, seen, past))
        failing = (failing or time.monotonic()) if failed else None
        if failing and orders["vm"] and time.monotonic() - failing > orders["grace_s"]:
            api.say("resting, so that the other machine may do it")
            time.sleep(orders["grace_s"] * REST)
            failing = None


def act(fence, past, verdict, why):
    """Take the lease over the generation that was judged, then do it; whatever goes wrong is tried at the next look.

    Whether it went wrong to end everything.
    """
    if verdict == switch.WAIT:
        return False
    try:
        if not (fence.keep() if verdict == switch.KEEP else fence.hold(past["run"])):
            api.say("somebody was faster")
        elif verdict == switch.REAP:
            reap(fence, past, why)
        elif verdict == switch.LEAVE:
            leave(fence, past, why)
    except switch.Lost:
        api.say("somebody else holds the lease: nothing more is done")
    except Exception as error:  # noqa: BLE001 - one that ends us would begin anew with a grace, and keep the VM waiting
        api.say("later again: %s" % (error if isinstance(error, api.Failed) else repr(error)))
        return verdict == switch.REAP
    return False


def leave(fence, past, why):
    """Save what this machine holds and give the lease back: the machines stay. Raises as `reap`."""
    api.say("saving: %s" % why)
    fence.tell("reaper.leaves", dict(results.save(fence, past), why=why))
    fence.release()


def reap(fence, past, why):
    """Save what this machine holds, then delete the other machine and, last, this one.

    Raises `Failed` (come back later: everything is asked anew) or `Lost`.
    """
    api.say("acting: %s" % why)
    google, orders = fence.google, fence.orders
    told = {"why": why, "by": orders["role"]}
    if orders["role"] == "node":
        told.update(results.save(fence, past))
    fence.tell("reaper.acts", told)
    others_first = [("vm", machines.vm_of), ("node", machines.node_of)]
    problems = []
    for kind, find in others_first if orders["role"] == "node" else reversed(others_first):
        if problems and kind == orders["role"] == "vm":
            break  # a VM has an end of its own, a TPU that stands has nobody else who comes back for it
        try:
            machines.remove(google, orders, fence, find(google, orders))
        except api.Failed as error:
            problems.append("%s: %s" % (kind, error))
            api.say(problems[-1])
    if problems:
        raise api.Failed("; ".join(problems))


def main(folder, *tasks):
    """0 where there is nothing to watch here, or another one watches already. `host-keys` tells those and no more."""
    google = api.Google()
    orders = google.metadata("instance/attributes/tpuops-reaper")
    if orders is not None and tasks == ("host-keys",):
        hostkeys.publish(google, json.loads(orders))
        return 0
    if orders is None or (google.metadata("instance/attributes/agent-worker-number") or "0").strip() != "0":
        return 0
    with open(os.path.join(folder, "reaper.lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        watch(google, json.loads(orders), folder)
    return 0


if __name__ == "__main__":
    try:
        code = main(*sys.argv[1:])
    except (api.Failed, OSError, ValueError, KeyError) as error:
        api.say("%s: %s" % (type(error).__name__, error))
        code = 1
    sys.exit(code)
