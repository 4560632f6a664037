"""The environment a machine's processes begin with, and the addresses machines get."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tpuops.localcloud.core.events import MachineSpec
from tpuops.localcloud.disk import Interpreter
from tpuops.localcloud.google_hosts import google_hosts, hosts_file
from tpuops.localcloud.network import Network, choose_network, listening
from tpuops.localcloud.surroundings import surroundings

SPEC = MachineSpec("7-1", "n", "tpu", "p", "z", "127.1.2.3", "h", "v3-8", 1, {}, 1, "", (), 8)


@pytest.mark.parametrize(("devices", "cores", "count"), [(8, 2, 2), (8, 64, 8), (4, 1, 1)])
def test_devices_are_those_of_the_worker_but_no_more_than_the_cores(devices, cores, count) -> None:
    spec = MachineSpec("7-1", "n", "tpu", "p", "z", "127.1.2.3", "h", "v3-8", 1, {}, 1, "", (), devices)
    environment = surroundings(spec, "http://127.0.0.1:1/k", Interpreter(), {}, cores)
    assert environment["XLA_FLAGS"] == f"--xla_force_host_platform_device_count={count}"
    assert environment["JAX_PLATFORMS"] == "cpu"


def test_a_plain_vm_has_no_devices() -> None:
    spec = MachineSpec("7", "n", "vm", "p", "z", "127.1.2.3", "h", "", 0, {}, 1, "", ())
    assert "XLA_FLAGS" not in surroundings(spec, "http://127.0.0.1:1/k", Interpreter(), {})


def test_every_client_is_told_that_google_is_here() -> None:
    environment = surroundings(
        SPEC, "http://127.0.0.1:1/k-x/", Interpreter(prefix=Path("/v")), {"PIP_NO_INDEX": "1"}, 2
    )
    assert environment["GCE_METADATA_HOST"] == environment["GCE_METADATA_IP"] == "127.0.0.1:1/k-x/m/7-1"
    assert environment["STORAGE_EMULATOR_HOST"] == environment["TENSORSTORE_GCS_HTTP_URL"] == "http://127.0.0.1:1/k-x"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"] == "http://127.0.0.1:1/k-x/"
    assert environment["PIP_NO_INDEX"] == "1"
    assert ":/v/bin:" in environment["PATH"]


def test_two_clouds_rarely_share_addresses_and_machines_never_do() -> None:
    network = Network("127.5.6", 22)
    assert len({network.address(n) for n in range(253)}) == 253
    for number in (-1, 253):
        with pytest.raises(ValueError, match="addresses"):
            network.address(number)
    assert len({choose_network(random.Random(seed)).prefix for seed in range(20)}) == 20


def test_a_port_that_is_taken_is_not_chosen() -> None:
    chosen = choose_network(random.Random(1))
    with listening(f"{chosen.prefix}.1", chosen.ssh_port) as taken:
        taken.listen()
        assert choose_network(random.Random(1)) != chosen


def test_google_names_lead_to_loopback_in_both_families() -> None:
    lines = hosts_file("host", "127.1.2.3").splitlines()
    assert "127.1.2.3 host" in lines
    for name in ("tpu.googleapis.com", "metadata.google.internal", "storage.mtls.googleapis.com"):
        assert name in google_hosts()
        assert {f"127.0.0.1 {name}", f"::1 {name}"} <= set(lines)
