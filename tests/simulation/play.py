"""Plays one schedule in virtual time and keeps the history that the properties judge.

Plants what is not ours, starts controllers one after another as they die or stand still, lets everything come to rest,
and at last takes everything down with a controller nobody disturbs.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.simulation.core_cloud import CoreCloud
from tests.simulation.drafts import Schedule
from tests.simulation.history import LAST, Attempted, Ended, History
from tests.simulation.hosts import key_of, wanted_on
from tests.simulation.link import PlayedConnector
from tests.simulation.lives import CURRENT, Life, LifeClock
from tests.simulation.loop import live, sleep, true_soon
from tests.simulation.net import Net
from tests.simulation.troubles import NODE, VM
from tests.simulation.worker import Machine, Played, Record, newest_checkpoint
from tpuops.environment import Environment
from tpuops.errors import TpuopsError
from tpuops.journal import Event, Journal
from tpuops.lifecycle.down import down
from tpuops.lifecycle.run import run
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.story import Source
from tpuops.lifecycle.told import acknowledge
from tpuops.localcloud.core.core import Core
from tpuops.localcloud.core.wire import Request
from tpuops.localcloud.core.world import World
from tpuops.resources import LABEL_ENVIRONMENT, LABEL_MANAGED, LABEL_OWNER
from tpuops.stages import holders
from tpuops.stages.access import Route
from tpuops.stages.secrets import Secrets
from tpuops.stages.spend import Meter, hourly
from tpuops.switch import Terms

PROJECT, ZONE = "local-sim", "us-central1-a"
PARENT = f"/v2/projects/{PROJECT}/locations/{ZONE}/nodes"
INSTANCES = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"
KINDS = ("tpu.node", "compute.instance")
INTERRUPTED = 130
SOURCE = Source(Path("/nowhere/source"), "c0ffee5eed")
DECOYS = (f"{NODE}-2", NODE[:-1], f"{NODE}x")


class Stage:
    """The core, the machines and the controllers of one schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.history = schedule, History(schedule)
        file = {"path": Path("/nowhere/sim.yaml")}
        self.environment = Environment.model_validate(_frozen(schedule.environment), context=file)
        self.played = Played(schedule.program, self._training_started)
        core = Core(World(), profile=schedule.profile, seed=schedule.seed)
        self.net = Net(core, self.played.play, self._look)
        self.net.before = self._before
        self.played.net = self.net
        self.lives: list[Life] = []
        self.tasks: list[asyncio.Task[Ended]] = []
        self._wanted = wanted_on("desk", self.environment)

    # What is watched all the time

    def _training_started(self, machine: Machine, record: Record) -> None:
        spec = record.spec
        alive = [other.spec.id for other in self.played.machines.values() if other.alive and other is not machine]
        if alive:
            self.history.problems.append(f"P2: training starts on {machine.spec.id} while it lives on {alive}")
        checkpoint = newest_checkpoint(self.net.core.world, spec)
        now = asyncio.get_running_loop().time()
        self.history.started.append(Attempted(now, machine.spec.id, spec.run_id, spec.attempt, checkpoint, record))

    def _look(self) -> None:
        world = self.net.core.world
        for kind in KINDS:
            if world.count(kind) <= len(DECOYS) + 1:
                continue  # the decoys stay, so two of ours would be more
            ours = list(_ours(world, kind))
            if len(ours) > 1:
                self.history.problems.append(f"P2: {kind}: {ours} at once")

    def _before(self, request: Request) -> None:
        """What a stop or a deletion of the node would destroy has to be in the bucket."""
        stop = request.verb == "POST" and request.path.endswith(f"/{NODE}:stop")
        if not stop and not (request.verb == "DELETE" and request.path == f"{PARENT}/{NODE}"):
            return
        for machine in self.played.machines.values():
            if machine.spec.name == NODE and machine.reachable and not self._is_saved(machine):
                self.history.problems.append(f"outputs of {machine.spec.id} were not saved before {request.verb}")
            if machine.spec.name == NODE and machine.reachable and machine.alive and not self._limited():
                self.history.problems.append(f"a living training on {machine.spec.id} is ended by {request.path}")

    def _limited(self) -> bool:
        return "limit" in self.schedule.kinds

    def _is_saved(self, machine: Machine) -> bool:
        held = {document["content"] for _, document in self.net.core.world.items("storage.object")}
        contents = {self.net.core.world.content(digest) for digest in held}
        return all(data in contents for data in machine.disk.outputs.values())

    # The play

    async def play(self) -> History:
        """Play the schedule to its end."""
        self.net.start()
        await self._plant()
        self.net.deliver(_json("POST", "/_cloud/faults", self.schedule.script))
        if self.schedule.outsider is not None:
            outsider = asyncio.ensure_future(self._intrude(self.schedule.outsider.after_s))
        async with asyncio.timeout(self.schedule.patience_s):
            await self._controllers()
        if self.schedule.outsider is not None:
            await outsider
        await sleep(5.0)
        self._take_stock()
        await self._down()
        for life in self.lives:
            life.bury()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return self.history

    async def _plant(self) -> None:
        """Things that look like ours and are not."""
        for name in DECOYS:
            labels = {} if name != DECOYS[-1] else {LABEL_MANAGED: "v1", LABEL_ENVIRONMENT: "sim", LABEL_OWNER: "bob"}
            node = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base", "labels": labels}
            self.net.deliver(_json("POST", PARENT, node, {"nodeId": name}))
            self.net.deliver(_json("POST", INSTANCES, _instance(f"{name}-vm", labels)))
        await sleep(2.0)
        self.history.decoys = self._decoys()

    def _decoys(self) -> dict[str, Any]:
        """The decoys as they stand in the world, past any fault of a call."""
        names = {*DECOYS, *(f"{name}-vm" for name in DECOYS)}
        world = self.net.core.world
        stand = [(key.rpartition("/")[2], document) for kind in KINDS for key, document in world.items(kind)]
        return json.loads(json.dumps({name: document for name, document in stand if name in names}))

    async def _intrude(self, after_s: float) -> None:
        await sleep(after_s)
        self.net.deliver(Request("DELETE", f"{INSTANCES}/{VM}"))
        if not await true_soon(lambda: self._vm() is None and not self._vm_is_being_deleted()):
            return  # the rightful owner was faster
        if self.net.deliver(_json("POST", INSTANCES, _instance(VM, {}))).status != 200:
            return
        running = await true_soon(lambda: (self._vm() or {}).get("status") == "RUNNING")
        if not running or _is_ours(self._vm()):
            return  # a fault ended the stranger's creation late, and the rightful owner came next
        self.history.decoys[VM] = json.loads(json.dumps(self._vm()))

    def _vm_is_being_deleted(self) -> bool:
        timers = self.net.core.world.items("timer")
        return any(timer["action"] == "compute.delete" and timer["key"].endswith(f"/{VM}") for _, timer in timers)

    def _vm(self) -> Any:
        world = self.net.core.world
        return next((shown for key, shown in world.items("compute.instance") if key.endswith(f"/{VM}")), None)

    async def _controllers(self) -> None:
        """One controller after another, as the dooms say; the last one is left in peace."""
        host = "desk"
        for number, doom in enumerate((*self.schedule.dooms, None), 1):
            life = Life(host, 100 + number, doom)
            task = self._spawn(life)
            struck = asyncio.ensure_future(life.struck.wait())
            await asyncio.wait({task, struck}, return_when=asyncio.FIRST_COMPLETED)
            struck.cancel()
            if task.done() or doom is None:
                break
            if not doom.same_host:
                host = f"host{number}"
            await sleep(doom.after_s)
        await asyncio.gather(*(task for task, life in zip(self.tasks, self.lives, strict=True) if life.alive))

    def _changing(self, life: Life, method: str) -> None:
        """Only the lease's holder may make, stop or delete anything."""
        name = f"{self._wanted.bucket.name}/tpuops/sim/lease.json"
        found = self.net.core.world.get("storage.object", name)
        holder = holders.parse(self.net.core.world.content(found["content"])).pid if found else 0
        if holder != life.pid:
            self.history.problems.append(f"P6: controller {life.pid} asks for {method}, the lease is {holder}'s")

    def _spawn(self, life: Life) -> asyncio.Task[Ended]:
        life.on_change = self._changing
        self.lives.append(life)
        context = contextvars.copy_context()
        context.run(CURRENT.set, life)
        task = life.work = asyncio.get_running_loop().create_task(self._run(life), context=context)
        self.tasks.append(task)
        return task

    async def _run(self, life: Life) -> Ended:
        try:
            end = await self._act(life, self._site(life))
        except TpuopsError as error:
            end = Ended(life, error.exit_code, error=f"{type(error).__name__}: {error.message}")
        except asyncio.CancelledError:
            if not life.told_to_end:
                raise
            end = Ended(life, INTERRUPTED)
        life.over = True
        self.history.ends.append(end)
        return end

    async def _act(self, life: Life, site: Site) -> Ended:
        """What a controller was started for."""
        report = await run(site, SOURCE)
        await acknowledge(site, report.run.get("run_id", ""))
        return Ended(life, report.exit_code, report.document)

    def _site(self, life: Life) -> Site:
        clock = LifeClock(life)
        wanted = self._wanted if life.host == "desk" else wanted_on(life.host, self.environment)
        meter = Meter(hourly(wanted), clock)
        number = life.pid

        def hear(event: Event) -> None:
            self.history.events.append((number, event))

        cloud = CoreCloud(self.net, life)
        return Site(
            environment=self.environment,
            desired=wanted,
            cloud=cloud,
            store=cloud.store(wanted.bucket.name),
            connector=PlayedConnector(self.played, key_of(life.host)),
            route=Route("tpuops", key=key_of(life.host)),
            clock=clock,
            journal=Journal(clock, None, (meter.hear, hear)),
            meter=meter,
            secrets=Secrets(self.environment, cloud),
            user="ada",
            show=lambda data: None,
        )

    def _take_stock(self) -> None:
        history, world = self.history, self.net.core.world
        history.nodes, history.vms = (json.loads(json.dumps(_ours(world, kind))) for kind in KINDS)
        history.open_operations = [key for key, doc in world.items("tpu.operation") if not doc.get("done")]
        history.faults = [dict(doc) for _, doc in world.items("fault")]
        history.requests = [dict(doc) for _, doc in world.items("request")]
        history.objects = {key: doc["shown"] for key, doc in world.items("storage.object")}
        history.decoys_after = self._decoys()
        if VM in history.decoys:
            history.decoys_after[VM] = json.loads(json.dumps(self._vm()))

    def document(self, name: str) -> Any:
        """A JSON object of the environment in the bucket, None where there is none."""
        world = self.net.core.world
        found = world.get("storage.object", f"{self._wanted.bucket.name}/tpuops/sim/{name}")
        return json.loads(world.content(found["content"])) if found else None

    async def _down(self) -> None:
        """With nothing in the way any more, `down` takes away whatever is left."""
        for fault in [key for key, _ in self.net.core.world.items("fault")]:
            self.net.core.world.drop("fault", fault)
        self.net.before = lambda request: None  # it is forced: nobody asks for what is still running
        life = Life("desk", LAST)
        CURRENT.set(life)
        self.lives.append(life)
        torn = await down(self._site(life), force=True)
        world = self.net.core.world
        left = [key for kind in KINDS for key in _ours(world, kind)]
        self.history.after_down = {"left": left, "remains": [each.name for each in torn.remains]}


