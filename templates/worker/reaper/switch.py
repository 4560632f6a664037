"""The lease as a machine sees it: how old it is, what follows from that, and holding it oneself."""

import json
import os
import time
import urllib.parse

import api

WAIT, KEEP, REAP, LEAVE = "wait", "keep", "reap", "leave"
"""Do nothing; renew; save and delete; save and give the lease back."""


class Lost(Exception):
    """Somebody else holds the lease: stop acting."""


def seen(google, orders):
    """What a look at the lease shows: {"now", "state", "age_s", "generation", "grace_s", "token", "holder", "keeper"}.

    `state` is held, free (the server said that there is none) or unknown, with `why`. `keeper` is there where its
    holder left it to the machine of a run.
    """
    name = urllib.parse.quote(orders["lease"], safe="")
    url = "%s/storage/v1/b/%s/o/%s" % (google.storage, urllib.parse.quote(orders["bucket"], safe=""), name)
    try:
        status, stat = google.ask("GET", url)
        if status == 404:
            return {"now": google.when, "state": "free", "generation": 0}
        updated, generation = api.seconds(stat.get("updated", "")), int(stat.get("generation", 0))
        if status != 200 or updated is None or google.when is None or not generation:
            return {"now": google.when, "state": "unknown", "why": "no time or no generation in the answer"}
        found = {"now": google.when, "state": "held", "age_s": google.when - updated, "generation": generation}
        status, holder = google.ask("GET", "%s?alt=media&generation=%d" % (url, generation))
    except (api.Failed, ValueError, TypeError, AttributeError) as error:
        return {"now": google.when, "state": "unknown", "why": str(error)}
    # What a holder writes may be of any version: only these three are read, and none is needed.
    holder = holder if status == 200 and isinstance(holder, dict) else {}
    grace_s, found["token"], found["holder"] = holder.get("grace_s"), holder.get("token"), holder
    found["keeper"] = holder.get("keeper") if is_keeper(holder.get("keeper")) else None
    found["grace_s"] = grace_s if isinstance(grace_s, (int, float)) and 0 < grace_s <= 86400 else 0
    return found


def is_keeper(told):
    """Whether a lease says all that its run's machine must know to keep it."""
    kinds = {"run_id": str, "until": (int, float), "stall_s": (int, float, type(None)), "success": str, "failure": str}
    return isinstance(told, dict) and all(isinstance(told.get(key, ...), kind) for key, kind in kinds.items())


def judge(orders, seen, past):
    """(WAIT, KEEP, REAP or LEAVE, why), from one look and what this reaper knows of the time before it.

    `past`: `me` (our token), `checked_in` (a controller was seen), `since_boot_s`, `readable_s` and `unknown_s` (since
    when everything, or nothing, can be read), `queued` (the TPU came from a queued resource) and `run` (`runs.Run.look`
    at the run that the lease is kept for; None where it is kept for none, or that is not here). Whoever renews is
    never disturbed, also not where nobody could for a while: then it gets the time that its lease counts. Doubt waits.
    """
    ended = seen["now"] is not None and seen["now"] > orders["end"]
    if seen["state"] == "held":
        grace_s = max(orders["grace_s"], seen["grace_s"]) + orders["behind_s"]
        silent = seen["age_s"] > grace_s and past["readable_s"] > orders["ttl_s"]
        if past["run"] is not None and (silent or not seen["token"] or seen["keeper"].get("ending")):
            return of_run(orders, seen, past["run"])
        if seen["token"] is not None and seen["token"] == past["me"]:
            return REAP, "it is ours to finish"
        return (REAP if silent else WAIT), "the lease was not renewed for %d s" % seen["age_s"]
    if seen["state"] == "free":
        if past["queued"] and not past["checked_in"] and past["since_boot_s"] > orders["boot_s"] + orders["behind_s"]:
            return REAP, "no controller came in the %d s since this queued TPU started" % past["since_boot_s"]
        return (REAP, "nobody holds the lease, and the end set at creation has passed") if ended else (WAIT, "free")
    if ended and past["unknown_s"] > orders["doubt_s"]:
        return REAP, "the end set at creation has passed, and the lease cannot be read: %s" % seen["why"]
    return WAIT, "the lease cannot be read: %s" % seen["why"]


