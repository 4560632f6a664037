"""The labelled excerpts: class and action, healthy logs, users' errors, first sight, and the same failures varied."""

import itertools

import pytest

from tests.diagnosis.rows import CORPUS, FIFTH, FOURTH, FURTHER, HARMLESS, MESSAGES, SECOND, SIXTH, USER_ERRORS
from tests.diagnosis.variations import VARIATIONS, cut_after_decisive
from tpuops.diagnosis.engine import packaged_engine
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.ladder import decide
from tpuops.diagnosis.logs import verdict_on_text
from tpuops.diagnosis.verdict import Budgets, Move, Shape

SETS = {"corpus": CORPUS, "further": FURTHER, "second": SECOND, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH}
NOTHING_TELLS = {"hf-13956", "brax-87-slow-compile"}
"""Nothing in their text tells a start from a stall."""
ANOTHER_ACTION = (cut_after_decisive, "sgljax-857-tpu-in-use-child")
"""That the holder is the program's own child is said after the cut: the class stays, the action is the class's own."""


def judged(text):
    return examine([text if isinstance(text, bytes) else text.encode()], packaged_engine())


def right_class(row):
    return judged(row["text"]).failure_class == row["class"]


def right_action(row):
    return str(judged(row["text"]).action) in row["acceptable_actions"]


def test_at_least_97_percent_of_the_corpus_have_the_right_class():
    wrong = [row["id"] for row in CORPUS if not right_class(row)]
    assert len(wrong) <= 0.03 * len(CORPUS), wrong


def test_at_least_98_percent_of_the_corpus_have_an_acceptable_action():
    wrong = [row["id"] for row in CORPUS if not right_action(row)]
    assert len(wrong) <= 0.02 * len(CORPUS), wrong


@pytest.mark.parametrize("rows", SETS.values(), ids=SETS)
def test_no_healthy_log_is_flagged(rows):
    healthy = [row for row in rows if row["class"] == "healthy"]
    assert healthy
    assert [row["id"] for row in healthy if not right_class(row)] == []


@pytest.mark.parametrize("rows", SETS.values(), ids=SETS)
def test_no_users_error_is_retried(rows):
    only_a_person = [row for row in rows if set(row["acceptable_actions"]) <= USER_ERRORS]
    retried = []
    for row in only_a_person:
        verdict = verdict_on_text(row["text"].encode())
        move = decide(verdict, Shape(), (), Budgets(), step=1).move
        second_chance = row["class"] in {"native_crash", "hang", "infeed_failed", "tpu_hardware_fault", "grpc_deadline"}
        if move is not Move.GIVE_UP and not (second_chance or row["class"] in {"coordination_timeout"}):
            retried.append((row["id"], str(move)))
    allowed = {"bert-325-master-not-ready"}  # a wrong address reads like a worker that is not up yet: one restart
    assert [each for each in retried if each[0] not in allowed] == []


def test_a_users_own_error_never_costs_a_retry():
    for row in itertools.chain(*SETS.values()):
        if row["class"] == "user_code_error":
            verdict = verdict_on_text(row["text"].encode())
            assert decide(verdict, Shape(), (), Budgets(), step=1).move is Move.GIVE_UP, row["id"]


def test_the_further_excerpts_are_many_and_from_other_threads():
    assert len({row["source"] for row in FURTHER}) >= 60
    seen = {row["source"] for row in CORPUS + FURTHER + SECOND}
    assert len({row["source"] for row in FOURTH} - seen) == len(FOURTH) >= 40
    seen |= {row["source"] for row in FOURTH}
    assert len({row["source"] for row in FIFTH} - seen) == len(FIFTH) >= 130
    assert sum(row["class"] == "healthy" for row in FIFTH) >= 30
    assert len({row["source"] for row in SIXTH} - seen - {row["source"] for row in FIFTH}) == len(SIXTH) >= 40
    assert all(row["source"].startswith("https://github.com/") for row in FURTHER + SECOND + FOURTH + FIFTH + SIXTH)


def test_first_sight_is_recorded_as_it_was():
    """What the signatures said before they had seen the excerpts, classes and actions.

    The fourth set was chosen for what the first three lack (services beside Google's own, Kubernetes, IAP, refused
    requests), so its share is the lower one. Of the fifth set 37 excerpts are healthy logs that sound alarming, of
    which one was flagged; of its 100 failures 80 classes and 91 actions were right, and no user's error was retried.
    The sixth followed once the fifth was mended: of 35 failures 29 classes and 31 actions were right, and no healthy
    log of ten was flagged.
    """
    for rows, classes, actions in (
        (FURTHER, 66, 72),
        (SECOND, 34, 38),
        (FOURTH, 38, 43),
        (FIFTH, 116, 127),
        (SIXTH, 39, 41),
    ):
        assert sum(row["first_sight"]["class"] == row["class"] for row in rows) == classes
        assert sum(row["first_sight"]["action"] in row["acceptable_actions"] for row in rows) == actions


@pytest.mark.parametrize("rows", list(SETS.values())[1:], ids=list(SETS)[1:])
def test_what_first_sight_missed_was_mended(rows):
    wrong = [row["id"] for row in rows if not (right_class(row) and right_action(row))]
    assert set(wrong) <= NOTHING_TELLS


@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.__name__)
def test_a_varied_excerpt_has_the_same_verdict(variation):
    wrong = []
    for row in CORPUS:
        judgement = judged(variation(row["text"], row["decisive_line"]))
        acceptable = [
            *row["acceptable_actions"],
            *(["retry_in_place"] if (variation, row["id"]) == ANOTHER_ACTION else []),
        ]
        if judgement.failure_class != row["class"] or str(judgement.action) not in acceptable:
            wrong.append((row["id"], judgement.failure_class, str(judgement.action)))
    assert wrong == []


def test_nearly_every_varied_further_excerpt_has_the_same_verdict():
    """Of these nobody wrote the signatures with variations in view."""
    wrong, count = [], 0
    for row in [row for row in FURTHER + SECOND + FOURTH + FIFTH + SIXTH if row["id"] not in NOTHING_TELLS]:
        line = next((line for line in row["text"].split("\n") if row["decisive_line"] in line), row["decisive_line"])
        for variation in VARIATIONS:
            count += 1
            if judged(variation(row["text"], line)).failure_class != row["class"]:
                wrong.append((row["id"], variation.__name__))
    assert len(wrong) <= 0.005 * count, wrong


@pytest.mark.parametrize("line", HARMLESS, ids=lambda line: line[:40].decode())
def test_a_harmless_line_is_no_failure(line):
    assert judged(b"starting\n" + line + b"\n").failure_class == "healthy"


def test_all_harmless_lines_together_are_no_failure():
    assert judged(b"\n".join(HARMLESS)).failure_class == "healthy"


@pytest.mark.parametrize(("wanted", "message"), MESSAGES, ids=lambda text: text[:40])
def test_a_message_alone_names_its_class(wanted, message):
    text = message.replace("\\n", "\n").replace("\\t", "\t")
    assert judged(text.encode() + b"\n").failure_class == wanted


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        (b"Killed", "host_oom"),
        (b"step died: No space left on device", "disk_full"),
        (b"UNAVAILABLE: Socket closed", "grpc_unavailable"),
    ],
)
def test_a_harmless_message_does_not_swallow_the_cause_that_follows_it(cause, wanted):
    closed = [line for line in HARMLESS if not line.endswith(b":")]
    assert [line for line in closed if judged(line + b"\n" + cause + b"\n").failure_class != wanted] == []
