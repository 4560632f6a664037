"""env.new: a new environment from answers, given as flags or asked for on a terminal."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpuops.tasks.given import HELP, Given
from tpuops.tasks.task import Answer, Invocation, task

if TYPE_CHECKING:
    from tpuops.environment.new import Wish


@task("cloud", "json", given=Given, positional=["name"], iterable=["grant"], help=HELP)
def new(asked: Invocation, given: Given) -> Answer:
    """Write a new environment file, commented and checked; asks for what is missing, and never writes over anything."""
    from tpuops.environment.writing import grants_near, refuse_taken, written
    from tpuops.report import new as report

    here = Path.cwd()
    wish, known_from = _known(_wish(asked, given))
    _refuse(wish, whole=False)
    refuse_taken(wish, here)
    near = () if wish.grants else grants_near(here)
    if sys.stdin.isatty() and sys.stderr.isatty() and not asked.json:
        from tpuops.tasks.questions import answered

        known_from["grant"] = " ".join(near)
        wish = answered(wish, given, known_from, asked.say)
    _refuse(wish, whole=True)
    made = written(wish, here)
    document = report.document(wish, made, known_from, () if wish.grants else near)
    return Answer(document, report.made(document, here), report.steps(wish.name))


def _wish(asked: Invocation, given: Given) -> Wish:
    """The flags as a wish. Raises `EnvironmentFileError` for a grant or a command that cannot be read."""
    import shlex

    from tpuops.environment.new import Wish, grant
    from tpuops.environment.problems import Wrong
    from tpuops.errors import EnvironmentFileError

    try:
        grants = tuple(grant(text) for text in given.grant or ())
    except Wrong as wrong:
        raise EnvironmentFileError(f"--grant: {wrong.message}", hint=wrong.hint) from wrong
    try:
        command = tuple(shlex.split(given.command))
    except ValueError as error:
        raise EnvironmentFileError(f"--command: {error}", hint="quote it as for a shell") from error
    names = ("project", "accelerator", "zone", "framework", "provisioning", "vm", "owner", "template", "source")
    typed = {name: value for name in names if (value := getattr(given, name))}
    wish = Wish(given.name, cloud=asked.cloud or "google", grants=grants, allow_paid=given.allow_paid, **typed)
    return replace(wish, command=command) if given.command else wish


def _known(wish: Wish) -> tuple[Wish, dict[str, str]]:
    """The wish with what need not be asked for, and where each of that comes from."""
    from tpuops.cloud import habits
    from tpuops.facts import catalogue

    known_from = {}
    if not wish.project:
        habit = habits.project() if wish.cloud == "google" else habits.Habit("local-practice", "the embedded cloud's")
        if habit.value:
            wish, known_from["project"] = replace(wish, project=habit.value), habit.why
    if not wish.zone and wish.accelerator:
        generation = getattr(catalogue.accelerator(wish.accelerator), "generation", "")
        granted = [each["zone"] for each in wish.grants if each["type"] in {wish.accelerator, generation}]
        habit = habits.Habit(granted[0], "its grant") if granted else habits.zone()
        if habit.value in catalogue.zones_of(wish.accelerator):
            wish, known_from["zone"] = replace(wish, zone=habit.value), habit.why
    return wish, known_from


def _refuse(wish: Wish, *, whole: bool) -> None:
    """Raises `EnvironmentFileError` with every answer that cannot work and, where it must be `whole`, those missing."""
    from tpuops.environment.new import missing, objections, zones_for
    from tpuops.errors import EnvironmentFileError

    wrong = [f"--{name}: {each.message}" + (f"\n  {each.hint}" if each.hint else "") for name, each in objections(wish)]
    lacking = missing(wish) if whole else {}
    lines = [f"--{name}: missing: {words}" for name, words in lacking.items()]
    if "zone" in lacking and (zones := zones_for(wish.accelerator)):
        lines.append(f"  zones with {wish.accelerator}: {', '.join(zones[:6])}")
    if wrong or lines:
        count = len(wrong) + len(lacking)
        what = "answer is" if count == 1 else "answers are"
        raise EnvironmentFileError(
            f"{count} {what} missing or cannot work; nothing was written",
            evidence=[*wrong, *lines],
            hint=f"give them as flags (`tpuops --help env.new`), or type `tpuops env.new {wish.name}` on a terminal",
        )
