"""Free research quota, as a file lists it: what is inside costs nothing, what is outside is not taken unasked.

Pure. A grant names chips of one generation, or of one type, in one zone and one way of provisioning; it never covers
the machine beside the TPU or the bucket, which are paid for in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tpuops.environment.problems import Finding, did_you_mean
from tpuops.environment.rules import Draft
from tpuops.facts import catalogue
from tpuops.facts.catalogue import Accelerator

_GRANTS, _ALLOW_PAID, _ACCELERATOR = ("tpu", "grants"), ("tpu", "allow_paid"), ("tpu", "accelerator")
ON_DEMAND = "on-demand"


def covers(grant: Mapping[str, Any], accelerator: Accelerator, zone: str, provisioning: str) -> bool:
    """Whether this grant pays for a slice of that type, there and so provisioned."""
    return (
        grant["type"] in {accelerator.generation, accelerator.type}
        and grant["zone"] == zone
        and grant.get("provisioning", ON_DEMAND) == provisioning
        and accelerator.chips <= grant["chips"]
    )


def types_exist(draft: Draft) -> Iterator[Finding]:
    """A grant's type is a generation or a type, and its zone offers it."""
    for index, grant in enumerate(_listed(draft)):
        name, here = grant["type"], (*_GRANTS, index)
        members = _members(name)
        if not members:
            hint = did_you_mean(name, _known()) or f"a generation ({', '.join(catalogue.generations())}) or one type"
            yield Finding((*here, "type"), f"{name!r} is neither a TPU generation nor an accelerator type", hint)
        elif not any(grant["zone"] in catalogue.zones_of(member) for member in members):
            places = sorted({zone for member in members for zone in catalogue.zones_of(member)})
            hint = f"zones with {name}: {', '.join(places[:6])}"
            yield Finding((*here, "zone"), f"{name} is not offered in {grant['zone']}", hint, (*here, "type"))


def within_grants(draft: Draft) -> Iterator[Finding]:
    """With grants, or with `allow_paid: false`, the slice lies inside a grant."""
    tpu, zone, known = draft.values.get("tpu"), draft.text(("zone",)), draft.accelerator
    if not isinstance(tpu, Mapping) or zone is None or known is None or _refused(draft):
        return
    grants, provisioning = _listed(draft), tpu.get("provisioning", ON_DEMAND)
    asked = bool(grants) or tpu.get("allow_paid") is False
    if not asked or tpu.get("allow_paid") is True or any(covers(grant, known, zone, provisioning) for grant in grants):
        return
    inside = "; ".join(f"{grant['chips']} chips of {_words(grant)}" for grant in grants) or "none"
    yield Finding(
        _ACCELERATOR,
        f"{known.type} ({known.chips} chips, {provisioning}, {zone}) is outside every grant and would be paid for",
        f"granted: {inside}; `tpu.allow_paid: true` takes it all the same",
        against=_GRANTS if grants else _ALLOW_PAID,
    )


def _words(grant: Mapping[str, Any]) -> str:
    return f"{grant['type']} {grant.get('provisioning', ON_DEMAND)} in {grant['zone']}"


def _members(name: str) -> list[str]:
    known = (catalogue.accelerator(each) for each in catalogue.accelerator_types())
    return [each.type for each in known if each is not None and name in {each.generation, each.type}]


def _known() -> list[str]:
    return [*catalogue.generations(), *catalogue.accelerator_types()]


def _listed(draft: Draft) -> tuple[Mapping[str, Any], ...]:
    """The grants, none where the model objects to any of them."""
    tpu = draft.values.get("tpu")
    listed = tpu.get("grants", ()) if isinstance(tpu, Mapping) else ()
    return () if _refused(draft) or not isinstance(listed, tuple) else listed


def _refused(draft: Draft) -> bool:
    mine = (_GRANTS, _ALLOW_PAID, ("tpu", "provisioning"))
    return any(path[:2] in mine for path in draft.refused)


RULES = (types_exist, within_grants)
