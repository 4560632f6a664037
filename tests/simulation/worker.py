"""The machines, played: what the core starts, stops and orders about, and the training program that runs there.

A machine keeps its disk over stop and start and loses it with its node. Its one program logs `step=N` at a fixed rate,
writes checkpoints into the bucket through the core, as the machine itself, and resumes from the newest complete one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.simulation.loop import sleep
from tests.simulation.net import Net
from tpuops.localcloud.core.events import Booted, Control, DeleteMachine, Event, LogLine, MachineSpec, StopMachine
from tpuops.localcloud.core.wire import Request
from tpuops.localcloud.core.world import World
from tpuops.remote.port import Exit, RunSpec

BOOT_S = 0.15
LOOK_S = 0.02
ASK_AGAIN_S = 0.2
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 31, in <module>
    loss = evaluate(batch["labels"])
KeyError: 'labels'
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What the training program is like. `bug_at`: the step at which it always raises; `setup_code`: set-up's end.

    `keep`: how many of its newest checkpoints it leaves in the bucket, 0: all.
    """

    steps: int = 60
    every: int = 10
    step_s: float = 0.05
    init_s: float = 0.2
    bug_at: int | None = None
    setup_code: int = 0
    keep: int = 0


@dataclass(slots=True)
class Record:
    """One attempt as the disk shows it. `watched` is how far the machine's fault watch has read the log."""

    spec: RunSpec
    pid: int
    log: bytearray = field(default_factory=bytearray)
    exit: Exit | None = None
    watched: int = 0
    first_step: int | None = None
    resumed_from: int = 0


@dataclass(slots=True)
class Disk:
    """What survives stop and start."""

    source: str = ""
    prepared: set[str] = field(default_factory=set)
    attempts: dict[tuple[str, int], Record] = field(default_factory=dict)
    current: tuple[str, int] | None = None
    outputs: dict[str, bytes] = field(default_factory=dict)


