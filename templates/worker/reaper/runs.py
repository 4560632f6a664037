"""The run that this machine keeps a lease for: whether it lives, and how long it has said nothing."""

import time

import api
import results


class Run:
    """What is seen of it, look by look; on worker 0 of the TPU alone, where runs are."""

    def __init__(self, orders):
        self.orders, self.run_id = orders, None

    def look(self, keeper):
        """{"alive", "code", "silent_s", "stalled"}; None where no run is to be kept, or not this machine's.

        `code` is None while it lives, and where it vanished without a record. What was seen last is believed for
        `doubt_s` where the agent does not answer: a run is not ended because somebody hangs, or has no memory left.
        """
        agent = results.agent_of() if keeper and self.orders["role"] == "node" else None
        if agent is None or agent.run_id != keeper["run_id"]:
            return None
        if self.run_id != agent.run_id:
            self.run_id, self.said, self.since, self.heard = agent.run_id, None, time.monotonic(), time.monotonic()
            self.doubt()
        now = self._status(agent)
        if not now and time.monotonic() - self.heard < self.orders["doubt_s"]:
            return self.last
        if now.get("run_id") != keeper["run_id"]:
            return None
        self.heard = time.monotonic()
        if self.said != (now["attempt"], now["log_bytes"]):
            self.said, self.since = (now["attempt"], now["log_bytes"]), time.monotonic()
        silent_s, code = time.monotonic() - self.since, (now["exit"] or {}).get("code")
        stalled = now["alive"] and keeper["stall_s"] is not None and silent_s > keeper["stall_s"]
        self.last = {"alive": now["alive"], "code": code, "silent_s": silent_s, "stalled": stalled}
        return self.last

    def doubt(self):
        """It lives, as far as is known: somebody acts, and may have begun another attempt of it."""
        self.last = {"alive": True, "code": None, "silent_s": 0.0, "stalled": False}

    def _status(self, agent):
        """What the agent says, {} where it does not: waited for no longer than the lease can do without us."""
        try:
            return results.told(agent, dict(self.orders, doubt_s=self.orders["ttl_s"]), lambda: None, "status")
        except OSError as error:
            api.say("the agent cannot be started: %s" % error)
            return {}
