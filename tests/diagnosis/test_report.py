"""What `diagnose` prints: the contract of its JSON, and the same for a person."""

import json

from tpuops.diagnosis import report_of
from tpuops.report.diagnosis import told

FAILURE = b"step=1 loss=1\nstep=2 loss=1\n" + b"Missing XLA configuration\n" + b"Aborted (core dumped)\n" * 3
ECHO = b"step=1 loss=1\nUNAVAILABLE: Socket closed\n" * 2


def test_a_document_has_the_keys_that_scripts_rely_on_and_is_json():
    document = report_of([FAILURE])
    assert json.loads(json.dumps(document)) == document
    assert document["class"] == "tpu_not_found"
    assert document["action"] == "fix_config"
    assert document["decisive_line"] == "Missing XLA configuration"
    assert document["line_number"] == 3
    assert document["confidence"] in {"high", "medium", "low"}
    assert document["advice"]


def test_one_log_is_an_object_and_several_are_a_list():
    assert isinstance(report_of([FAILURE]), dict)
    assert isinstance(report_of([FAILURE, ECHO]), list)


def test_a_person_sees_the_cause_in_context_with_echoes_folded():
    text = told(report_of([("w0.log", FAILURE)]), explain=False)
    assert "w0.log, line 3: tpu_not_found" in text
    assert ">   3 | Missing XLA configuration" in text
    assert "    2 | step=2 loss=1" in text
    assert "native_crash, 3 times, first at line 4" in text
    assert "to do:" in text
    assert "\x1b" not in text


def test_colour_only_decorates():
    plain = told(report_of([FAILURE]), explain=False)
    coloured = told(report_of([FAILURE]), explain=False, colour=True)
    assert coloured.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == plain


def test_explain_says_which_fired_and_why_one_won():
    text = told(report_of([FAILURE]), explain=True)
    assert "won; printed by " in text
    assert "no-device-found" in text
    assert ": won" in text
    assert "why:" in text


def test_several_logs_begin_with_the_cause_and_say_whose_echo_the_others_are():
    text = told(report_of([("a.log", ECHO), ("b.log", FAILURE)]), explain=False)
    assert text.startswith("Cause: tpu_not_found in b.log, line 3")
    assert "echo of:  tpu_not_found in b.log" in text


def test_an_unknown_log_shows_its_first_alarming_line():
    document = report_of([b"all fine\nflux capacitor FATAL desync\nbye\n"])
    assert (document["class"], document["line_number"]) == ("unknown", 2)
    assert "flux capacitor" in told(document, explain=True)
