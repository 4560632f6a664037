"""What the file says of failures has its effect in real runs, and `diagnose --run` explains them afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.lifecycle.conftest import TRAINER, User
from tpuops import embedded

pytestmark = pytest.mark.wire

PUZZLING = """
import os, sys
attempt = int(os.environ["TPUOPS_ATTEMPT"])
print(f"step={attempt} loss=1.0", flush=True)
if attempt == 1:
    os.kill(os.getpid(), 9)
if attempt == 2:
    print("flux capacitor desync", flush=True)
    sys.exit(3)
out = os.environ["TPUOPS_OUTPUTS"]
os.makedirs(out, exist_ok=True)
open(os.path.join(out, "model.txt"), "w").write("weights")
"""
OWN = """version: 1
family: mine
signatures:
- {id: flux, class: data_corrupt, match: 'flux capacitor desync', advice: 'align it', examples: [flux capacitor desync]}
- {id: no-space, class: disk_full, match: 'No space left on device'}
"""


def with_recovery(user: User, section: str) -> None:
    path = user.folder / "environments" / "tiny.yaml"
    path.write_text(path.read_text() + f"recovery: {section}\n")


def explained(user: User, *words: str) -> list[dict[str, Any]]:
    process = user.start("diagnose", "--json", *words)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    return list(json.loads(out))


def test_an_override_restarts_an_unknown_end_and_every_attempt_is_explained_afterwards(user: User) -> None:
    user.write(PUZZLING)
    with_recovery(user, "{overrides: {unknown: {action: restart, budget: 1}}}")
    document = user.run("run")
    assert [(row["class"], row["action"]) for row in document["recoveries"]] == [
        ("process_killed", "restart"),
        ("unknown", "restart"),
    ]
    found = explained(user, "--run", "newest")
    assert [each["attempt"] for each in found] == [1, 2, 3]
    assert [each["class"] for each in found] == ["native_crash", "unknown", "healthy"]
    assert [each["exit_code"] for each in found] == [137, 3, 0]
    assert [each["done"] for each in found] == ["restart", "restart", ""]
    assert found[1]["decisive_line"] == "flux capacitor desync"
    assert {each["source"] for each in found} == {"bucket"}
    assert explained(user, "--run", document["run_id"]) == found


def test_a_users_own_message_decides_in_a_real_run_and_its_conflict_is_told(user: User) -> None:
    user.write(PUZZLING, failure="keep")
    with_recovery(user, "{overrides: {unknown: {action: restart}}, signatures: [own.yaml]}")
    own = user.folder / "environments" / "own.yaml"
    own.write_text(OWN.replace("data_corrupt", "data_corupt"))
    refused = user.run("run", code=2)
    assert refused["error"]["evidence"] == [f"{own}:4: flux: there is no class or varying part `data_corupt`"]
    assert user.run("env.check", "--env", "tiny", code=2)["problems"]
    own.write_text(OWN)
    process = user.start("run", "--json")
    out, err = process.communicate(timeout=90)
    document = json.loads(out)
    assert process.returncode == 10
    assert (document["class"], document["cause"]) == ("data_corrupt", "flux capacitor desync")
    assert f"{own}:5: no-space: replaces the one in memory.yaml:" in err.decode()
    found = explained(user, "--run", "newest", "--explain")
    assert [each["class"] for each in found] == ["native_crash", "data_corrupt"]
    assert found[1]["advice"] == "align it"


def test_a_run_that_lives_is_explained_from_its_machine(user: User, until: Callable[..., Any]) -> None:
    user.write(TRAINER, steps="2000", pace="0.05")
    user.start("run")

    def stepping() -> dict[str, Any] | None:
        process = user.start("diagnose", "--run", "newest", "--json")
        out, _ = process.communicate(timeout=60)
        found = json.loads(out) if process.returncode == 0 else []
        return found[0] if found and found[0]["decisive_line"].startswith("step=") else None

    found = until(stepping, timeout_s=60)
    assert (found["class"], found["source"], found["alive"], found["exit_code"]) == ("healthy", "machine", True, None)


SILENT = """
import sys, time
for step in range(30):
    print(f"step={step}", flush=True)
    time.sleep(0.1)
sys.exit(1)
"""
SICK = {"on": {"step": 3}, "do": {"unhealthy": {"symptom": "EXECUTE_TIMED_OUT", "for_s": 0.2}}}


def test_a_symptom_of_the_node_speaks_for_the_attempt_that_it_came_in(user: User) -> None:
    user.write(SILENT)
    faults = user.folder / "faults.json"
    faults.write_text(json.dumps({"faults": [SICK]}))
    document = user.run("rehearse", "--faults", str(faults), code=10)
    assert [(row["class"], row["action"]) for row in document["recoveries"]] == [("hang", "restart")]
    assert document["class"] == "unknown", "the symptom that is still in the list was told before"


def test_a_run_that_is_not_there_is_said(user: User) -> None:
    process = user.start("diagnose", "--run", "newest")
    assert b"no run on record" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


NO_QUOTA = {"http": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota limit 'TPUV3' has been exceeded. Limit: 0"}
FORBIDDEN = {"http": 403, "reason": "IAM_PERMISSION_DENIED", "message": "Permission 'tpu.nodes.create' denied"}


@pytest.mark.parametrize(
    ("answer", "code", "wanted"),
    [
        (NO_QUOTA, 4, ("quota_exceeded", "fix_config", "give_up")),
        (FORBIDDEN, 3, ("permission_denied", "fix_credentials", "give_up")),
    ],
    ids=["quota, by its text", "permission, by its reason"],
)
def test_what_the_cloud_refused_is_explained_until_machines_are_had(
    user: User, answer: dict[str, Any], code: int, wanted: tuple[str, str, str]
) -> None:
    user.run("cloud.start")
    stage = embedded.status(user.state)
    assert stage is not None
    fault = {"on": {"method": "tpu.nodes.create"}, "do": {"error": answer}}
    embedded.ask(stage, "POST", "/_cloud/faults", json.dumps([fault]).encode())
    user.run("up", code=code)
    (found,) = explained(user, "--run", "newest")
    assert (found["class"], found["action"], found["move"]) == wanted
    assert (found["attempt"], found["source"], found["exit_code"]) == (None, "cloud", None)
    assert answer["message"] in found["advice"]
    shown, _ = user.start("diagnose", "--run", "newest").communicate(timeout=60)
    assert wanted[0].encode() in shown
    user.write(TRAINER, steps="3")
    user.run("run")
    assert [each["class"] for each in explained(user, "--run", "newest")] == ["healthy"]
