"""The questions of env.new on a terminal: each with what is known, a default, and why an answer will not do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tpuops.environment.new import FRAMEWORKS, PROVISIONING, Wish, grant, objections, zones_for
from tpuops.environment.problems import Wrong
from tpuops.errors import EnvironmentFileError
from tpuops.facts import catalogue, prices

if TYPE_CHECKING:
    from tpuops.tasks.given import Given

TRIES = 4
SMALL = ("v2-8", "v3-8", "v4-8", "v5litepod-1", "v5litepod-4", "v5litepod-8", "v5p-8", "v6e-1", "v6e-4", "v6e-8")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the answer's name, what is shown before it, what Enter means, and how an answer enters the wish."""

    name: str
    shown: str
    default: str
    put: Callable[[Wish, str], Wish]


def answered(wish: Wish, given: Given, known_from: dict[str, str], say: Callable[[str], None]) -> Wish:
    """The wish with an answer to everything that no flag answered.

    Raises:
        EnvironmentFileError: an answer that cannot work was given over and over, or the terminal was closed.
    """
    for name, question in _QUESTIONS.items():
        if name == "source" and (given.source or given.template):
            continue
        if not getattr(given, name):
            wish = _asked(wish, question(wish, known_from), say)
    return wish


def _asked(wish: Wish, question: Asked, say: Callable[[str], None]) -> Wish:
    for _ in range(TRIES):
        say(f"{question.shown} [{question.default}]" if question.default else question.shown)
        line = sys.stdin.readline()
        if not line:
            break
        try:
            tried = question.put(wish, line.strip() or question.default)
            wrong = next((each for name, each in objections(tried) if name in {question.name, "grant"}), None)
        except Wrong as each:
            wrong = each
        if wrong is None:
            return tried
        say(f"  {wrong.message}" + (f"\n  {wrong.hint}" if wrong.hint else ""))
    raise EnvironmentFileError(f"no answer that works was given for {question.name}; nothing was written")


def _plain(name: str) -> Callable[[Wish, str], Wish]:
    def put(wish: Wish, text: str) -> Wish:
        if not text:
            raise Wrong("an answer is needed")
        changed: dict[str, Any] = {name: text}
        return replace(wish, **changed)

    return put


def _project(wish: Wish, known_from: dict[str, str]) -> Asked:
    why = f" ({known_from['project']})" if "project" in known_from else ""
    return Asked("project", f"The id of the Google Cloud project that pays{why}:", wish.project, _plain("project"))


def _grant(_wish: Wish, known_from: dict[str, str]) -> Asked:
    def put(wish: Wish, text: str) -> Wish:
        return wish if text == "none" else replace(wish, grants=tuple(grant(each) for each in text.split()))

    words = "Free research quota, as TYPE:ZONE:CHIPS or TYPE:ZONE:CHIPS:spot, or none:"
    return Asked("grant", words, known_from.get("grant") or "none", put)


def _accelerator(wish: Wish, _known: dict[str, str]) -> Asked:
    lines = "\n".join(_offers(wish))
    return Asked("accelerator", f"{lines}\nThe TPU's type:", _first(wish), _plain("accelerator"))


def _first(wish: Wish) -> str:
    """The smallest type of the first grant, else a type that does for a start."""
    kind = wish.grants[0]["type"] if wish.grants else ""
    known = [each for each in SMALL if (found := catalogue.accelerator(each)) and kind in {each, found.generation}]
    return known[0] if known else "v3-8"


def _offers(wish: Wish) -> Iterator[str]:
    """The small types with their zones and list prices there."""
    for name in SMALL:
        known, (zone, *_) = catalogue.accelerator(name), zones_for(name)
        price = prices.tpu(name, catalogue.region_of(zone), spot=wish.provisioning == "spot")
        cost = "price unknown" if price is None else f"about {price.usd_per_hour:.2f} USD an hour"
        chips = known.chips if known else 0
        yield f"  {name:12} {chips} chip{'s' if chips > 1 else ' '}  {cost:28} {zone}"


def _zone(wish: Wish, known_from: dict[str, str]) -> Asked:
    near = wish.zone or next((each["zone"] for each in wish.grants), "")
    zones = zones_for(wish.accelerator, near)
    default = next((zone for zone in (near, *zones) if zone in zones), "")
    why = f" ({known_from['zone']})" if "zone" in known_from else ""
    return Asked(
        "zone", f"Zones with {wish.accelerator}: {', '.join(zones[:8])}\nThe zone{why}:", default, _plain("zone")
    )


def _choice(name: str, words: str, known: tuple[str, ...]) -> Callable[[Wish, dict[str, str]], Asked]:
    return lambda wish, _: Asked(name, f"{words} ({', '.join(known)}):", getattr(wish, name), _plain(name))


def _source(_wish: Wish, _known: dict[str, str]) -> Asked:
    def put(wish: Wish, text: str) -> Wish:
        return replace(wish, template="digits") if text == "digits" else replace(wish, source=text)

    words = "The folder of your training program, or digits for a copy of the example:"
    return Asked("template", words, "digits", put)


_QUESTIONS: dict[str, Callable[[Wish, dict[str, str]], Asked]] = {
    "project": _project,
    "provisioning": _choice("provisioning", "How it is paid for", PROVISIONING),
    "grant": _grant,
    "accelerator": _accelerator,
    "zone": _zone,
    "framework": _choice("framework", "The framework", FRAMEWORKS),
    "source": _source,
}
