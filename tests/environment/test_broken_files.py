"""Every file in `broken/` is refused with exactly the lines its own trailing comment expects."""

from pathlib import Path

import pytest

from tpuops.environment import load
from tpuops.errors import EnvironmentFileError

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
