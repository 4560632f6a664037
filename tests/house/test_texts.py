"""Words that must not stand in a tracked file. The patterns are written so that they do not match themselves."""

from __future__ import annotations

import re

import pytest

from tests.house.caps import TOP, tracked

HOSTS = r"pythonh[o]sted|py[p]i[.]org|registry[.]np[m]js|deb[.]d[e]bian|--(?:extra-)?ind[e]x-url[ =]h"
MACHINE_PATHS = r"/work/(?:main|steering|shared|\.library)|/ro[o]t/|\.\./\.library|/ho[m]e/[a-z]+/\.(?:cache|pyenv)"
UNSAFE = (
    r"StrictHostKeyChecking=n[o]\b|AutoAdd[P]olicy|known_hosts\s*=\s*N[o]ne|shell\s*=\s*Tr[u]e"
    r"|yaml\.lo[a]d\((?!.*SafeLoader)|verify\s*=\s*Fal[s]e|^\s*exce[p]t:"
)
UNFINISHED = (
    r"\b(?:TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b|raise NotImpl[e]mentedError|pytest\.(?:sk[i]p|mark\.(?:sk[i]p|xf[a]il))"
)

BAD = {
    HOSTS: "files.pythonh" + "osted.org",
    MACHINE_PATHS: "/ro" + "ot/.cache",
    UNSAFE: "known_hosts=N" + "one",
    UNFINISHED: "# TO" + "DO later",
}


def places(pattern: str, *files: str) -> list[str]:
    found = []
    for path in tracked(*files):
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{path.relative_to(TOP)}:{number}: {line.strip()[:120]}")
    return found


def test_no_registry_host_is_named() -> None:
    assert places(HOSTS) == []


def test_no_path_of_one_machine_is_named() -> None:
    assert places(MACHINE_PATHS) == []


def test_no_unsafe_construct_is_used() -> None:
    assert places(UNSAFE, "*.py", "*.j2", "*.sh", "*.yaml", "*.yml", "templates", ".ci") == []


def test_nothing_is_unfinished_or_skipped() -> None:
    assert places(UNFINISHED, "*.py") == []


@pytest.mark.parametrize("pattern", BAD)
def test_the_pattern_sees_what_it_is_for(pattern: str) -> None:
    assert re.search(pattern, BAD[pattern])


def test_requirements_are_exact_and_hashed() -> None:
    text = (TOP / ".ci/requirements.txt").read_text()
    pins = re.findall(r"^[a-z](?:.*\\\n)*.*", text, re.MULTILINE)
    assert len(pins) > 50
    assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []
