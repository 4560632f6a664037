"""TPUs under any order of calls, preemptions, waits and restarts: the transition and refusal tables are the model.

The model knows which nodes and queued resources there are, what the tables allow, and what must have become of each
one in the end; the core must answer as it says, go no step that the tables lack (watched.py sees every one), and keep
machines, operations and timers in agreement with what it shows.
"""

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.localcloud.talk import NODES, ZONE, Talk
from tests.localcloud.watched import Watched
from tpuops.localcloud.core import strikes
from tpuops.localcloud.core.draw import Draw
from tpuops.localcloud.core.events import DeleteMachine, StartMachine, StopMachine
from tpuops.localcloud.core.profile import INSTANT
from tpuops.localcloud.core.scene import Scene
from tpuops.localcloud.core.tpu.states import NODE_STEPS, NODE_VERBS, QUEUE_STEPS, QUEUE_VERBS
from tpuops.localcloud.core.wordings import TABLE

QUEUES = f"{ZONE}/queuedResources"
PARENT = "projects/local-p/locations/us-central1-a"
NAMES, QUEUED = ("n1", "n2"), ("q1", "q2")
PASSING_S = st.sampled_from([1.0, 0.35, 0.0, 0.05, 7.0])
DATA = st.data()
KINDS = st.sampled_from(
    [{"acceleratorType": "v3-8"}, {"acceleratorType": "v2-32"}, {"schedulingConfig": {"spot": True}}]
)
UNSETTLED = {"CREATING", "STARTING", "STOPPING", "DELETING"}


def reachable(steps, before):
    """The states that may follow, in any number of steps."""
    found, ahead = {before}, [before]
    while ahead:
        for state in steps[ahead.pop()] - found:
            found.add(state)
            ahead.append(state)
    return found