class Machine:
    """One machine, running or not."""

    def __init__(self, spec: MachineSpec, net: Net, program: Program, played: Played) -> None:
        self.spec, self._net, self._program, self._played = spec, net, program, played
        self.disk = Disk()
        self.up = self.deleted = False
        self.hung = False
        """Whether its training process lives and does nothing any more, like one whose call never returns."""
        self.fault = ""
        self.refused_until = 0.0
        self.connections = 0
        """Rises whenever every open connection breaks."""
        self.listeners: list[asyncio.Future[None]] = []
        self._training: asyncio.Task[None] | None = None
        self._watch: dict[str, object] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._boot: asyncio.TimerHandle | None = None

    # What the core says

    def start(self, spec: MachineSpec) -> None:
        """Boot; sshd answers a moment later."""
        self.spec, self.fault = spec, ""
        self._boot = asyncio.get_running_loop().call_later(BOOT_S, self._booted)

    def _booted(self) -> None:
        self._boot, self.up = None, True
        self._net.tell(Booted(self.spec.id, self.host_keys))

    def stop(self) -> None:
        """Everything on it dies without a record, connections break, the watch ends."""
        if self._boot is not None:
            self._boot.cancel()
        self.up, self._watch, self._boot = False, None, None
        self._end_training()
        self.drop(0.0)

    def order(self, order: dict[str, object]) -> None:
        """Carry out a `Control`."""
        kind = order["order"]
        if kind == "watch":
            self._watch = order
            self._look_soon()
        elif kind == "unwatch":
            self._watch = None
        elif kind == "kill":
            self.end(Exit(137, 9))
        elif kind == "hang" and self._training is not None:
            self._training.cancel()
            self.hung, self._training = True, asyncio.get_running_loop().create_task(_nothing())
        elif kind == "device_fault":
            self.fault = str(order["message"])
            self.end(Exit(1), self.fault)
        elif kind == "ssh_drop":
            self.drop(float(str(order["for_s"])))

    def drop(self, for_s: float) -> None:
        """Break all connections and refuse new ones for a while."""
        self.refused_until = asyncio.get_running_loop().time() + for_s
        self.connections += 1
        self.notify()

    # What a connection sees

    @property
    def host_keys(self) -> tuple[str, ...]:
        """The machine's one host key."""
        return (f"ssh-ed25519 {base64.b64encode(self.spec.id.encode()).decode()}",)

    @property
    def reachable(self) -> bool:
        """Whether sshd takes connections."""
        return self.up and asyncio.get_running_loop().time() >= self.refused_until

    @property
    def alive(self) -> bool:
        """Whether the training process lives."""
        return self._training is not None

    @property
    def record(self) -> Record | None:
        """The attempt this machine ran last."""
        return None if self.disk.current is None else self.disk.attempts[self.disk.current]

    def launch(self, spec: RunSpec) -> None:
        """Start the attempt; what this disk ran before is forgotten by the process table, not by the disk."""
        record = Record(spec, pid=self._played.next_pid())
        key = (spec.run_id, spec.attempt)
        self.disk.attempts[key], self.disk.current = record, key
        self._training = asyncio.get_running_loop().create_task(self._train(record))
        self._played.started(self, record)

    def end(self, how: Exit, said: str = "") -> None:
        """End the training process, with a last word on its standard error, and record how."""
        record = self.record
        if self._training is None or record is None:
            return
        if said:
            record.log += said.encode().rstrip(b"\n") + b"\n"
        self._end_training()
        record.exit = how
        self.notify()

    def notify(self) -> None:
        """Wake whoever follows."""
        waiting, self.listeners = self.listeners, []
        for listener in waiting:
            if not listener.done():
                listener.set_result(None)

    def _end_training(self) -> None:
        if self._training is not None and self._training is not asyncio.current_task():
            self._training.cancel()
        self._training, self.hung = None, False

    # The training program

    async def _train(self, record: Record) -> None:
        program, spec = self._program, record.spec
        if self.fault:
            await sleep(program.init_s / 2)
            self.end(Exit(1), self.fault)
            return
        await sleep(program.init_s)
        record.resumed_from = step = await self._newest(spec)
        self._say(record, f"resumed at step {step}" if step else "starting")
        while step < program.steps:
            await sleep(program.step_s)
            step += 1
            if step == program.bug_at:
                self.end(Exit(1), TRACEBACK)
                return
            record.first_step = record.first_step or step
            self._say(record, f"step={step} loss={1 / step:.4f}")
            if step % program.every == 0 or step == program.steps:
                await self._checkpoint(spec, step)
        self.disk.outputs["metrics.json"] = json.dumps({"step": step}).encode()  # also where it resumed at the end
        self.end(Exit(0), f"done after {step} steps")

    def _say(self, record: Record, line: str) -> None:
        record.log += line.encode() + b"\n"
        self.notify()
        self._look_soon()

    async def _checkpoint(self, spec: RunSpec, step: int) -> None:
        """Data first, then the mark that makes it complete: a death in between leaves no checkpoint."""
        self.disk.outputs["metrics.json"] = json.dumps({"step": step}).encode()
        for part in ("data", "complete"):
            await sleep(0.005)
            self.put(f"{_checkpoints(spec)[1]}/{step:08d}/{part}", f"{step}".encode())
        old = step - self._program.keep * self._program.every
        if self._program.keep and old > 0:
            self._forget(spec, old)

    def _forget(self, spec: RunSpec, step: int) -> None:
        """Remove a checkpoint, the mark that makes it complete first."""
        bucket, prefix = _checkpoints(spec)
        for part in ("complete", "data"):
            name = quote(f"{prefix}/{step:08d}/{part}", safe="")
            self._net.deliver(Request("DELETE", f"/storage/v1/b/{bucket}/o/{name}"))

    async def _newest(self, spec: RunSpec) -> int:
        """The step to resume from: every page of the list (one has 1,000 names), asked until the bucket answers."""
        bucket, prefix = _checkpoints(spec)
        names: list[str] = []
        token = ""
        while True:
            query = {"prefix": f"{prefix}/", **({"pageToken": token} if token else {})}
            reply = self._net.deliver(Request("GET", f"/storage/v1/b/{quote(bucket)}/o", query))
            if reply.status != 200 or reply.drop:
                await sleep(ASK_AGAIN_S)
                continue
            page = json.loads(reply.body)
            names += [item["name"] for item in page.get("items", [])]
            token = page.get("nextPageToken", "")
            if not token:
                return newest(names)

    def put(self, name: str, data: bytes, bucket: str = "") -> bool:
        """Write an object by the machine's own identity; whether the bucket took it (three tries)."""
        target = bucket or _checkpoints(self.record.spec)[0] if self.record else bucket
        path = f"/upload/storage/v1/b/{target}/o"
        query = {"uploadType": "media", "name": name}
        request = Request("POST", path, query, {"content-type": "application/octet-stream"}, data)
        replies = (self._net.deliver(request) for _ in range(3))
        return any(reply.status == 200 and not reply.drop for reply in replies)

    # The fault watch

    def _look_soon(self) -> None:
        if self._watch is not None and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self._report)

    def _report(self) -> None:
        """Report the first step not yet looked at that the watch asks for."""
        self._look = None
        record, watch = self.record, self._watch
        if watch is None or record is None or not self.up:
            return
        for line in bytes(record.log[record.watched :]).splitlines(keepends=True):
            if not line.endswith(b"\n"):
                return
            record.watched += len(line)
            found = re.search(str(watch["pattern"]).encode(), line)
            if found and int(found[1]) >= int(str(watch["step"])):
                self._watch = None
                self._net.tell(LogLine(self.spec.id, int(str(watch["fault_index"])), int(found[1])))
                return


