"""The run that this machine keeps a lease for: whether it lives, and how long it has said nothing."""

import time

import results


class Run:
    """What is seen of it, look by look; on worker 0 of the TPU alone, where runs are."""

    def __init__(self, orders):
        self.orders, self.said, self.since = orders, None, 0.0

    def look(self, keeper):
        """{"alive", "code", "silent_s", "stalled"}; None where no run is to be kept, or not this machine's.

        `code` is None while it lives, and where it vanished without a record.
        """
        agent = results.agent_of() if keeper and self.orders["role"] == "node" else None
        if agent is None or agent.run_id != keeper["run_id"]:
            return None
        now = results.told(agent, self.orders, lambda: None, "status")
        if now.get("run_id") != keeper["run_id"]:
            return None
        if self.said != (now["attempt"], now["log_bytes"]):
            self.said, self.since = (now["attempt"], now["log_bytes"]), time.monotonic()
        silent_s, code = time.monotonic() - self.since, (now["exit"] or {}).get("code")
        stalled = now["alive"] and keeper["stall_s"] is not None and silent_s > keeper["stall_s"]
        return {"alive": now["alive"], "code": code, "silent_s": silent_s, "stalled": stalled}
