"""The lease as a machine sees it: how old it is, what follows from that, and holding it oneself."""

import json
import os
import time
import urllib.parse

import api

WAIT, REAP = "wait", "reap"


class Lost(Exception):
    """Somebody else holds the lease: stop acting."""


def seen(google, orders):
    """What a look at the lease shows: {"now", "state", "age_s", "generation", "grace_s", "token"}.

    `state` is held, free (the server said that there is none) or unknown, with `why`.
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
    # What a holder writes may be of any version: only these two are read, and neither is needed.
    readable = status == 200 and isinstance(holder, dict)
    grace_s = holder.get("grace_s") if readable else None
    found["token"] = holder.get("token") if readable else None
    found["grace_s"] = grace_s if isinstance(grace_s, (int, float)) and 0 < grace_s <= 86400 else 0
    return found


def judge(orders, seen, past):
    """(WAIT or REAP, why), from one look and what this reaper knows of the time before it.

    `past`: `me` (our token), `checked_in` (a controller was seen), `since_boot_s`, `readable_s` and `unknown_s` (since
    when everything, or nothing, can be read) and `queued` (the TPU came from a queued resource). Whoever renews is
    never disturbed, also not where nobody could for a while: then it gets the time that its lease counts. Doubt waits.
    """
    ended = seen["now"] is not None and seen["now"] > orders["end"]
    if seen["state"] == "held":
        grace_s = max(orders["grace_s"], seen["grace_s"]) + orders["behind_s"]
        if seen["token"] is not None and seen["token"] == past["me"]:
            return REAP, "it is ours to finish"
        if seen["age_s"] > grace_s and past["readable_s"] > orders["ttl_s"]:
            return REAP, "the lease was not renewed for %d s" % seen["age_s"]
        return WAIT, "the lease is %d s old" % seen["age_s"]
    if seen["state"] == "free":
        if past["queued"] and not past["checked_in"] and past["since_boot_s"] > orders["boot_s"] + orders["behind_s"]:
            return REAP, "no controller came in the %d s since this queued TPU started" % past["since_boot_s"]
        return (REAP, "nobody holds the lease, and the end set at creation has passed") if ended else (WAIT, "free")
    if ended and past["unknown_s"] > orders["doubt_s"]:
        return REAP, "the end set at creation has passed, and the lease cannot be read: %s" % seen["why"]
    return WAIT, "the lease cannot be read: %s" % seen["why"]


class Fence:
    """The lease while this reaper holds it."""

    def __init__(self, google, orders, me):
        self.google, self.orders, self.me, self.generation = google, orders, me, 0
        self.blind = False
        """Set where the bucket could not be read for long: then there is nothing to hold."""

    def hold(self, generation):
        """Write ourselves over that generation; False where somebody else was faster. Raises `Failed`."""
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
            "format": 1,
        }
        status, stat = self._put(self.orders["lease"], holder, "&ifGenerationMatch=%d" % generation)
        if status == 200:
            self.generation = int(stat["generation"])
        return status == 200

    def renew(self):
        """Whether it is still ours, after writing it again. Raises `Failed`: then nobody knows, and nothing is done."""
        return self.hold(self.generation)

    def tell(self, kind, facts):
        """Leave an event in the run's journal, or beside the lease where no run is known; best effort."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000+00:00", time.gmtime(self.google.when))
        run_id = facts.get("run")
        folder = "runs/%s/journal/" % run_id if run_id else os.path.dirname(self.orders["lease"]) + "/reaper/"
        try:
            self._put("%s%s-0000-%s.json" % (folder, at, kind), dict(facts, at=at, kind=kind), "")
        except api.Failed as error:
            api.say("cannot leave %s: %s" % (kind, error))

    def _put(self, name, document, more):
        bucket, name = urllib.parse.quote(self.orders["bucket"], safe=""), urllib.parse.quote(name, safe="")
        where = "%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s%s" % (self.google.storage, bucket, name, more)
        return self.google.ask("POST", where, json.dumps(document, sort_keys=True).encode())
