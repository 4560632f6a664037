"""Spend: what this command's machines cost by list price, from the journal's own events.

An estimate from dated tables, never a bill. A price nobody knows makes the sum unknown (None), never smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuops.clock import Clock
from tpuops.facts import prices
from tpuops.journal import Event
from tpuops.resources import Desired

BILLS_FROM = {"node.ready": "node", "vm.ready": "vm", "node.stands": "node", "vm.stands": "vm"}
BILLS_UNTIL = {"node.gone": "node", "node.stop": "node", "node.lost": "node", "vm.gone": "vm"}


def hourly(desired: Desired) -> dict[str, float | None]:
    """USD an hour of node and VM (with its disk and address) while they stand; None where no price is known.

    A slice that a grant covers costs nothing.
    """
    node, vm = desired.node, desired.vm
    price = prices.tpu(node.accelerator, node.place.region, spot=node.spot)
    rates: dict[str, float | None] = {"node": None if price is None else price.usd_per_hour}
    if node.granted:
        rates["node"] = 0.0
    if vm is not None:
        parts = (
            prices.vm(vm.machine_type, vm.place.region),
            prices.disk("pd-standard", vm.place.region, vm.disk_gb),
            prices.vm_address(),
        )
        known = [part.usd_per_hour for part in parts if part is not None]
        rates["vm"] = sum(known) if len(known) == len(parts) else None
    return rates


@dataclass(slots=True)
class Meter:
    """Listens to the journal and adds up the time that node and VM bill. Times are `Clock.elapsed`."""

    rates: dict[str, float | None]
    clock: Clock
    _since: dict[str, float] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Take one journal event."""
        if role := BILLS_FROM.get(event.kind):
            self._since.setdefault(role, self.clock.elapsed())
        elif (role := BILLS_UNTIL.get(event.kind)) and role in self._since:
            billed = self.clock.elapsed() - self._since.pop(role)
            self._seconds[role] = self._seconds.get(role, 0.0) + billed

    def usd(self) -> float | None:
        """USD so far, None where a price that counts is unknown."""
        total = 0.0
        for role in {*self._since, *self._seconds}:
            rate, seconds = self.rates.get(role), self._seconds.get(role, 0.0)
            if role in self._since:
                seconds += self.clock.elapsed() - self._since[role]
            if rate is None:
                return None
            total += rate * seconds / 3600
        return round(total, 6)
