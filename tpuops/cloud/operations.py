"""Waiting for what was admitted, each service in its own way, and reading the resource where an operation is gone.

TPU operations are polled; compute's own `wait` holds the call until the end. The verdict of a failed operation is
raised; only the looking is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tpuops.cloud.answers import Answer
from tpuops.cloud.calls import Caller
from tpuops.cloud.compute import ComputeService
from tpuops.cloud.failures import classify
from tpuops.cloud.port import Operation
from tpuops.cloud.retry import repeatedly
from tpuops.cloud.tpu import TpuService
from tpuops.errors import NoCapacity, NotFound, Transient
from tpuops.resources import LOST_STATES

FIRST_LOOK_S = 0.2
GROWTH = 1.5
LONGEST_LOOK_S = 3.0

GONE = "GONE"
_WANTED: Mapping[str, frozenset[str]] = {
    "create": frozenset({"READY", "RUNNING"}),
    "start": frozenset({"READY", "RUNNING"}),
    "stop": frozenset({"STOPPED"}),
    "update": frozenset({"READY", "RUNNING"}),
    "delete": frozenset({GONE}),
}
_HOPELESS: Mapping[str, frozenset[str]] = {
    "create": LOST_STATES | {"STOPPED", "DELETING", "STOPPING"},
    "start": LOST_STATES | {"STOPPED", "DELETING"},
    "stop": LOST_STATES,
}

State = Callable[[Operation], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waits for operations. `state` reads the resource's own state, `GONE` where it is not there."""

    tpu: TpuService
    compute: ComputeService
    caller: Caller
    state: State

    async def until_done(self, operation: Operation, timeout_s: float) -> None:
        """Return when it succeeded.

        Raises:
            CloudError: what it failed with; `Transient` where `timeout_s` passed first.
        """
        clock = self.caller.clock
        end, pause = clock.monotonic() + timeout_s, FIRST_LOOK_S
        while True:
            started = clock.monotonic()
            if await self._looked(operation, end - started):
                return
            left = end - clock.monotonic()
            if left <= 0:
                raise Transient(
                    f"{operation.verb} of {operation.resource} is still under way after {timeout_s:.0f} s",
                    method=f"{operation.service}.operations.get",
                    resource=operation.name,
                )
            # compute's wait holds the call until the end, but promises nothing (google-cloud.md 3.3.1).
            held = operation.service == "compute" and clock.monotonic() - started > FIRST_LOOK_S
            if not held:
                await clock.sleep(min(pause, left))
                pause = min(pause * GROWTH, LONGEST_LOOK_S)

    async def _looked(self, operation: Operation, left_s: float) -> bool:
        """One look. An operation without a name, or one that the service forgot, is judged by its resource."""
        if not operation.name:
            return await self._by_resource(operation)
        try:
            answer = await repeatedly(lambda: self._ask(operation, left_s), self.caller.clock)
        except NotFound:
            return await self._by_resource(operation)
        except Transient:
            return False  # a look that failed says nothing of the operation; the time-out ends it
        if isinstance(answer, Answer):
            method = f"{operation.service}.{'nodes' if operation.service == 'tpu' else 'instances'}.{operation.verb}"
            raise classify(method, operation.resource, answer)
        return answer

    async def _ask(self, operation: Operation, left_s: float) -> Answer | bool:
        if operation.service == "tpu":
            return await self.caller.ask("tpu.operations.get", operation.name, lambda: self.tpu.poll(operation.name))
        return await self.caller.ask(
            "compute.zoneOperations.wait",
            operation.name,
            lambda: self.compute.wait(operation.place, operation.name, max(left_s, 1.0)),
        )

    async def _by_resource(self, operation: Operation) -> bool:
        state = await self.state(operation)
        if state in _WANTED[operation.verb]:
            return True
        if operation.verb == "create" and state == GONE:
            raise NoCapacity(f"{operation.resource} was taken away while it was made", resource=operation.resource)
        if operation.verb != "delete" and state == GONE:
            raise NotFound(f"{operation.resource} is not there", resource=operation.resource)
        if state in _HOPELESS.get(operation.verb, frozenset()):
            raise NoCapacity(f"{operation.resource} ended as {state}", resource=operation.resource)
        return False
