"""Quota: whether the project's own limits leave room for what is to be made. Pure.

Told apart: what is short by every reading of Google's ids and numbers, which is refused before anything is made, and
what is short by some reading only, which is said and left to the creation itself (google-cloud.md 2.5 marks which
readings are inferred). Room in the quota promises no machine: capacity is another matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tpuops.facts import catalogue, quotas
from tpuops.facts.quotas import QuotaId
from tpuops.resources import Holding, Limit, Node, NodeSpec, Place, VmSpec


@dataclass(frozen=True, slots=True)
class Shortage:
    """A limit that leaves too little room; `certain`: by every reading."""

    what: str
    limit: Limit
    used: int
    needs: int
    certain: bool
    holders: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What is short, in one line."""
        verb = "leaves" if self.certain else "may leave"
        held = f" by {', '.join(self.holders)}" if self.holders else ""
        return (
            f"quota {self.limit.id} in {self.limit.place} {verb} no room for {self.what}: "
            f"it allows {self.limit.limit}, {self.used} in use{held}, and {self.needs} more are needed"
        )


@dataclass(frozen=True, slots=True)
class Holder:
    """Slices that count against a quota."""

    name: str
    place: Place
    accelerator: str
    spot: bool
    slices: int


def of_slice(
    spec: NodeSpec, limits: Sequence[Limit], nodes: Iterable[Node], holdings: Iterable[Holding]
) -> Shortage | None:
    """What a slice lacks; of several possible quotas each must be short for it to be certain."""
    wanted = catalogue.accelerator(spec.accelerator)
    if wanted is None:
        return None
    by_id = {limit.id: limit for limit in limits}
    binding = quotas.binding(by_id, wanted, spot=spec.spot)
    holders = list(_holders(spec, nodes, holdings))
    judged = {one.id: _judged(spec, by_id[one.id], one, holders, by_id) for one in binding}
    short = [found for found in judged.values() if found is not None]
    if not short:
        return None
    kinds = {one.kind for one in binding}
    sure = {one.kind for one in binding if (found := judged[one.id]) is not None and found.certain}
    first = max(short, key=lambda found: found.certain)
    return first if sure == kinds else _doubted(first)


def _judged(
    spec: NodeSpec, limit: Limit, one: QuotaId, holders: Sequence[Holder], ids: Mapping[str, Limit]
) -> Shortage | None:
    """Short by the smallest reading is certain; by the largest alone it is possible."""
    counted = [(holder, _share(holder, one, ids)) for holder in holders if _is_in(holder.place, limit.place)]
    least, most = (sum(share[index] for _, share in counted) for index in (0, 1))
    wanted = catalogue.accelerator(spec.accelerator)
    assert wanted is not None
    low, high = quotas.units(wanted)
    names = tuple(sorted({holder.name for holder, share in counted if share[1]}))
    if least + low > limit.limit:
        return Shortage(spec.accelerator, limit, least, low, certain=True, holders=names)
    if most + high > limit.limit:
        return Shortage(spec.accelerator, limit, most, high, certain=False, holders=names)
    return None


def _share(holder: Holder, one: QuotaId, ids: Mapping[str, Limit]) -> tuple[int, int]:
    """What a holder takes of one quota, at least and at most."""
    known = catalogue.accelerator(holder.accelerator)
    if known is None:
        return 0, 0
    binding = quotas.binding(ids, known, spot=holder.spot)
    if one not in binding:
        return 0, 0
    low, high = quotas.units(known)
    alone = {other.kind for other in binding} == {one.kind}
    return (low if alone else 0) * holder.slices, high * holder.slices


def _holders(spec: NodeSpec, nodes: Iterable[Node], holdings: Iterable[Holding]) -> Iterable[Holder]:
    """Nodes of their own, but for the one that is to be made anew, and queued resources in every state."""
    for node in nodes:
        if not node.queued_resource and (node.name, node.place) != (spec.name, spec.place):
            yield Holder(node.name, node.place, node.accelerator, node.spot, 1)
    for held in holdings:
        yield Holder(f"{held.name} ({held.state})", held.place, held.accelerator, held.spot, held.slices)


def of_vm(spec: VmSpec, vcpus: int, limits: Sequence[Limit]) -> Shortage | None:
    """What a machine lacks in its region. A family without a quota of its own counts as CPUS."""
    family = spec.machine_type.partition("-")[0].upper()
    by_id = {limit.id: limit for limit in limits}
    cpus = f"{family}_CPUS" if f"{family}_CPUS" in by_id else "CPUS"
    needs = {cpus: vcpus, "INSTANCES": 1, "IN_USE_ADDRESSES": int(spec.link.external)}
    for metric, amount in needs.items():
        limit = by_id.get(metric)
        if amount and limit is not None and limit.usage is not None and limit.usage + amount > limit.limit:
            return Shortage(spec.machine_type, limit, limit.usage, amount, certain=True)
    return None


def _doubted(found: Shortage) -> Shortage:
    return Shortage(found.what, found.limit, found.used, found.needs, certain=False, holders=found.holders)


def _is_in(place: Place, where: str) -> bool:
    return where in {place.zone, place.region}
