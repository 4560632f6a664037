"""Every file in `broken/` is refused with exactly the lines its own trailing comment expects."""

import ast
import sys
from pathlib import Path

import pytest

from tpuops.environment import grants, load, rules
from tpuops.environment.problems import Wrong
from tpuops.errors import EnvironmentFileError

ROOM = Path(rules.__file__).parent
RULES, GRANT_RULES = rules.RULES, grants.RULES
CASES = sorted((Path(__file__).parent / "broken").glob("*.yaml"))


def expected(path: Path) -> list[str]:
    _, _, tail = path.read_text().partition("# expect:\n")
    return [line.removeprefix("#   ") for line in tail.splitlines()]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_broken_file_is_refused_with_every_problem_and_its_line(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with pytest.raises(EnvironmentFileError) as refused:
        load(path)
    told = [line.replace(f"{path.name}:", "") for line in refused.value.evidence]
    assert told == expected(path)
    assert refused.value.exit_code == 2


def test_there_are_at_least_eighty_cases_and_some_with_many_problems():
    assert len(CASES) >= 80
    assert max(len([line for line in expected(path) if not line.startswith("    ")]) for path in CASES) >= 10


def test_the_file_is_named_as_its_reader_would_type_it(monkeypatch, tmp_path):
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "x.yaml").write_text("version: 3\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvironmentFileError) as refused:
        load(folder / "x.yaml")
    assert refused.value.evidence[0].startswith("environments/x.yaml:1: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\xff\xfe", "not UTF-8"), (b"version: 1\n---\nversion: 1\n", "2"), (b"a: b\x00c\n", "not YAML")],
)
def test_what_is_no_text_or_no_single_document_is_refused(content, says, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(EnvironmentFileError) as refused:
        load(path)
    assert says in " ".join([refused.value.message, *refused.value.evidence])


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(EnvironmentFileError, match="cannot read"):
        load(tmp_path / "none.yaml")


def test_every_rule_has_a_file_that_breaks_it(monkeypatch):
    fired, raised = set(), set()

    def noted(rule):
        def asked(draft):
            for finding in rule(draft):
                fired.add(rule)
                yield finding

        return asked

    monkeypatch.setattr(rules, "RULES", tuple(map(noted, RULES)))
    monkeypatch.setattr(grants, "RULES", tuple(map(noted, GRANT_RULES)))
    made = Wrong.__init__

    def seen(self, *words):
        frame = sys._getframe(1)
        raised.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        made(self, *words)

    monkeypatch.setattr(Wrong, "__init__", seen)
    for path in CASES:
        with pytest.raises(EnvironmentFileError):
            load(path)
    assert [rule.__name__ for rule in (*RULES, *GRANT_RULES) if rule not in fired] == []
    rooms = [
        path for path in ROOM.glob("*.py") if path.stem != "new"
    ]  # which refuses what is typed, not what is written
    refusals = {(path.name, line) for path in rooms for line in _refusals(path)}
    assert len(refusals) >= 25
    left = sorted(f"{name}:{line}" for name, line in refusals - raised)
    assert not left, " ".join(left)


def _refusals(path):
    """The lines of a module where a value is refused."""
    tree = ast.parse(path.read_text())
    return [
        node.exc.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and getattr(node.exc.func, "id", "") == "Wrong"
    ]
