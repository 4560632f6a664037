"""The library as data: every example is a test, nothing invented is matched, users add their own."""

import re
from pathlib import Path

import pytest
import re2

from tpuops.diagnosis.classes import CLASSES
from tpuops.diagnosis.dialect import translate
from tpuops.diagnosis.engine import Engine, engine_for, options
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.signatures import LIBRARY_VERSION, Role, assemble, packaged, with_texts, with_user_files
from tpuops.errors import EnvironmentFileError

SIGNATURES = packaged().signatures
LIBRARY = Path(__file__).parents[2] / "tpuops/diagnosis/library"
MEANT = {
    "137",
    "139",
    "135",
    "132",
    "134",
    "143",
    "130",
    "255",
    "403",
    "404",
    "401",
    "407",
    "409",
    "410",
    "429",
    "4003",
}
MEANT |= {"4010", "4033", "400", "503", "100", "128", "111", "127", "122", "502", "504"}
"""Numbers that programs print by contract: exit codes, HTTP codes, errno, tunnel codes."""


def mine(body, *, version=LIBRARY_VERSION):
    return f"version: {version}\nfamily: mine\nsignatures:\n{body}"


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda each: each.id)
def test_a_signature_fires_on_its_examples_and_on_none_of_its_counterexamples(signature):
    compiled = re2.compile(signature.pattern, options())
    for example in signature.examples:
        assert compiled.search(example.encode()), example
    for example in signature.counterexamples:
        assert not compiled.search(example.encode()), example


def test_every_signature_that_can_decide_has_an_example():
    deciding = {Role.STATE, Role.CAUSE, Role.SUSPECT, Role.ECHO, Role.EXCEPTION, Role.LAST}
    assert [each.id for each in SIGNATURES if each.role in deciding and not each.examples] == []


def test_every_signature_says_who_prints_it():
    assert [each.id for each in SIGNATURES if not (each.origin and each.framework)] == []


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"healthy", "unknown"}))
def test_every_class_has_a_signature(name):
    found = [each for each in SIGNATURES if name in {each.failure_class, *(case.failure_class for case in each.cases)}]
    assert found


def test_no_signature_holds_an_excerpts_invented_value():
    suspicious = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        for pattern in re.findall(r"match: '((?:[^']|'')*)'", path.read_text(encoding="utf-8")):
            bare = re.sub(r"\{[0-9,]+\}|\[[^\]]*\]|\\x[0-9a-f]{2}", "", pattern)
            suspicious += [(path.name, each) for each in re.findall(r"\d{3,}", bare) if each not in MEANT]
            suspicious += [
                (path.name, each) for each in re.findall(r"(?:\d{1,3}\\?\.){3}\d{1,3}", bare) if "127" not in each
            ]
            suspicious += [(path.name, each) for each in re.findall(r"bkt-|proj-|node-[a-d]\b|/opt/venv", bare)]
    assert suspicious == []


def test_the_check_for_invented_values_sees_one():
    assert re.findall(r"\d{3,}", "corrupted record at 2587146066") == ["2587146066"]


def test_the_packaged_library_has_no_conflicts():
    assert packaged().conflicts == ()


def test_a_users_signature_is_found(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(mine("- {id: frob, class: data_corrupt, match: 'frobnication of shard {n} failed'}\n"))
    library = with_user_files([own])
    judgement = examine([b"frobnication of shard 17 failed\n"], Engine(library))
    assert (judgement.failure_class, judgement.winner.hit.signature.id) == ("data_corrupt", "frob")


def test_a_users_signature_replaces_a_packaged_one_and_the_conflict_is_named(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(mine("- {id: no-space, class: disk_full, action: none, match: 'No space left on device'}\n"))
    library = with_user_files([own])
    assert str(library.by_id["no-space"].action) == "none"
    assert any("no-space" in each and "own.yaml" in each for each in library.conflicts)


def test_the_same_pattern_with_another_class_is_a_conflict():
    text = mine("- {id: a, class: hang, match: 'same words'}\n- {id: b, class: disk_full, match: 'same words'}\n")
    assert any("same pattern as a" in each for each in assemble([("x.yaml", text)]).conflicts)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("- {id: a, class: nonsense, match: x}\n", "nonsense"),
        ("- {id: a, class: hang, match: x, colour: red}\n", "colour"),
        ("- {id: a, class: hang, match: '{unheard}'}\n", "unheard"),
        ("- {id: a, class: hang, match: x, cases: [{with: [nobody], drop: true}]}\n", "nobody"),
        ("- {id: a, class: hang, match: x, role: king}\n", "king"),
        ("- {id: a, class: hang, match: x, action: pray}\n", "pray"),
        ("- {id: a, class: hang}\n", "match"),
    ],
)
def test_an_unsound_file_is_refused_with_its_name(body, words):
    with pytest.raises(EnvironmentFileError) as caught:
        assemble([("own.yaml", mine(body))])
    assert any(words in line and line.startswith("own.yaml") for line in caught.value.evidence)


def test_every_problem_is_told_at_once():
    with pytest.raises(EnvironmentFileError) as caught:
        assemble([("a.yaml", mine("- {id: a, class: b, match: x}\n")), ("b.yaml", "nonsense: [")])
    assert len(caught.value.evidence) == 2


def test_a_file_of_another_version_is_refused():
    with pytest.raises(EnvironmentFileError, match="not sound"):
        assemble([("a.yaml", mine("- {id: a, class: hang, match: x}\n", version=99))])


def test_a_pattern_that_the_engine_does_not_know_is_refused_when_compiled():
    library = assemble([("a.yaml", mine("- {id: a, class: hang, match: '(unclosed'}\n"))])
    with pytest.raises(EnvironmentFileError):
        Engine(library)


def test_a_space_stands_for_a_wrapped_line():
    compiled = re2.compile(translate("no more capacity"), options())
    assert compiled.search(b"no more\n      capacity")
    assert compiled.search(b"no\n> more capacity")
    assert not compiled.search(b"nomorecapacity")


def test_a_users_signature_is_held_against_its_own_examples():
    body = "- {id: a, class: hang, match: 'stuck at {n}', examples: [stuck at x], not: [stuck at 5]}\n"
    with pytest.raises(EnvironmentFileError) as caught:
        engine_for(texts=(("own.yaml", mine(body)),))
    assert caught.value.evidence == (
        "own.yaml:4: a: does not match its example 'stuck at x'",
        "own.yaml:4: a: matches 'stuck at 5', which it must not",
    )


def test_a_conflict_is_told_with_both_files_and_lines():
    texts = (("own.yaml", mine("- {id: a, class: hang, match: 'x'}\n- {id: no-space, class: disk_full, match: y}\n")),)
    (told,) = with_texts(texts).conflicts
    assert re.fullmatch(r"own\.yaml:5: no-space: replaces the one in memory\.yaml:\d+", told)


def test_a_file_that_is_no_yaml_is_told_with_its_line():
    with pytest.raises(EnvironmentFileError) as caught:
        with_texts((("own.yaml", "version: 1\nfamily: [\n"),))
    assert caught.value.evidence[0].startswith("own.yaml:3: not YAML")
