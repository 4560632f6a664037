"""Instances under any order of calls, preemptions, time limits, waits and restarts: Compute's tables are the model.

The model knows which instances there are, what the tables allow, and what must have become of each one in the end; the
core must answer as it says, go no step that the tables lack (watched.py sees every one), and keep machines, disks,
operations and timers in agreement with what it shows.
"""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.localcloud.talk import INSTANCES, Talk, instance
from tests.localcloud.watched import Watched
from tpuops.localcloud.core import strikes
from tpuops.localcloud.core.compute.states import INSTANCE_STEPS, INSTANCE_VERBS, STOPPED_ONLY
from tpuops.localcloud.core.draw import Draw
from tpuops.localcloud.core.events import DeleteMachine, StartMachine, StopMachine
from tpuops.localcloud.core.profile import INSTANT
from tpuops.localcloud.core.scene import Scene
from tpuops.localcloud.core.wordings import TABLE

NAMES = ("vm1", "vm2")
PASSING_S = st.sampled_from([1.0, 0.35, 0.0, 0.05, 7.0])
DATA = st.data()
LIMIT_S = 20
ENDS = {"": "TERMINATED", "STOP": "TERMINATED", "DELETE": None}
"""What becomes of an instance that is preempted, or whose time is up, by its termination action."""
SCHEDULING = st.sampled_from(
    [
        {},
        {"provisioningModel": "SPOT"},
        {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"},
        {"maxRunDuration": {"seconds": str(LIMIT_S)}, "instanceTerminationAction": "STOP"},
        {"maxRunDuration": {"seconds": str(LIMIT_S)}, "instanceTerminationAction": "DELETE"},
    ]
)
CHANGES = {
    "setScheduling": {},
    "setServiceAccount": {"email": "me@x", "scopes": ["s"]},
    "setMachineType": {"machineType": "zones/us-central1-a/machineTypes/e2-medium"},
    "setDeletionProtection": {},
}


class Calls(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.talk = Talk(world=Watched())
        self.due, self.scheduling, self.protected, self.doomed = {}, {}, set(), set()
        self.live, self.heard = set(), 0
        limited = {"maxRunDuration": {"seconds": str(LIMIT_S)}, "instanceTerminationAction": "DELETE"}
        for name, scheduling in zip(NAMES, ({}, limited), strict=True):
            self.insert_one(name, scheduling)
        self.talk.wait(5)

    # What there is, read from the world and not through the methods under test.

    def shown(self, name):
        return self.talk.world.get("compute.instance", f"local-p/us-central1-a/{name}")

    def status(self, name):
        return (self.shown(name) or {}).get("status")

    def there(self):
        return [name for name in NAMES if self.shown(name)]

    def some(self, data):
        """One that is there mostly, as users would name it; sometimes one that is not."""
        return data.draw(st.sampled_from([*NAMES, *self.there() * 4]))

    def refused(self, answer, row):
        status, reply = answer
        assert status == TABLE[row].http, reply
        assert reply["error"]["errors"][0]["reason"] == TABLE[row].reason

    def runs_out(self, name):
        """What becomes of it once it runs: a time limit ends it."""
        limited = "maxRunDuration" in self.scheduling[name]
        return ENDS[self.scheduling[name].get("instanceTerminationAction", "")] if limited else "RUNNING"

    # What may happen.

    @rule(data=DATA, scheduling=SCHEDULING, passing_s=PASSING_S)
    def insert(self, data, scheduling, passing_s):
        absent = [name for name in NAMES if not self.shown(name)]
        self.insert_one(data.draw(st.sampled_from([*NAMES, *absent * 4])), scheduling)
        self.talk.wait(passing_s)

    def insert_one(self, name, scheduling):
        before = self.status(name)
        answer = self.talk.call("POST", INSTANCES, instance(name, scheduling=scheduling))
        if before is None:
            assert (answer[0], self.status(name)) == (200, "PROVISIONING")
            self.scheduling[name] = scheduling
            self.due[name] = self.runs_out(name)
            self.protected.discard(name)
        else:
            self.refused(answer, "compute.exists")

    @rule(data=DATA, passing_s=PASSING_S)
    def delete(self, data, passing_s):
        name = self.some(data)
        before = self.status(name)
        answer = self.talk.call("DELETE", f"{INSTANCES}/{name}")
        if before is None:
            self.refused(answer, "compute.absent")
        elif name in self.protected:
            self.refused(answer, "compute.protected")
        else:
            assert (answer[0], self.status(name)) == (200, "STOPPING")
            self.due[name] = None
            self.doomed.add(self.shown(name)["id"])
        self.talk.wait(passing_s)

    @rule(data=DATA, verb=st.sampled_from([*sorted(INSTANCE_VERBS), "start", "stop"]), passing_s=PASSING_S)
    def act(self, data, verb, passing_s):
        name = self.some(data)
        before = self.status(name)
        answer = self.talk.call("POST", f"{INSTANCES}/{name}/{verb}")
        if before is None:
            self.refused(answer, "compute.absent")
        elif before not in INSTANCE_VERBS[verb]:
            self.refused(answer, "compute.not-ready")
        else:
            assert answer[0] == 200
            self.due[name] = {"stop": "TERMINATED", "start": self.runs_out(name)}.get(verb, self.due[name])
        self.talk.wait(passing_s)

    @rule(data=DATA, verb=st.sampled_from(sorted(CHANGES)))
    def change(self, data, verb):
        name = self.some(data)
        before = self.status(name)
        answer = self.talk.call("POST", f"{INSTANCES}/{name}/{verb}", CHANGES[verb])
        if before is None:
            self.refused(answer, "compute.absent")
        elif verb in STOPPED_ONLY and before != "TERMINATED":
            self.refused(answer, "compute.running")
        else:
            assert answer[0] == 200
            if verb == "setScheduling":
                self.scheduling[name] = {}
            if verb == "setDeletionProtection":
                self.protected.add(name)

    @precondition(lambda self: self.protected)
    @rule()
    def unprotect(self):
        for name in [name for name in self.there() if name in self.protected]:
            path = f"{INSTANCES}/{name}/setDeletionProtection"
            assert self.talk.call("POST", path, deletionProtection="false")[0] == 200
            self.protected.discard(name)

    @rule(data=DATA)
    def preempt(self, data):
        name = self.some(data)
        machine = self.talk.world.get("machine", (self.shown(name) or {"id": ""})["id"])
        if machine is None or not machine["running"]:
            return
        scene = Scene(self.talk.world, Draw(self.talk.world, 7), INSTANT, self.talk.now)
        strikes.strike(scene, machine, {"preempt": True})
        self.talk.events += scene.events
        self.due[name] = ENDS[self.scheduling[name].get("instanceTerminationAction", "")]
        assert self.status(name) == self.due[name]

    @rule()
    def settle(self):
        """After long enough nothing is under way any more, and everything is what it had to become."""
        self.talk.wait(60)
        assert self.talk.core.next_due(self.talk.now) is None
        for name in NAMES:
            assert self.status(name) == self.due.get(name)

    @precondition(lambda self: self.talk.world.count("timer") > 0)
    @rule()
    def restart(self):
        """The program dies and starts again: what the store holds is all that goes on."""
        saved = {}
        for kind in ("cloud", "timer", "compute.instance", "compute.disk", "compute.operation", "machine", "request"):
            saved |= {(kind, key): json.loads(json.dumps(document)) for key, document in self.talk.world.items(kind)}
        now = self.talk.now
        self.talk = Talk(world=Watched(saved))
        self.talk.now = now
        self.live, self.heard = set(), 0
        self.talk.events += self.talk.core.resume(now)

    # What holds at all times.

    @invariant()
    def machines_run_exactly_for_running_instances(self):
        for event in self.talk.events[self.heard :]:
            if isinstance(event, StartMachine):
                self.live.add(event.machine.id)
            elif isinstance(event, StopMachine | DeleteMachine):
                self.live.discard(event.id)
        self.heard = len(self.talk.events)
        shown = [each for _, each in self.talk.world.items("compute.instance")]
        running = {each["id"] for each in shown if each["status"] == "RUNNING"}
        assert self.live == running
        assert running == {key for key, machine in self.talk.world.items("machine") if machine["running"]}
        limited = {each["id"] for each in shown if each["status"] == "RUNNING" and each.get("resourceStatus")}
        ending = {timer["id"] for _, timer in self.talk.world.items("timer") if timer["action"] == "compute.expire"}
        assert limited <= ending
        assert all(each["status"] == "STOPPING" for each in shown if each["id"] in self.doomed)

    @invariant()
    def disks_are_there_for_their_instances_alone(self):
        used = {user for _, disk in self.talk.world.items("compute.disk") for user in disk["users"]}
        assert used == {each["selfLink"] for _, each in self.talk.world.items("compute.instance")}

    @invariant()
    def what_was_begun_will_end(self):
        pending = {timer.get("operation") for _, timer in self.talk.world.items("timer")}
        for key, operation in self.talk.world.items("compute.operation"):
            assert operation["status"] == "DONE" or key in pending, operation


TestComputeFollowsItsTables = Calls.TestCase
TestComputeFollowsItsTables.settings = settings(
    max_examples=250, stateful_step_count=40, deadline=None, derandomize=True, database=None
)


def test_the_table_has_no_status_that_nothing_leads_to():
    assert set().union({"PROVISIONING"}, *INSTANCE_STEPS.values()) == set(INSTANCE_STEPS)
    assert set().union(*INSTANCE_VERBS.values()) <= set(INSTANCE_STEPS)
