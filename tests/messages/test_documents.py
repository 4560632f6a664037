"""Each `--json` has a schema. The tests that drive commands check every document they get; here are the other tasks."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.messages.documents import check, schema
from tpuops.tasks.namespace import namespace

TPUOPS = Path(sys.executable).parent / "tpuops"
BUG = b"step=1\nTraceback (most recent call last):\nKeyError: 'conv'\n"


def said(*words: str, data: bytes = b"") -> Any:
    done = subprocess.run([TPUOPS, *words, "--json"], input=data, capture_output=True, check=False, timeout=60)
    return json.loads(done.stdout)


def test_every_task_with_json_has_a_schema() -> None:
    root = namespace()
    with_json = [name for name in root.task_names if any(flag.name == "json" for flag in root[name].get_arguments())]
    for name in with_json:
        jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("env.list", ()),
        ("env.show", ("--env", "v3-8")),
        ("env.check", ("--env", "v3-8")),
        ("cloud.status", ()),
        ("cloud.stop", ()),
        ("cloud.reset", ()),
        ("diagnose", ("-",)),
        ("diagnose", ("-", "--more", "/dev/null")),
        ("plan", ("--env", "nowhere")),
        ("status", ()),
    ],
)
def test_its_document_is_what_the_schema_says(task: str, words: tuple[str, ...]) -> None:
    check(task, said(task, *words, data=BUG))


def test_the_documents_of_the_embedded_cloud_and_of_a_lease_are_what_the_schemas_say() -> None:
    here = ("--env", "v3-8", "--cloud", "local")
    said("plan", *here)
    try:
        for task, words in (
            ("cloud.start", ()),
            ("cloud.status", ()),
            ("cloud.env", ()),
            ("lock.show", here),
            ("lock.break", (*here, "--yes")),
            ("status", ("--all", "--cloud", "local")),
        ):
            document = said(task, *words)
            assert "error" not in document, document
            check(task, document)
    finally:
        document = said("cloud.stop")
    assert document == {"stopped": True}
    check("cloud.reset", said("cloud.reset"))


def test_a_document_without_a_promised_key_is_noticed() -> None:
    document = said("diagnose", "-", data=BUG)
    for key in ("class", "action", "decisive_line", "line_number", "confidence", "advice"):
        broken = copy.deepcopy(document)
        del broken[key]
        with pytest.raises(jsonschema.ValidationError):
            check("diagnose", broken)
