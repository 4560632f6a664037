"""The signal sweep: a command is told to end at each of its points in turn, and given again once it has ended.

It ends as the file says for an interruption, with outputs saved before anything is removed, and whatever stands after
that is what the file keeps, or is named. Then the same command comes to the end that it would have had undisturbed.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial

import pytest

from tests.simulation import sweep
from tests.simulation.history import Ended
from tests.simulation.lives import ANY, Doom, Life
from tests.simulation.many import shared_out
from tests.simulation.play import INTERRUPTED, staged
from tests.simulation.properties import p3_down_takes_the_rest_away, p4_what_is_not_ours_is_untouched, standing
from tests.simulation.sweep import FIRST, SECOND, TAKEN, Scene, Swept
from tpuops.stages.record import CLOSED, ENDED

LEFT_OVER = 6
KEEP, DELETE = "keep", "delete"
SCENES = (
    (Scene("up", "up"), KEEP),
    (Scene("train", "train", ("up",)), KEEP),
    (Scene("run", "run"), KEEP),
    (Scene("run", "run"), DELETE),
    (Scene("run that keeps", "run", success="keep"), DELETE),
    (Scene("run made anew", "run", faults=(TAKEN,)), DELETE),
    (Scene("run that goes on", "run", open_run=True), DELETE),
    (Scene("down with an open run", "down", open_run=True), KEEP),
    (Scene("stop", "stop", open_run=True), KEEP),
)
"""Each with the file's word for an interruption."""


class Signalled(sweep.Sweep):
    """A scene on the stage, its first controller told to end at one point or none."""

    def __init__(self, scene: Scene, doom: Doom | None, word: str) -> None:
        super().__init__(scene, doom)
        self.schedule.environment["teardown"]["interrupt"] = word
        self.environment = self.environment.model_copy(
            update={"teardown": self.environment.teardown.model_copy(update={"interrupt": word})}
        )
        self.word, self.first = word, Ended(Life("desk", FIRST), 0)
        # As `cloud/threads.py`: a call whose caller was interrupted takes effect all the same.
        exchange = self.net.exchange
        self.net.exchange = lambda request: asyncio.shield(exchange(request))  # type: ignore[method-assign]

    async def _killed_and_followed(self) -> None:
        life = Life("desk", FIRST, self.doom)
        self.swept.points = life.points
        self.first = await self._begin(life, self.scene.command)
        if not life.told_to_end:
            return
        self.swept.killed, self.swept.told_then = True, self._was_told()
        if self._is_to_delete():
            self._take_stock()
            left = standing(self.history)
            self.history.problems += [f"{name} stands after an interruption that deletes" for name in sorted(left)]
        await self._begin(Life("elsewhere", SECOND), self.scene.command)

    def _is_to_delete(self) -> bool:
        """Whether the file's word for interruptions counted: not before it saw the machine, nor after the run's end."""
        begun = any(who == FIRST and event.kind.startswith("node.") for who, event in self.history.events)
        ended = (self.document("run.json") or {}).get("state") in {ENDED, CLOSED}
        return self.word == DELETE and begun and not ended and self.first.exit_code == INTERRUPTED


def lived(scene: Scene, word: str, doom: Doom | None = None) -> Signalled:
    """One life of a scene, played."""
    stages: list[Signalled] = []

    def make() -> Signalled:
        stages.append(Signalled(scene, doom, word))
        return stages[-1]

    staged(make, 1)
    return stages[0]


def wrong(whole: Swept, stage: Signalled) -> list[str]:
    """What is not as it has to be, beside the undisturbed life."""
    swept, first = stage.swept, stage.first
    found = [
        *swept.history.problems,
        *p3_down_takes_the_rest_away(swept.history),
        *p4_what_is_not_ours_is_untouched(swept.history),
    ]
    if swept.killed and first.exit_code not in {INTERRUPTED, LEFT_OVER, whole.end.exit_code}:
        found.append(f"it ends with {first.exit_code}: {first.error}")
    wanted, got = sweep._outcome(whole), sweep._outcome(swept)
    wanted.pop("logs")  # after a deletion the run goes on in a further attempt
    differ = [key for key in wanted if wanted[key] != got[key]]
    return found + [f"{key} is {got[key]}, undisturbed it is {wanted[key]}" for key in differ]


@cache
def undisturbed(number: int) -> Swept:
    """The life of a scene that nobody tells to end."""
    return lived(*SCENES[number]).swept


def broken_at(number: int, call: int) -> list[str]:
    """What is wrong after a signal at one point; a life that ends in no order is wrong too."""
    (scene, word), whole = SCENES[number], undisturbed(number)
    where = f"{scene.name} ({word}): told to end at point {call} ({whole.points[call - 1]})"
    try:
        found = wrong(whole, lived(scene, word, Doom(call, ANY, True, signal=True)))
    except Exception as error:  # noqa: BLE001 - every point is tried
        found = [repr(error)]
    return [f"{where}: {line}" for line in found]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(SCENES)), ids=[f"{scene.name}, {word}" for scene, word in SCENES])
def test_a_command_that_is_told_to_end_anywhere_ends_as_the_file_says(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (scene, word), points = SCENES[number], range(1, len(undisturbed(number).points) + 1)
    broken = [line for lines in shared_out(partial(broken_at, number), points) for line in lines]
    with capsys.disabled():
        print(f"\n{scene.name} ({word}): {len(points)} signals, {len(broken)} wrong", end=" ")
    assert not broken, "\n".join(broken)
