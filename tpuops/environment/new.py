"""A new environment from a few answers: what is missing, what cannot work and what would, and the file's text. Pure.

Each answer is judged by the rules that loading has, and said with what would work in its place. Prices are list prices
with their source; nothing is asked of a cloud here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuops import templates
from tpuops.environment import grants
from tpuops.environment.problems import Wrong, did_you_mean
from tpuops.environment.rules import Draft, accelerator_exists
from tpuops.environment.values import checked_machine_type, checked_project, checked_zone
from tpuops.facts import catalogue, names, prices
from tpuops.facts.catalogue import Accelerator

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?")
FRAMEWORKS = ("jax", "pytorch", "tensorflow")
PROVISIONING = ("on-demand", "spot")
OWNERS = ("user", "team")
TEMPLATES = ("digits",)
_GRANT = "TYPE:ZONE:CHIPS or TYPE:ZONE:CHIPS:spot, such as v4:us-central2-b:32:spot"
_MOST_DEVICES = 8


@dataclass(frozen=True, slots=True)
class Wish:
    """The answers, empty where none was given yet. `grants` are mappings as the file has them."""

    name: str
    cloud: str = "google"
    project: str = ""
    accelerator: str = ""
    zone: str = ""
    framework: str = "jax"
    provisioning: str = "on-demand"
    owner: str = "user"
    grants: tuple[Mapping[str, Any], ...] = ()
    allow_paid: bool = False
    vm: str = "e2-small"
    template: str = ""
    source: str = ""
    command: tuple[str, ...] = ("python3", "train.py")


@dataclass(frozen=True, slots=True)
class Composed:
    """A new file: its text, and what its reader should know. `usd_per_hour` is the TPU's, None where unknown."""

    text: str
    runtime: str
    price: str
    usd_per_hour: float | None
    granted: bool
    notes: tuple[str, ...] = field(default=())


NEEDED: Mapping[str, str] = {
    "project": "the id of the Google Cloud project that pays",
    "accelerator": "the TPU's type, such as v3-8, v5litepod-8 or v6e-8",
    "zone": "where it stands, such as us-central1-a",
    "source": "the folder of the training program (or --template digits, which copies an example)",
}
"""What must be answered, in the order of asking."""


def missing(wish: Wish) -> dict[str, str]:
    """What is not answered yet, with its meaning."""
    answered = {"source": wish.source or wish.template}
    return {name: words for name, words in NEEDED.items() if not answered.get(name, getattr(wish, name))}


def objections(wish: Wish) -> Iterator[tuple[str, Wrong]]:
    """What is wrong with each answer that was given, by its name; what is missing is no objection."""
    for name, judge in _JUDGES.items():
        try:
            judge(wish)
        except Wrong as wrong:
            yield name, wrong


def zones_for(type_name: str, near: str = "") -> tuple[str, ...]:
    """The zones that offer a type: those in the region of `near` first, then those of its continent."""
    places = catalogue.zones_of(type_name)
    region, continent = catalogue.region_of(near), near.partition("-")[0]
    return tuple(
        sorted(places, key=lambda zone: (catalogue.region_of(zone) != region, zone.partition("-")[0] != continent))
    )


def grant(text: str) -> dict[str, Any]:
    """A grant from its short form. Raises `Wrong`."""
    kind, zone, chips, *more = [*text.split(":"), "", "", ""][: max(3, text.count(":") + 1)]
    provisioning = more[0] if more else "on-demand"
    if not kind or not chips.isdigit() or not int(chips) or len(more) > 1 or provisioning not in PROVISIONING:
        raise Wrong(f"{text!r} is no grant", f"write {_GRANT}")
    return {"type": kind, "zone": checked_zone(zone), "provisioning": provisioning, "chips": int(chips)}


def in_short(each: Mapping[str, Any]) -> str:
    """A grant as `grant` reads it."""
    spot = ":spot" if each["provisioning"] == "spot" else ""
    return f"{each['type']}:{each['zone']}:{each['chips']}{spot}"


def runtime_of(wish: Wish) -> tuple[str, str]:
    """The runtime version for the framework, and a doubt about it, empty where there is none."""
    if wish.framework == "tensorflow":
        return catalogue.tensorflow_runtime(wish.accelerator)
    return catalogue.default_runtime(wish.accelerator), ""


def compose(wish: Wish, source: str) -> Composed:
    """The file of a wish to which there is no objection; `source` is relative to the file."""
    known = catalogue.accelerator(wish.accelerator)
    assert known is not None, "objections come first"
    runtime, doubt = runtime_of(wish)
    granted = _granted(wish, known)
    words, hourly = _price(wish, known, granted=granted)
    others = [zone for zone in zones_for(known.type, wish.zone) if zone != wish.zone]
    values: dict[str, str | int | float | bool | tuple[str, ...]] = {
        **{name: getattr(wish, name) for name in ("name", "cloud", "project", "zone", "owner", "accelerator")},
        **{name: getattr(wish, name) for name in ("framework", "provisioning", "allow_paid", "vm", "template")},
        "shape": _shape(known),
        "zones": ", ".join(others[:6]) or "no other zone",
        "generation": known.generation,
        "runtime": runtime,
        "price": words,
        "grants": tuple(_flow(each) for each in wish.grants),
        "source": json.dumps(source),
        "setup": json.dumps(_INSTALL) if wish.template else "",
        "command": json.dumps(list(wish.command)),
        "devices": min(known.devices, _MOST_DEVICES),
    }
    text = templates.render("environment/new.yaml", values)
    return Composed(text, runtime, words, hourly, granted, tuple(_notes(known, doubt)))