def of_run(orders, seen, run):
    """The same of a lease that this machine keeps for `run`, or kept until somebody took it and fell silent: the file's
    word for each end."""
    keeper = seen["keeper"]
    if not run["alive"]:
        code = run["code"]
        word, why = keeper["success" if code == 0 else "failure"], "the training ended with exit code %s" % code
    elif seen["now"] > keeper["until"]:
        word, why = keeper["failure"], "the run has reached its limit"
    elif run["stalled"]:
        word, why = keeper["failure"], "the training has said nothing for %d s" % run["silent_s"]
    elif keeper.get("ending"):
        word, why = keeper["failure"], "it was to be ended, and whoever began that is gone"
    else:
        return (KEEP if seen["age_s"] > orders["ttl_s"] / 4 else WAIT), "the run goes on"
    return (LEAVE if word == "keep" else REAP), why


class Fence:
    """The lease that was `seen`, while this reaper holds it."""

    def __init__(self, google, orders, me, seen):
        self.google, self.orders, self.me, self.seen = google, orders, me, seen
        self.generation = seen.get("generation", 0)
        self.blind = seen["state"] == "unknown"
        """Where the bucket could not be read for long there is nothing to hold."""

    def hold(self, run=None):
        """Write ourselves over the generation last known; False where somebody else was faster. Raises `Failed`.

        A `run` (`runs.Run.look`) that it is kept for is to end from then on, whatever becomes of us, and the end that
        we bring about is no success of its own.
        """
        keeper = self.seen.get("keeper")
        if keeper and run and run["alive"]:
            keeper = self.seen["keeper"] = dict(keeper, success=keeper["failure"])
        if self.blind:
            return True
        holder = {
            "token": self.me,
            "user": "reaper",
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "started": "",
            "since": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(self.google.when)),
            "doing": "reaper",
            "progress": {},
            "ttl_s": self.orders["ttl_s"],
            "grace_s": self.orders["grace_s"],
            "keeper": dict(keeper, ending=True) if keeper else {},
            "format": 1,
        }
        return self._over(holder)

    def renew(self):
        """Whether it is still ours, after writing it again. Raises `Failed`: then nobody knows, and nothing is done."""
        return self.hold()

    def keep(self):
        """Renew it for the run on this machine; False where somebody took it over. Raises `Failed`."""
        name = self.orders["node"]["name"]
        return self._over(dict(self.seen["holder"], token="", host=name, pid=0, started="", doing="run"))

    def release(self):
        """Give it back. Raises `Failed`."""
        name = urllib.parse.quote(self.orders["lease"], safe="")
        bucket = urllib.parse.quote(self.orders["bucket"], safe="")
        where = "%s/storage/v1/b/%s/o/%s?ifGenerationMatch=%d" % (self.google.storage, bucket, name, self.generation)
        self.google.ask("DELETE", where)

    def _over(self, holder):
        status, stat = self.put(self.orders["lease"], holder, "&ifGenerationMatch=%d" % self.generation)
        if status == 200:
            self.generation = int(stat["generation"])
        self.blind = status == 404  # the bucket is gone: nobody can hold anything in it
        return status in (200, 404)

    def tell(self, kind, facts):
        """Leave an event in the run's journal, or beside the lease where no run is known; best effort."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000+00:00", time.gmtime(self.google.when))
        run_id = facts.get("run")
        folder = "runs/%s/journal/" % run_id if run_id else os.path.dirname(self.orders["lease"]) + "/reaper/"
        try:
            self.put("%s%s-0000-%s.json" % (folder, at, kind), dict(facts, at=at, kind=kind))
        except api.Failed as error:
            api.say("cannot leave %s: %s" % (kind, error))

    def put(self, name, document, more=""):
        """Write an object into the home bucket; (status, its listing). Raises `Failed`."""
        bucket, name = urllib.parse.quote(self.orders["bucket"], safe=""), urllib.parse.quote(name, safe="")
        where = "%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s%s" % (self.google.storage, bucket, name, more)
        return self.google.ask("POST", where, json.dumps(document, sort_keys=True).encode())
