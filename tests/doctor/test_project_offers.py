"""What the project does not offer, broken on the cloud one by one: types, quota, places, clock, tools."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tpuops.doctor import clock, offers
from tpuops.doctor.finding import State

from .conftest import Clinic
from .looking import look

V3 = "TPUV3sPodPerProjectPerZoneForTPUAPI"
ZONE = "/v2/projects/local-tests/locations"
QUEUED = {
    "tpu": {
        "nodeSpec": [
            {
                "parent": "projects/local-tests/locations/us-central1-a",
                "nodeId": "n",
                "node": {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base"},
            }
        ]
    }
}


def said(clinic: Clinic, **settings: Any) -> None:
    """What the cloud says of the project's surroundings."""
    clinic.cloud.ask("POST", "/_cloud/project", settings)


@pytest.mark.parametrize(
    ("check", "lacking", "kind", "hint"),
    [
        ("accelerator", "v3-8", "accelerator-not-offered", "did you mean v6e-8?"),
        ("runtime", "tpu-ubuntu2204-base", "runtime-not-offered", "did you mean tpu-vm-v4-base?"),
        ("machine-type", "e2-small", "machine-type-not-offered", "gcloud compute machine-types list"),
    ],
)
def test_what_the_zone_does_not_offer_is_named_with_its_line(
    clinic: Clinic, check: str, lacking: str, kind: str, hint: str
) -> None:
    said(clinic, lacks=[lacking])
    seen = clinic.doctor(code=2)
    seen.is_broken(check, kind, hint)
    assert seen[check]["evidence"][0].startswith("tiny.yaml:")
    assert f"no {lacking}" in seen[check]["what"] or f"no runtime {lacking}" in seen[check]["what"]


def test_too_little_quota_for_the_slice(clinic: Clinic) -> None:
    said(clinic, quotas={V3: {"us-central1-a": 0}})
    seen = clinic.doctor(code=4)
    seen.is_broken("tpu-quota", "quota-exceeded", "Cloud console")
    assert "it allows 0, 0 in use, and 4 more are needed" in seen["tpu-quota"]["what"]
    assert clinic.typed("up", "--env", "tiny").returncode == 4  # the same answer, before anything is made


def test_quota_that_a_failed_queued_resource_holds_is_told_with_its_deletion(clinic: Clinic) -> None:
    fault = {"on": {"method": "tpu.queuedResources.create"}, "do": {"fail_operation": {"code": 8, "message": "none"}}}
    clinic.cloud.add_faults([fault])
    clinic.cloud.ask("POST", f"{ZONE}/us-central1-a/queuedResources?queuedResourceId=old", QUEUED)
    said(clinic, quotas={V3: {"us-central1-a": 4}})
    for _ in range(100):
        (queued,) = clinic.cloud.ask("GET", f"{ZONE}/-/queuedResources")["queuedResources"]
        if queued["state"]["state"] == "FAILED":
            break
        time.sleep(0.05)
    seen = clinic.doctor(code=4)
    seen.is_broken("tpu-quota", "quota-exceeded", "queued-resources delete old --zone=us-central1-a --force")
    assert "4 in use by old (FAILED)" in seen["tpu-quota"]["what"]


def test_too_little_quota_for_the_machine_beside_it(clinic: Clinic) -> None:
    said(clinic, quotas={"INSTANCES": {"us-central1": 0}})
    clinic.doctor(code=4).is_broken("vm-quota", "quota-exceeded", "Cloud console")


def test_quota_that_nobody_may_ask_for_and_doubtful_quota_are_notes(clinic: Clinic) -> None:
    said(clinic, quotas={V3: {"us-central1-a": 7}})
    found = look(clinic, offers.tpu_quota)
    assert (found.state, found.kind) == (State.WARNING, "quota-doubtful")
    clinic.access(disabled=["cloudquotas.googleapis.com"])
    found = look(clinic, offers.tpu_quota)
    assert (found.state, found.kind) == (State.WARNING, "quota-unseen")
    assert "roles/cloudquotas.viewer" in found.hint


def test_what_stands_in_another_zone_is_found_and_with_its_zone_put_back_down_removes_it(clinic: Clinic) -> None:
    assert clinic.typed("up", "--env", "tiny").returncode == 0
    file = clinic.folder / "environments" / "tiny.yaml"
    file.write_text(file.read_text().replace("us-central1-a", "us-central1-b"))
    seen = clinic.doctor(code=2)
    seen.is_broken("elsewhere", "stands-elsewhere", "put `zone: us-central1-a` back and `tpuops down` first")


def test_a_clock_that_is_wrong(clinic: Clinic) -> None:
    said(clinic, clock_ahead_s=900)
    seen = clinic.doctor(code=3)
    seen.is_broken("clock", "clock-skew", "timedatectl set-ntp true")
    assert "behind the service's" in seen["clock"]["what"]
    said(clinic, clock_ahead_s=-100)
    found = look(clinic, clock.clock)
    assert (found.state, found.kind) == (State.WARNING, "clock-skew")


def test_tools_that_are_not_installed(clinic: Clinic, tmp_path: Path) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    (only / "ssh").symlink_to("/usr/bin/ssh")
    clinic.env["PATH"] = str(only)
    seen = clinic.doctor(code=3)
    seen.is_broken("tools", "tools-missing", "apt-get install tmux bubblewrap")
