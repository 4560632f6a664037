"""What is typed arrives byte for byte, and no data ever become a script."""

from __future__ import annotations

import json
import shlex
import sys

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.remote.server import Machine
from tpuops.remote import commands, keys

NASTY = st.text(st.sampled_from([*list(";$()`'\"\n\t *~-!\\&|<>#{}[]?=%^éö\u2028\x01\x7f"), "a", "x"]), max_size=12)
WORDS = st.lists(NASTY | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20))


@given(WORDS)
def test_a_line_splits_into_the_words_it_was_made_of(words: list[str]) -> None:
    assert shlex.split(commands.line(["echo", *words]).decode()) == ["echo", *words]


def test_a_nul_is_refused_and_undecodable_bytes_stay() -> None:
    with pytest.raises(ValueError, match="NUL"):
        commands.line(["a\0b"])
    assert commands.line([b"\xff\xfe".decode("utf-8", "surrogateescape")]) == b"'\xff\xfe'"


def test_data_are_parameters_of_constant_scripts() -> None:
    for argv in (commands.agent("d", "$(evil)", "; evil"), commands.install_agent("$(evil)", "x")):
        assert argv[:2] == ("sh", "-c") and "evil" not in argv[2]


async def test_argv_arrives_byte_for_byte_through_ssh(machine: Machine, own: keys.OwnKey) -> None:
    connection = await asyncssh.connect(
        "127.0.0.1", machine.port, username="x", client_keys=[str(own.path)], agent_path=None, config=None,
        known_hosts=([machine.host_key.convert_to_public()], [], []),
    )  # fmt: skip
    program = "import json, os, sys; print(json.dumps([os.fsencode(a).hex() for a in sys.argv[1:]]))"
    batches: list[list[str]] = []

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(WORDS)
    def gather(words: list[str]) -> None:
        batches.append(words)

    gather()
    for words in batches:
        done = await connection.run(commands.line([sys.executable, "-ISc", program, *words]), encoding=None, check=True)
        assert json.loads(done.stdout) == [word.encode().hex() for word in words]
    connection.close()
    await connection.wait_closed()
