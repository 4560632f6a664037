"""The one table of errors: nobody else invents any, every row is used, and each service says no in its own shape."""

import json
import re
from pathlib import Path

import pytest

from tests.localcloud.talk import INSTANCES, NODES
from tpuops.localcloud import core
from tpuops.localcloud.core.refusals import error_reply, refuse
from tpuops.localcloud.core.wordings import LATE, LEGACY_REASONS, STATUSES, TABLE

SOURCES = {
    path: path.read_text()
    for path in Path(core.__file__).parent.rglob("*.py")
    if path.name not in {"refusals.py", "wordings.py"}
}
WORDS = {name: "x" for row in TABLE.values() for name in re.findall(r"{(\w+)}", row.text)}


def test_no_other_module_makes_an_error_of_its_own():
    made = [str(path) for path, text in SOURCES.items() if re.search(r"Refusal\(|\"message\": f?\"[A-Z]", text)]
    assert [path for path in made if not path.endswith("compute/pages.py")] == []  # a warning is no error


@pytest.mark.parametrize("row", [*TABLE, *LATE])
def test_every_row_is_said_somewhere(row):
    assert any(f'"{row}"' in text for text in SOURCES.values())


@pytest.mark.parametrize("row", TABLE)
def test_every_row_has_a_code_a_status_and_a_reason_of_its_service(row):
    wording = TABLE[row]
    refusal = refuse(row, **WORDS)
    for service in {"tpu": ["tpu"], "compute": ["compute"], "storage": ["storage"]}.get(
        row.partition(".")[0], ["tpu", "compute"]
    ):
        reply = error_reply(service, refusal)
        if wording.http == 304 or row.startswith("oauth."):
            continue
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"], error["message"]) == (wording.http, wording.http, refusal.message)
        if service == "tpu":
            assert error["status"] == (wording.status or STATUSES[wording.http])
        else:
            assert error["errors"][0]["reason"] == (wording.reason or LEGACY_REASONS[wording.http])


def test_recorded_texts_are_verbatim(talk):
    """Facts: google-cloud.md 2.4, 2.2, 3.3.3 and 5.8."""
    wanted = {"acceleratorType": "v6e-1", "runtimeVersion": "r"}
    said = talk.call("POST", NODES.replace("us-central1-a", "europe-west4-b"), wanted, nodeId="n")[1]["error"]
    text = said["message"].partition(" [EID")[0]
    assert text == (
        "Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "
        '"v6e-1", could not be found in the zonal accelerator configurations for "europe-west4-b".; '
        "the accelerator v6e-1 was not found in zone europe-west4-b"
    )
    talk.vm("vm1")
    exists = talk.call("POST", INSTANCES, {**talk.call("GET", f"{INSTANCES}/vm1")[1]})[1]["error"]["message"]
    assert exists == "The resource 'projects/local-p/zones/us-central1-a/instances/vm1' already exists"
    assert LATE["tpu.taken"][1].startswith("Cloud TPU received a bad request. update is not supported while in state")
