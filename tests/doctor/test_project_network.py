"""Networks that let nobody in or out, broken on the cloud one by one; where a program may mend, `up` works after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tpuops.doctor import network
from tpuops.doctor.finding import State

from .conftest import FILE, Clinic
from .looking import look

COMPUTE = "/compute/v1/projects/local-tests"
RULE = f"{COMPUTE}/global/firewalls/default-allow-ssh"
SUBNETWORK = f"{COMPUTE}/regions/us-central1/subnetworks/default"
PRIVATE = FILE + "  setup: [[python3, -c, pass]]\nssh: {reach: internal}\n"


def in_network(name: str) -> str:
    return FILE.replace("tpu: {", f"tpu: {{network: {name}, ")


def mended(clinic: Clinic, *checks: str) -> list[dict[str, Any]]:
    """`doctor --fix --yes` mends these, and a real `up` works."""
    seen = clinic.doctor("--fix", "--yes")
    done = seen.document["fixes"]
    assert [(each["check"], each["result"]) for each in done] == [(check, "done") for check in checks]
    assert clinic.typed("up", "--env", "tiny").returncode == 0
    return list(done)


def test_no_network_of_that_name(clinic: Clinic) -> None:
    clinic.cloud.ask("POST", "/_cloud/project", {"networks": ["default"]})
    clinic.write(in_network("trainin"))
    seen = clinic.doctor(code=2)
    seen.is_broken("network", "network-missing", "gcloud compute networks create trainin")
    assert seen["network"]["evidence"] == ["tiny.yaml:6: tpu.network"]
    assert seen["firewall"]["state"] == "skipped"


def test_a_network_without_subnetworks_of_its_own_needs_one_named(clinic: Clinic) -> None:
    clinic.write(in_network("training"))
    found = look(clinic, network.network)
    assert (found.kind, found.exit_code) == ("subnetwork-unnamed", 2)
    assert "networks subnets list --network=training" in found.hint


def test_a_subnetwork_of_another_network_and_none_of_that_name(clinic: Clinic) -> None:
    clinic.cloud.ask("GET", f"{COMPUTE}/global/networks/other")
    clinic.cloud.ask("GET", f"{COMPUTE}/regions/us-central1/subnetworks/theirs")
    clinic.write(in_network("default, subnetwork: theirs"))
    found = look(clinic, network.subnetwork)
    assert (found.kind, found.hint.partition(",")[0]) == ("subnetwork-elsewhere", "write `network: other`")
    clinic.cloud.ask("POST", "/_cloud/project", {"networks": ["default"]})
    clinic.write(in_network("default, subnetwork: nowhere"))
    clinic.doctor(code=2).is_broken("subnetwork", "subnetwork-missing", "gcloud compute networks subnets list")


def test_a_firewall_without_a_rule_for_ssh_says_what_it_would_open_and_to_whom(clinic: Clinic) -> None:
    clinic.cloud.ask("DELETE", RULE)
    seen = clinic.doctor(code=3)
    seen.is_broken("firewall", "firewall-closed", "--source-ranges=0.0.0.0/0")
    assert seen["firewall"]["fix"]["what"].startswith("open tcp:22 of every machine in network default from anywhere")
    refused = clinic.doctor("--fix", code=3)  # nobody agreed
    assert [each["result"] for each in refused.document["fixes"]] == ["declined"]
    mended(clinic, "firewall")
    rule = clinic.cloud.ask("GET", f"{COMPUTE}/global/firewalls/tpuops-ssh-external-default")
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]


def test_a_rule_that_refuses_is_named_and_not_overruled(clinic: Clinic) -> None:
    body = {"name": "closed", "denied": [{"IPProtocol": "all"}], "priority": 500, "network": "global/networks/default"}
    clinic.cloud.ask("POST", f"{COMPUTE}/global/firewalls", body)
    seen = clinic.doctor(code=3)
    seen.is_broken("firewall", "firewall-closed", "ask who made it")
    assert seen["firewall"]["fix"] is None
    assert "rule closed of network default refuses tcp:22" in seen["firewall"]["what"]


@pytest.mark.parametrize(
    ("rule", "state", "kind"),
    [
        ({"sourceRanges": ["8.8.4.0/24"]}, State.WARNING, "firewall-narrow"),
        ({"sourceRanges": ["0.0.0.0/0"], "targetTags": ["web"]}, State.BROKEN, "firewall-closed"),
        ({"sourceRanges": ["0.0.0.0/0"], "disabled": True}, State.BROKEN, "firewall-closed"),
        (
            {"sourceRanges": ["0.0.0.0/0"], "allowed": [{"IPProtocol": "tcp", "ports": ["80"]}]},
            State.BROKEN,
            "firewall-closed",
        ),
        ({"sourceRanges": ["0.0.0.0/0"]}, State.OK, ""),
    ],
)
def test_a_rule_for_others_is_no_rule_for_us(clinic: Clinic, rule: dict[str, Any], state: State, kind: str) -> None:
    clinic.cloud.ask("DELETE", RULE)
    body = {"name": "some", "allowed": [{"IPProtocol": "tcp", "ports": ["20-25"]}], **rule}
    clinic.cloud.ask("POST", f"{COMPUTE}/global/firewalls", body)
    found = look(clinic, network.firewall)
    assert (found.state, found.kind) == (state, kind)


def test_private_machines_get_out_after_both_ways_are_made(clinic: Clinic) -> None:
    clinic.write(PRIVATE)
    seen = clinic.doctor(code=3)
    seen.is_broken("private-access", "private-access-off", "--enable-private-ip-google-access")
    seen.is_broken("nat", "nat-missing", "gcloud compute routers nats create tpuops-nat-default")
    assert "bills by hour and traffic" in seen["nat"]["fix"]["what"]
    mended(clinic, "private-access", "nat")
    assert clinic.cloud.ask("GET", SUBNETWORK)["privateIpGoogleAccess"] is True
    (router,) = clinic.cloud.ask("GET", f"{COMPUTE}/regions/us-central1/routers")["items"]
    assert json.dumps(router["nats"]).count("subnetworks/default") == 1


def test_without_a_setup_the_missing_nat_is_a_note_only(clinic: Clinic) -> None:
    clinic.write(PRIVATE.replace("  setup: [[python3, -c, pass]]\n", ""))
    clinic.cloud.ask("POST", f"{SUBNETWORK}/setPrivateIpGoogleAccess", {"privateIpGoogleAccess": True})
    found = look(clinic, network.nat)
    assert (found.state, found.kind) == (State.WARNING, "nat-missing")
