"""Carries out the cloud's orders: one method an order, each answering with what it found to do."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .accounts import Accounts, keys_of
from .gate import Gate
from .processes import kill_newest
from .progress import Progress, find
from .scripts import run_script
from .sshd import Sshd
from .troubles import hang, hold

_POLL_S = 0.02
_SEARCH_S = 0.1
_HOMES = Path("/home")
_FAULT = Path("/run/tpu/fault")
_TO_DESCENDANTS = 1
_PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")

Answer = Mapping[str, Any]


@dataclass(slots=True)
class Machine:
    """What orders act on."""

    metadata: dict[str, str]
    environment: dict[str, str]
    accounts: Accounts
    sshd: Sshd
    key_delay_s: float
    gate: Gate


class Orders:
    """Dispatches orders by name. `report` sends a notice to the cloud."""

    def __init__(self, machine: Machine, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._machine = machine
        self._report = report
        self._progress = Progress(since=time.time())
        self._watching: asyncio.Task[None] | None = None
        self._later: set[asyncio.Task[None]] = set()
        self._locked_until = 0.0
        self._holders: list[asyncio.subprocess.Process] = []
        self._known: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "metadata": self._metadata,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "kill": self._kill,
            "device_fault": self._device_fault,
            "device_held": self._device_held,
            "hang": self._hang,
            "ssh_drop": self._ssh_drop,
            "ssh_delay": self._ssh_delay,
            "key_delay": self._key_delay,
            "disk_full": self._disk_full,
            "slow_disk": self._slow_disk,
            "slow_network": self._slow_network,
            "shutdown": self._shutdown,
        }

    async def carry_out(self, order: Mapping[str, Any]) -> Answer:
        """Do it; `{"error": ...}` where the order is unknown or malformed: a fault script's mistake ends no machine."""
        known = self._known.get(str(order.get("order")))
        if known is None:
            return {"error": f"unknown order {order.get('order')!r}"}
        try:
            answer: Answer = await known(order)
        except (KeyError, ValueError, TypeError, re.error, OSError) as failure:
            return {"error": f"{type(failure).__name__}: {failure}"}
        return answer

    async def _metadata(self, order: Mapping[str, Any]) -> Answer:
        self._machine.metadata = {str(name): str(value) for name, value in order["metadata"].items()}
        keys = keys_of(self._machine.metadata)
        delay_s = max(self._machine.key_delay_s, self._locked_until - time.monotonic())
        if delay_s > 0:
            self._keep(self._put_in_force(delay_s))
        else:
            self._machine.accounts.replace(keys)
        return {"keys": len(keys)}

    async def _put_in_force(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._machine.accounts.replace(keys_of(self._machine.metadata))

    async def _key_delay(self, order: Mapping[str, Any]) -> Answer:
        """No login key is in force for that long, those of the metadata are afterwards; sessions go on."""
        for_s = float(order["for_s"])
        self._locked_until = time.monotonic() + for_s
        self._machine.accounts.replace(())
        self._keep(self._put_in_force(for_s))
        return {}

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _watch(self, order: Mapping[str, Any]) -> Answer:
        pattern = re.compile(str(order["pattern"]).encode())
        glob, wanted, index = str(order["file"]), int(order["step"]), int(order["fault_index"])
        await self._unwatch(order)
        self._watching = asyncio.create_task(self._until(glob, pattern, wanted, index))
        return {"watching": wanted}

    async def _until(self, glob: str, pattern: re.Pattern[bytes], wanted: int, index: int) -> None:
        """Poll the growth of matching files every 20 ms; search for new files ten times a second, or as it can."""
        paths: list[Path] = []
        search_at = 0.0
        while True:
            now = time.monotonic()
            if now >= search_at:
                paths = await asyncio.to_thread(find, _HOMES, glob)
                took_s = time.monotonic() - now
                search_at = now + max(_SEARCH_S, 10 * took_s)
            step = self._progress.first(paths, pattern, wanted)
            if step is not None:
                self._report({"notice": "log_line", "fault_index": index, "step": step})
                return
            await asyncio.sleep(_POLL_S)

    async def _unwatch(self, _order: Mapping[str, Any]) -> Answer:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        return {}

    async def _kill(self, order: Mapping[str, Any]) -> Answer:
        return {"killed": kill_newest(str(order["match"]))}

    async def _device_fault(self, order: Mapping[str, Any]) -> Answer:
        _FAULT.parent.mkdir(parents=True, exist_ok=True)
        fresh = _FAULT.with_suffix(".new")
        fresh.write_text(str(order["message"]))
        fresh.rename(_FAULT)
        return {}

    async def _device_held(self, order: Mapping[str, Any]) -> Answer:
        answer, holder = await hold(str(order["match"]))
        if holder is not None:
            self._holders.append(holder)
        return answer

    async def _hang(self, order: Mapping[str, Any]) -> Answer:
        return await hang(str(order["match"]))

    async def _disk_full(self, order: Mapping[str, Any]) -> Answer:
        """For `for_s` seconds nothing new fits on the disk; without it, until the machine is stopped and started."""
        if _PTRACE.exists() and int(_PTRACE.read_text()) > _TO_DESCENDANTS:
            return {"error": "this kernel hides paths from the gate; sysctl kernel.yama.ptrace_scope=1 shows them"}
        return self._rule(order, "full", True)

    async def _slow_disk(self, order: Mapping[str, Any]) -> Answer:
        return self._rule(order, "disk_delay_s", float(order["delay_s"]))

    async def _slow_network(self, order: Mapping[str, Any]) -> Answer:
        """New connections, out of the machine and by SSH into it, wait; what SSH sends is held to `bytes_per_s`."""
        answer = self._rule(order, "network_delay_s", float(order["delay_s"]))
        self._machine.sshd.delay_s = float(order["delay_s"])
        self._machine.sshd.pace(int(order.get("bytes_per_s", 0)))
        if "for_s" in order:
            self._keep(self._quicken(float(order["for_s"])))
        return answer

    async def _quicken(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._machine.sshd.delay_s = 0.0
        self._machine.sshd.pace(0)

    def _rule(self, order: Mapping[str, Any], name: str, value: float) -> Answer:
        """Set one of the gate's rules, and take it back after `for_s` seconds where the order says so."""
        self._machine.gate.rule(name, value)
        if "for_s" in order:
            self._keep(self._lift(float(order["for_s"]), name))
        return {}

    async def _lift(self, after_s: float, name: str) -> None:
        await asyncio.sleep(after_s)
        self._machine.gate.rule(name, 0)

    async def _ssh_drop(self, order: Mapping[str, Any]) -> Answer:
        return {"dropped": await self._machine.sshd.drop(float(order["for_s"]))}

    async def _ssh_delay(self, order: Mapping[str, Any]) -> Answer:
        self._machine.sshd.delay_s = float(order["delay_s"])
        return {}

    async def _shutdown(self, order: Mapping[str, Any]) -> Answer:
        """Run the shutdown script for at most `grace_s`; the cloud ends the machine afterwards either way."""
        run = run_script("shutdown-script", self._machine.metadata, self._machine.environment)
        try:
            return {"status": await asyncio.wait_for(run, float(order["grace_s"]))}
        except TimeoutError:
            return {"status": None}
