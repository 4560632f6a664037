"""Network, addresses, accounts, labels and disks reach the API as the file says, and are compared with what stands."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.environment.conftest import SMALL, Bench
from tpuops.errors import EnvironmentFileError
from tpuops.lifecycle.up import planned, up
from tpuops.stages.access import Route, host_at

pytestmark = pytest.mark.wire

NETWORK = "network: training, subnetwork: training-us, service_account: trainer@p-1.iam.gserviceaccount.com"
PRIVATE = SMALL.replace(
    "tpu-ubuntu2204-base}",
    f"tpu-ubuntu2204-base, {NETWORK}, labels: {{team: vision}}, disks: [{{name: data}}]}}",
).replace(
    "e2-small}",
    "e2-small, service_account: watcher@p-1.iam.gserviceaccount.com, labels: {team: sight}}\nssh: {reach: internal}",
)


def resource(bench: Bench, service: str, kind: str) -> dict[str, Any]:
    """The one resource of a kind, as the API shows it."""
    where = "locations" if service == "/v2" else "zones"
    found = bench.cloud.ask("GET", f"{service}/projects/{bench.project}/{where}/us-central1-a/{kind}")
    (shown,) = found.get("nodes") or found["items"]
    return shown


def test_a_private_environment_stands_as_its_file_says_and_a_second_up_only_reads(bench: Bench) -> None:
    environment = bench.environment(PRIVATE)
    node = bench.do(environment, up).observed.node
    shown = resource(bench, "/v2", "nodes")
    assert shown["networkConfig"] == {
        "network": f"projects/{bench.project}/global/networks/training",
        "subnetwork": f"projects/{bench.project}/regions/us-central1/subnetworks/training-us",
    }
    assert shown["serviceAccount"]["email"] == "trainer@p-1.iam.gserviceaccount.com"
    assert shown["labels"]["team"] == "vision"
    disk = f"projects/{bench.project}/zones/us-central1-a/disks/data"
    assert shown["dataDisks"] == [{"sourceDisk": disk, "mode": "READ_ONLY"}]
    assert [worker.external_ip for worker in node.workers] == [""]
    assert host_at(node, ("k",), Route("tpuops")).address == node.workers[0].internal_ip
    vm = resource(bench, "/compute/v1", "instances")
    (interface,) = vm["networkInterfaces"]
    assert "accessConfigs" not in interface
    assert interface["subnetwork"].endswith("/regions/us-central1/subnetworks/training-us")
    assert vm["serviceAccounts"][0]["email"] == "watcher@p-1.iam.gserviceaccount.com"
    assert vm["labels"]["team"] == "sight"
    mark = bench.last()
    assert not bench.do(environment, up).plan.effects
    assert bench.calls(mark, mutating=True) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("network: training,", "network: other,", "network training, the environment file asks for other"),
        ("subnetwork: training-us", "subnetwork: b", "subnetwork training-us"),
        ("trainer@", "other@", "service account trainer@"),
        ("reach: internal", "reach: external", "addresses internal only"),
        ("{name: data}", "{name: data-2}", "data disks data"),
        ("{accelerator: v3-8,", "{accelerator: v3-8, provisioning: spot,", "provisioning on-demand"),
        ("watcher@", "other@", "service account watcher@"),
    ],
)
def test_what_only_making_it_anew_could_change_is_refused_with_the_way(
    standing: Bench, old: str, new: str, says: str
) -> None:
    mark = standing.last()
    with pytest.raises(EnvironmentFileError) as refused:
        standing.do(standing.environment(PRIVATE, (old, new)), planned)
    told = "\n".join(refused.value.evidence)
    assert re.search(r"^\S*tiny\.yaml:\d+: ", told)
    assert says in told
    assert "down" in told
    assert standing.calls(mark, mutating=True) == []


@pytest.fixture(scope="module")
def standing(shared_cloud: Any, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The private environment, up."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "train.py").touch()
    bench = Bench(shared_cloud, folder, "local-private")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPUOPS_OWNER", "ada")
        bench.do(bench.environment(PRIVATE), up)
    return bench


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same person in every test."""
    monkeypatch.setenv("TPUOPS_OWNER", "ada")