_INSTALL = ["python3", "-m", "pip", "install", "--user", "--quiet", "-r", "requirements.txt"]


def _flow(each: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in each.items()) + "}"


def _shape(known: Accelerator) -> str:
    workers = f"{known.workers} workers" if known.workers > 1 else "one worker"
    return f"a {known.type}, {known.chips} chip{'s' if known.chips > 1 else ''} on {workers}"


def _notes(known: Accelerator, doubt: str) -> Iterator[str]:
    if doubt:
        yield doubt
    if not known.single_host:
        yield f"{known.type} has {known.workers} workers: `up` provisions it, and `train` cannot use more than one yet"


def _granted(wish: Wish, known: Accelerator) -> bool:
    return any(grants.covers(each, known, wish.zone, wish.provisioning) for each in wish.grants)


def _price(wish: Wish, known: Accelerator, *, granted: bool) -> tuple[str, float | None]:
    if granted:
        return "Free: inside the grant below", 0.0
    found = prices.tpu(known.type, catalogue.region_of(wish.zone), spot=wish.provisioning == "spot")
    if found is None:
        return f"No source gives a list price for it ({wish.provisioning}, {wish.zone})", None
    when = "list price" + (f" of {found.date}" if found.date != "undated" else "")
    when += f"; {found.note}" if found.note else ""
    return f"About {found.usd_per_hour:.2f} USD an hour ({wish.provisioning}, {when})", found.usd_per_hour


def _name(wish: Wish) -> None:
    if not NAME.fullmatch(wish.name):
        raise Wrong(
            f"{wish.name!r} is no environment name", f"lower-case letters, digits and -: {names.slug(wish.name)}"
        )


def _project(wish: Wish) -> None:
    if not wish.project:
        return
    checked_project(wish.project)
    if wish.cloud == "google" and wish.project.startswith("local-"):
        raise Wrong(
            f"{wish.project} can only be a project of the embedded cloud", "add --cloud local, or name your own"
        )


def _accelerator(wish: Wish) -> None:
    if wish.accelerator:
        draft = Draft({"tpu": {"accelerator": wish.accelerator}}, frozenset(), Path())
        for finding in accelerator_exists(draft):
            raise Wrong(finding.message, finding.hint)


def _zone(wish: Wish) -> None:
    if not wish.zone:
        return
    checked_zone(wish.zone)
    known = catalogue.accelerator(wish.accelerator)
    if known is None or wish.zone in catalogue.zones_of(known.type):
        return
    near = zones_for(known.type, wish.zone)
    here = [each for each in catalogue.offered(wish.zone) if _like(each, known)]
    hint = f"the nearest zones with it: {', '.join(near[:4])}"
    if here:
        hint += f"; {wish.zone} has {', '.join(here[:4])}"
    elif not catalogue.offered(wish.zone):
        hint += f"; {wish.zone} has no TPU at all that the tables know of"
    raise Wrong(f"{known.type} is not offered in {wish.zone}", hint)


def _like(name: str, known: Accelerator) -> bool:
    other = catalogue.accelerator(name)
    return other is not None and other.workers == known.workers


def _framework(wish: Wish) -> None:
    if wish.framework not in FRAMEWORKS:
        near = did_you_mean(wish.framework, FRAMEWORKS) or f"one of {', '.join(FRAMEWORKS)}"
        raise Wrong(f"{wish.framework!r} is no framework with a runtime of its own", near)


def _one_of(value: str, known: tuple[str, ...], what: str) -> None:
    if value and value not in known:
        raise Wrong(f"{value!r} is no {what}", did_you_mean(value, known) or f"one of {', '.join(known)}")


def _vm(wish: Wish) -> None:
    if wish.vm != "none":
        checked_machine_type(wish.vm)


def _template(wish: Wish) -> None:
    _one_of(wish.template, TEMPLATES, "template")
    if wish.template and wish.source:
        raise Wrong("a template brings its own source", "give --template or --source")
    if wish.template == "digits" and wish.framework != "jax":
        raise Wrong(
            f"the digits example is written in JAX, not {wish.framework}", "leave --framework out, or --template"
        )


def _paid(wish: Wish) -> None:
    """Grants are real, and the slice, once all of it is known, lies inside one."""
    tpu = {"accelerator": wish.accelerator, "provisioning": wish.provisioning, "grants": wish.grants}
    values = {"zone": wish.zone, "tpu": {**tpu, **({"allow_paid": True} if wish.allow_paid else {})}}
    rules = grants.RULES if wish.zone and wish.accelerator else (grants.types_exist,)
    for rule in rules if wish.grants else ():
        for finding in rule(Draft(values, frozenset(), Path())):
            raise Wrong(finding.message, finding.hint.replace("`tpu.allow_paid: true`", "--allow-paid"))


def _command(wish: Wish) -> None:
    if not wish.command:
        raise Wrong("the command is empty", "leave --command out for `python3 train.py`")


_JUDGES = {
    "name": _name,
    "project": _project,
    "accelerator": _accelerator,
    "zone": _zone,
    "framework": _framework,
    "provisioning": lambda wish: _one_of(wish.provisioning, PROVISIONING, "way of provisioning"),
    "owner": lambda wish: _one_of(wish.owner, OWNERS, "kind of owner"),
    "grant": _paid,
    "vm": _vm,
    "template": _template,
    "command": _command,
}