def _frozen(value: Any) -> Any:
    """YAML's value as the model takes it: tuples for lists, None for `vm: none`."""
    if isinstance(value, list):
        return tuple(_frozen(each) for each in value)
    return {key: _frozen(each) for key, each in value.items()} if isinstance(value, dict) else value


def _ours(world: World, kind: str) -> dict[str, Any]:
    """What of one kind carries our labels, as the API shows it."""
    found = ((key, document.get("shown", document)) for key, document in world.items(kind))
    return {key: shown for key, shown in found if _is_ours(shown)}


def _is_ours(shown: dict[str, Any]) -> bool:
    labels = shown.get("labels") or {}
    return labels.get(LABEL_ENVIRONMENT) == "sim" and labels.get(LABEL_OWNER) == "ada"


def _instance(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/e2-small",
        "labels": labels,
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
            }
        ],
        "networkInterfaces": [{"network": f"projects/{PROJECT}/global/networks/default"}],
    }


def _json(verb: str, path: str, document: Any, query: dict[str, str] | None = None) -> Request:
    return Request(verb, path, query or {}, {"content-type": "application/json"}, json.dumps(document).encode())


def played(schedule: Schedule) -> History:
    """The history of a schedule; the same for the same schedule, as chance is seeded and hosts are imagined."""
    return staged(lambda: Stage(schedule), schedule.seed)


def staged(make: Callable[[], Stage], seed: int) -> History:
    """The history of whatever a stage plays."""
    random.seed(seed)
    stage_lives: list[Life] = []

    def started(pid: int) -> str:
        return "alive" if any(life.pid == pid and life.alive and not life.over for life in stage_lives) else ""

    def myself(user: str, doing: str, clock: Any, terms: Terms) -> holders.Holder:
        life = CURRENT.get()
        token, since = f"token-{life.pid}", clock.now().isoformat()
        agreed = {"ttl_s": terms.ttl_s, "grace_s": terms.grace_s}
        return holders.Holder(token, user, life.host, life.pid, "alive", since, doing, **agreed)

    async def main() -> History:
        stage = make()
        stage.lives = stage_lives
        return await stage.play()

    before = holders.started, holders.myself, holders.here
    gc.disable()  # a life is short, and its tasks' cycles cost a sixth of it
    holders.started, holders.myself, holders.here = started, myself, lambda: CURRENT.get().host
    try:
        return live(main())
    finally:
        holders.started, holders.myself, holders.here = before
        gc.enable()
