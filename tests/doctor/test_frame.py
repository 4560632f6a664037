"""How checks are run, judged and mended, with checks made up for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tpuops.doctor.examine import examine
from tpuops.doctor.finding import Check, Finding, Fix, State, broken, ok
from tpuops.doctor.patient import Admission, Patient
from tpuops.doctor.treat import looked, treated
from tpuops.embedded import Stage
from tpuops.environment import load
from tpuops.errors import AccessError, QuotaExceeded

from .conftest import FILE


@pytest.fixture
def admission(tmp_path: Path) -> Admission:
    (tmp_path / "environments").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("")
    file = tmp_path / "environments" / "tiny.yaml"
    file.write_text(FILE)
    return Admission(load(file), Stage("http://127.0.0.1:1/k-x", 22, 1), tmp_path / "state", "--env tiny")


@pytest.fixture
def patient(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setattr("tpuops.doctor.patient.confine", lambda place: None)  # it would hold for the tests after this
    return admission.admit()


def finds(finding: Finding, after_s: float = 0.0) -> Any:
    async def look(patient: Patient) -> Finding:
        await asyncio.sleep(after_s)
        return finding

    return look


async def test_all_checks_look_at_once_and_the_whole_takes_as_long_as_the_slowest(patient: Patient) -> None:
    checks = [Check(f"c{number}", finds(ok("fine"), 0.3), needs=(f"c{number - 1}",)) for number in range(12)]
    seen = await looked(checks, patient)
    assert [finding.state for finding in seen.findings] == [State.OK] * 12
    assert seen.seconds <= 1.5 * max(finding.seconds for finding in seen.findings)


async def test_a_check_that_hangs_is_cut_off_and_named_and_hides_what_needs_it(patient: Patient) -> None:
    async def hang(patient: Patient) -> Finding:
        while True:
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await asyncio.sleep(0.2)  # not even willing to end
                raise

    checks = [Check("a", finds(ok("fine"))), Check("b", hang, timeout_s=0.2), Check("c", finds(ok("-")), needs=("b",))]
    seen = await looked(checks, patient)
    assert [finding.state for finding in seen.findings] == [State.OK, State.HUNG, State.SKIPPED]
    assert (seen.findings[1].check, seen.findings[1].kind, seen.exit_code) == ("b", "hung", 5)
    assert seen.seconds < 1.5


async def test_what_needs_something_broken_is_skipped_down_the_line_and_the_first_broken_one_decides(
    patient: Patient,
) -> None:
    checks = [
        Check("a", finds(broken("bad", "it is bad", exit_code=4))),
        Check("b", finds(ok("-")), needs=("a",)),
        Check("c", finds(broken("worse", "an echo", exit_code=3)), needs=("b",)),
        Check("d", finds(broken("other", "something else", exit_code=2))),
    ]
    seen = await looked(checks, patient)
    assert [str(finding.state) for finding in seen.findings] == ["broken", "skipped", "skipped", "broken"]
    assert "`a`" in seen.findings[1].what
    assert seen.exit_code == 4


async def test_errors_of_the_floors_below_become_findings_in_their_own_words(patient: Patient) -> None:
    async def forbidden(patient: Patient) -> Finding:
        raise AccessError("this login has ended", evidence=["seen"], hint="log in", kind="credentials-expired")

    async def full(patient: Patient) -> Finding:
        raise QuotaExceeded("a quota is used up", method="tpu.nodes.create", hint="ask")

    first, second = await examine([Check("a", forbidden), Check("b", full)], patient)
    assert (first.kind, first.what, first.evidence, first.exit_code) == (
        "credentials-expired",
        "this login has ended",
        ("seen",),
        3,
    )
    assert (second.kind, second.exit_code) == ("quota-exceeded", 4)


async def test_a_bug_in_a_check_is_no_finding(patient: Patient) -> None:
    async def wrong(patient: Patient) -> Finding:
        raise KeyError("oops")

    with pytest.raises(KeyError):
        await examine([Check("a", wrong)], patient)


async def test_shared_questions_are_asked_once_and_outlive_a_check_that_is_cut_off(patient: Patient) -> None:
    asked = []

    async def answer() -> str:
        asked.append(1)
        await asyncio.sleep(0.4)
        return "said"

    async def look(patient: Patient) -> Finding:
        return ok(await patient.shared.once("question", answer))

    found = await examine([Check("a", look, timeout_s=0.1), Check("b", look), Check("c", look)], patient)
    assert [finding.state for finding in found] == [State.HUNG, State.OK, State.OK]
    assert len(asked) == 1


class Ward:
    """Two faults, the second hidden behind the first; each mended by its fix."""

    def __init__(self) -> None:
        self.mended: list[str] = []
        self.asked: list[str] = []

    def check(self, name: str, needs: tuple[str, ...] = (), *, person: bool = False) -> Check:
        async def run() -> None:
            self.mended.append(name)

        async def look(patient: Patient) -> Finding:
            if name in self.mended:
                return ok("mended")
            return broken(name, "it is broken", fix=Fix(f"mend {name}", run, needs_person=person))

        return Check(name, look, needs)

    async def agree(self, question: str) -> bool:
        self.asked.append(question)
        return True


async def test_a_fix_is_asked_for_done_and_looked_at_again_until_nothing_new_shows(
    admission: Admission, patient: Patient
) -> None:
    ward = Ward()
    checks = [ward.check("a"), ward.check("b", ("a",))]
    seen = await treated(checks, admission.admit, ward.agree)
    assert ward.asked == ["shall I mend a?", "shall I mend b?"]
    assert [finding.state for finding in seen.findings] == [State.OK, State.OK]
    assert (seen.exit_code, [attempt.result for attempt in seen.attempts]) == (0, ["done", "done"])


async def test_what_nobody_agreed_to_is_not_done_and_what_needs_a_person_waits_for_one(
    admission: Admission, patient: Patient
) -> None:
    ward = Ward()

    async def refuse(question: str) -> bool:
        return False

    seen = await treated([ward.check("a"), ward.check("b", person=True)], admission.admit, refuse)
    assert (ward.mended, seen.exit_code) == ([], 3)
    assert [attempt.result for attempt in seen.attempts] == ["declined", "needs a person at a terminal"]


async def test_a_fix_that_did_not_help_is_not_offered_again(admission: Admission, patient: Patient) -> None:
    asked = []

    async def run() -> None:
        raise AccessError("may not")

    fix = Fix("try", run)

    async def agree(question: str) -> bool:
        asked.append(question)
        return True

    checks = [Check("a", finds(replace(broken("bad", "it is bad"), fix=fix)))]
    seen = await treated(checks, admission.admit, agree)
    assert (asked, seen.exit_code, seen.attempts[0].result) == (["shall I try?"], 3, "may not")