class Calls(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.talk = Talk(world=Watched())
        self.due, self.queue_due, self.contested = {}, {}, set()
        self.live, self.heard = set(), 0
        self.create_one("n1", {})
        self.enqueue_one("q1", "n2")
        self.talk.wait(5)

    # What there is, read from the world and not through the methods under test.

    def node(self, name):
        found = self.talk.world.get("tpu.node", f"{PARENT}/nodes/{name}")
        return found and dict(found["shown"])

    def queue_state(self, name):
        found = self.talk.world.get("tpu.queue", f"{PARENT}/queuedResources/{name}")
        return found and found["shown"]["state"]["state"]

    def some(self, data, names, there):
        """One that is there mostly, as users would name it; sometimes one that is not."""
        return data.draw(st.sampled_from([*names, *[name for name in names if there(name)] * 4]))

    def new(self, data, names, there):
        """One that is not there yet mostly."""
        return data.draw(st.sampled_from([*names, *[name for name in names if not there(name)] * 4]))

    def refused(self, answer, row):
        status, reply = answer
        assert status == TABLE[row].http, reply
        assert reply["error"]["status"] == TABLE[row].status

    # What may happen.

    @rule(data=DATA, kind=KINDS, passing_s=PASSING_S)
    def create(self, data, kind, passing_s):
        self.create_one(self.new(data, NAMES, self.node), kind)
        self.talk.wait(passing_s)

    def create_one(self, name, kind):
        before = self.node(name)
        answer = self.talk.call("POST", NODES, {"runtimeVersion": "r", "acceleratorType": "v3-8", **kind}, nodeId=name)
        if before is None:
            assert answer[0] == 200
            assert self.node(name)["state"] == "CREATING"
            self.due[name] = "READY"
            self.contested |= set(self.promised(name))
        else:
            self.refused(answer, "tpu.exists")

    @rule(data=DATA, passing_s=PASSING_S)
    def delete(self, data, passing_s):
        name = self.some(data, NAMES, self.node)
        before = self.node(name)
        answer = self.talk.call("DELETE", f"{NODES}/{name}")
        if before is None:
            self.refused(answer, "tpu.absent")
        else:
            assert answer[0] == 200
            assert self.node(name)["state"] == "DELETING"
            self.due[name] = None
            self.lost(before)
        self.talk.wait(passing_s)

    @rule(data=DATA, verb=st.sampled_from(["stop", "start", "maintenance"]), passing_s=PASSING_S)
    def act(self, data, verb, passing_s):
        name = self.some(data, NAMES, self.node)
        before = self.node(name)
        path = {"maintenance": "performMaintenance"}.get(verb, verb)
        zone = NODES.replace("/v2/", "/v2alpha1/")
        busy = before and self.talk.world.get("tpu.node", before["name"])["busy"]
        answer = self.talk.call("POST", f"{zone}/{name}:{path}", {})
        if before is None:
            self.refused(answer, "tpu.absent")
        elif before["state"] not in NODE_VERBS[verb]:
            self.refused(answer, "tpu.state")
        elif busy:
            self.refused(answer, "tpu.busy")
        elif verb == "stop" and self.unstoppable(before):
            self.refused(answer, "tpu.stop-shape")
        else:
            assert answer[0] == 200, answer
            self.due[name] = {"stop": "STOPPED", "start": "READY"}.get(verb, self.due.get(name))
        self.talk.wait(passing_s)

    def lost(self, shown):
        """Its queued resource, if it has one that runs, is suspended for that."""
        queue = str(shown.get("queuedResource", "")).rpartition("/")[2]
        mine = shown["name"].rpartition("/")[2] in self.owned(queue)
        if mine and self.queue_state(queue) in {"PROVISIONING", "ACTIVE"}:
            self.queue_due[queue] = "SUSPENDED"

    def promised(self, node):
        """The queued resources that stand for a node of that name."""
        for key, queue in self.talk.world.items("tpu.queue"):
            if f"{PARENT}/nodes/{node}" in [plan["name"] for plan in queue["plan"]]:
                yield key.rpartition("/")[2]

    def owned(self, queue):
        """The nodes that there are because of a queued resource; what an earlier one of its name left is not its."""
        for key, node in self.talk.world.items("tpu.node"):
            name = key.rpartition("/")[2]
            if str(node["shown"].get("queuedResource")).rpartition("/")[2] == queue and queue in self.promised(name):
                yield name

    def unstoppable(self, shown):
        return bool(shown["schedulingConfig"] or shown["acceleratorType"] == "v2-32" or shown.get("queuedResource"))

    @rule(data=DATA)
    def patch(self, data):
        name = self.some(data, NAMES, self.node)
        before = self.node(name)
        busy = before and self.talk.world.get("tpu.node", before["name"])["busy"]
        answer = self.talk.call("PATCH", f"{NODES}/{name}", {"labels": {"a": "b"}}, updateMask="labels")
        if before is None:
            self.refused(answer, "tpu.absent")
        elif before["state"] not in NODE_VERBS["update"]:
            self.refused(answer, "tpu.state")
        elif busy:
            self.refused(answer, "tpu.busy")
        else:
            assert answer[0] == 200

    @rule(data=DATA, passing_s=PASSING_S)
    def enqueue(self, data, passing_s):
        name, node = self.new(data, QUEUED, self.queue_state), self.new(data, NAMES, self.node)
        self.enqueue_one(name, node)
        self.talk.wait(passing_s)

    def enqueue_one(self, name, node):
        there, taken = self.queue_state(name), self.node(node)
        spec = {"parent": PARENT, "nodeId": node, "node": {"acceleratorType": "v3-8", "runtimeVersion": "r"}}
        rivals = set(self.promised(node))
        answer = self.talk.call("POST", QUEUES, {"tpu": {"nodeSpec": [spec]}}, queuedResourceId=name)
        if there is None and taken is None:
            assert answer[0] == 200, answer
            self.queue_due[name] = "ACTIVE"
            self.contested -= {name}
            self.contested |= {name, *rivals} if rivals else set()
        else:
            self.refused(answer, "tpu.exists")

    @rule(data=DATA, force=st.booleans(), passing_s=PASSING_S)
    def dequeue(self, data, force, passing_s):
        name = self.some(data, QUEUED, self.queue_state)
        before = self.queue_state(name)
        answer = self.talk.call("DELETE", f"{QUEUES}/{name}", force=str(force))
        if before is None:
            self.refused(answer, "tpu.absent")
        elif before != "DELETING" and not force and before not in QUEUE_VERBS["delete"]:
            self.refused(answer, "tpu.queue-alive")
        else:
            assert answer[0] == 200
            self.queue_due[name] = None
            for node in self.owned(name) if force and before != "DELETING" else ():
                assert self.node(node)["state"] == "DELETING"
                self.due[node] = None
        self.talk.wait(passing_s)

    @rule(data=DATA, passing_s=PASSING_S)
    def reset(self, data, passing_s):
        name = self.some(data, QUEUED, self.queue_state)
        before, owned = self.queue_state(name), list(self.owned(name))
        answer = self.talk.call("POST", f"{QUEUES}/{name}:reset", {})
        if before is None:
            self.refused(answer, "tpu.absent")
        elif before not in QUEUE_VERBS["reset"]:
            self.refused(answer, "tpu.state")
        else:
            assert answer[0] == 200
            self.queue_due[name] = "ACTIVE"
            self.contested.add(name)  # whoever holds its node's name by now keeps it
            assert not list(self.owned(name))
            self.due |= dict.fromkeys(owned)
        self.talk.wait(passing_s)

    @rule(data=DATA)
    def preempt(self, data):
        name = self.some(data, NAMES, self.node)
        before = self.node(name)
        if before is not None and before["state"] not in {"DELETING", "PREEMPTED"}:
            self.due[name] = "PREEMPTED"
            self.lost(before)
        scene = Scene(self.talk.world, Draw(self.talk.world, 7), INSTANT, self.talk.now)
        strikes.preempt_node(scene, "local-p", "us-central1-a", name)
        self.talk.events += scene.events
        self.talk.wait(0)

    @rule()
    def settle(self):
        """After long enough nothing is under way any more."""
        self.talk.wait(60)
        assert not {node["shown"]["state"] for _, node in self.talk.world.items("tpu.node")} & UNSETTLED
        assert all(operation.get("done") for _, operation in self.talk.world.items("tpu.operation"))
        assert self.talk.core.next_due(self.talk.now) is None
        for name in QUEUED:
            state, due = self.queue_state(name), self.queue_due.get(name)
            assert state == due or (state == "FAILED" and due == "ACTIVE" and name in self.contested)
        for name in NAMES:
            shown, due = self.node(name), self.due.get(name)
            queue = str(shown and shown.get("queuedResource")).rpartition("/")[2]
            wanted = "READY" if name in self.owned(queue) and self.queue_state(queue) == "ACTIVE" else due
            assert (shown and shown["state"]) == wanted

    @precondition(lambda self: self.talk.world.count("timer") > 0)
    @rule()
    def restart(self):
        """The program dies and starts again: what the store holds is all that goes on."""
        saved = {}
        for kind in ("cloud", "timer", "tpu.node", "tpu.queue", "tpu.operation", "machine", "request", "fault"):
            saved |= {(kind, key): json.loads(json.dumps(document)) for key, document in self.talk.world.items(kind)}
        now = self.talk.now
        self.talk = Talk(world=Watched(saved))
        self.talk.now = now
        self.live, self.heard = set(), 0
        self.talk.events += self.talk.core.resume(now)

    # What holds at all times.

    @invariant()
    def machines_run_exactly_for_ready_nodes(self):
        for event in self.talk.events[self.heard :]:
            if isinstance(event, StartMachine):
                self.live.add(event.machine.id)
            elif isinstance(event, StopMachine | DeleteMachine):
                self.live.discard(event.id)
        self.heard = len(self.talk.events)
        nodes = [node for _, node in self.talk.world.items("tpu.node")]
        ready = {machine for node in nodes if node["shown"]["state"] == "READY" for machine in node["machines"]}
        assert self.live == ready
        assert ready == {key for key, machine in self.talk.world.items("machine") if machine["running"]}
        addresses = [machine["address"] for _, machine in self.talk.world.items("machine")]
        assert len(set(addresses)) == len(addresses)

    @invariant()
    def whoever_is_busy_will_be_free(self):
        pending = {timer.get("operation") for _, timer in self.talk.world.items("timer")}
        for key, operation in self.talk.world.items("tpu.operation"):
            assert operation.get("done") or key in pending, operation
            assert not operation.get("done") or ("error" in operation) != ("response" in operation)
        for _, node in self.talk.world.items("tpu.node"):
            assert not node["busy"] or node["busy"] in pending, node

    @invariant()
    def a_queued_resource_is_active_only_with_all_its_nodes(self):
        for _, queue in self.talk.world.items("tpu.queue"):
            if queue["shown"]["state"]["state"] == "ACTIVE":
                lost = {
                    timer["queue"] for _, timer in self.talk.world.items("timer") if timer["action"] == "queue.lost"
                }
                there = len(list(self.owned(queue["shown"]["name"].rpartition("/")[2]))) == len(queue["nodes"])
                assert there or queue["shown"]["name"] in lost


TestTheCoreFollowsItsTables = Calls.TestCase
TestTheCoreFollowsItsTables.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, derandomize=True, database=None
)


@pytest.mark.parametrize(("steps", "verbs"), [(NODE_STEPS, NODE_VERBS), (QUEUE_STEPS, QUEUE_VERBS)])
def test_the_tables_name_no_state_that_nothing_leads_to(steps, verbs):
    assert reachable(steps, "CREATING") == set(steps)
    assert {state for states in verbs.values() for state in states} <= set(steps)