async def _nothing() -> None:
    """For ever."""
    await asyncio.get_running_loop().create_future()


def _checkpoints(spec: RunSpec) -> tuple[str, str]:
    bucket, _, prefix = spec.env["TPUOPS_CHECKPOINTS"].removeprefix("gs://").partition("/")
    return bucket, prefix


def newest(names: Iterable[str]) -> int:
    """The newest complete checkpoint's step among object names, 0 where there is none."""
    return max((int(name.split("/")[-2]) for name in names if name.endswith("/complete")), default=0)


def newest_checkpoint(world: World, spec: RunSpec) -> int:
    """The newest complete checkpoint of a run in the world itself, past any fault of a call."""
    bucket, prefix = _checkpoints(spec)
    return newest(key for key, _ in world.items("storage.object", f"{bucket}/{prefix}/"))


def md5(data: bytes) -> str:
    """As Cloud Storage writes it."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


class Played:
    """All machines of a schedule. `on_start` is told of each training process that starts."""

    def __init__(self, program: Program, on_start: Callable[[Machine, Record], None]) -> None:
        self.program = program
        self.machines: dict[str, Machine] = {}
        self.net: Net
        self.started = on_start
        self._pid = 1000

    def next_pid(self) -> int:
        """A process id that no process of this schedule had."""
        self._pid += 1
        return self._pid

    def at(self, address: str) -> Machine | None:
        """The machine whose sshd is at an address."""
        return next((machine for machine in self.machines.values() if machine.spec.address == address), None)

    def play(self, event: Event) -> None:
        """Carry out one event of the core."""
        if isinstance(event, Control):
            machine = self.machines.get(event.id)
            if machine is not None and machine.up:
                machine.order(dict(event.order))
        elif isinstance(event, StopMachine | DeleteMachine):
            machine = self.machines.get(event.id)
            if machine is not None:
                machine.stop()
            if isinstance(event, DeleteMachine):
                self.machines.pop(event.id, None)
        else:
            spec = event.machine
            machine = self.machines.setdefault(spec.id, Machine(spec, self.net, self.program, self))
            machine.start(spec)
