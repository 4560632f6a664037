"""The JSON Schema for editors knows what the reader of the files knows of their shape."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.environment.conftest import SMALL
from tpuops.environment import available, load, schema

SHIPPED = sorted(available(Path(__file__)).values())
SMALLEST = yaml.safe_load(SMALL.replace("<project>", "my-project"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_fits(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), schema())


@pytest.mark.parametrize(
    "change",
    [
        {"zoen": "us-central1-a"},
        {"owner": "me"},
        {"vm": None},
        {"vm": "nothing"},
        {"limits": {"runtime": "soon"}},
        {"tpu": {**SMALLEST["tpu"], "grants": [{"type": "v3"}]}},
        {"tpu": {**SMALLEST["tpu"], "disks": [{"name": "d", "mode": "rw"}]}},
        {"train": {**SMALLEST["train"], "command": "python3 train.py"}},
    ],
    ids=str,
)
def test_what_the_reader_refuses_by_its_shape_does_not_fit(change: dict[str, Any]) -> None:
    jsonschema.validate(SMALLEST, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**SMALLEST, **change}, schema())


def test_every_field_and_section_is_in_it() -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    assert set(made["properties"]) > {"tpu", "vm", "train", "limits"}
    for section in made["$defs"].values():
        assert section["additionalProperties"] is False
        assert section["description"]


def test_no_vm_is_written_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(re.sub(r"vm: .*\n", "vm: none\n", SMALL.replace("<project>", "my-project")))
    environment = load(path)
    assert environment.vm is None
    path.write_text(yaml.safe_dump(environment.model_dump(mode="json")))
    assert load(path).model_dump() == environment.model_dump()


def test_the_task_prints_it_as_one_document() -> None:
    tpuops = Path(sys.executable).parent / "tpuops"
    done = subprocess.run([tpuops, "env.schema"], capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(done.stdout) == schema()
