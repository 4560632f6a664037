"""The same file, owner and key ask for the same resources, wherever and whenever."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tpuops.desired import desired
from tpuops.environment import find, load
from tpuops.facts import names

KEY = "ssh-ed25519 AAAAC3Nza somebody@laptop"
NOW = datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)


@pytest.fixture
def v3_8():
    return load(find("v3-8", Path(__file__)))


def test_names_and_labels_tell_environment_and_owner(v3_8):
    wanted = desired(v3_8, owner="ann", public_key=KEY, now=NOW)
    assert wanted.node.name == "tpuops-v3-8-ann"
    assert wanted.vm is not None and wanted.vm.name == "tpuops-v3-8-ann-vm"
    assert wanted.bucket.name == names.bucket_name("my-project", "v3-8", "ann")
    assert wanted.bucket.location == "us-central1"
    assert wanted.node.labels == wanted.vm.labels == wanted.bucket.labels == wanted.owned.labels
    for value in wanted.node.labels.values():
        assert names.LABEL_VALUE.fullmatch(value)


def test_the_key_is_for_one_user_and_carries_nobodys_address(v3_8):
    metadata = desired(v3_8, owner="ann", public_key=KEY, now=NOW).node.metadata
    switch = {"startup-script", "tpuops-reaper"}
    assert {key: value for key, value in metadata.items() if key not in switch} == {
        "ssh-keys": "tpuops:ssh-ed25519 AAAAC3Nza google-ssh "
        '{"userName":"tpuops","expireOn":"2026-11-22T13:00:00+0000"}',
        "enable-guest-attributes": "TRUE",
        "block-project-ssh-keys": "TRUE",
        "tpuops-bucket": names.bucket_name("my-project", "v3-8", "ann"),
    }


def test_the_vm_ends_by_itself_an_hour_after_the_longest_run(v3_8):
    wanted = desired(v3_8, owner="ann", public_key=KEY, now=NOW)
    assert wanted.vm.terminate_at == datetime(2026, 11, 21, 14, tzinfo=UTC)
    later = desired(v3_8, owner="ann", public_key=KEY, now=NOW + timedelta(minutes=20))
    assert later == wanted


def test_no_vm_and_a_named_bucket_are_taken_at_their_word(v3_8, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "version: 1\nproject: my-project\nzone: us-south1-ai1b\nvm: none\nbucket: {name: our-data}\n"
        "tpu: {accelerator: v6e-8, runtime: v2-alpha-tpuv6e, provisioning: spot}\ntrain: {source: ., command: [x]}\n"
    )
    wanted = desired(load(path), owner="team", public_key=KEY, now=NOW)
    assert wanted.vm is None
    assert wanted.bucket.name == "our-data"
    assert wanted.bucket.location == "us-south1"
    assert wanted.node.spot is True


def test_beside_an_ai_zone_the_vm_stands_in_its_parent_zone(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "version: 1\nproject: my-project\nzone: us-south1-ai1b\nvm: {machine_type: e2-small}\n"
        "tpu: {accelerator: v6e-8, runtime: v2-alpha-tpuv6e}\ntrain: {source: ., command: [x]}\n"
    )
    wanted = desired(load(path), owner="ann", public_key=KEY, now=NOW)
    assert (wanted.node.place.zone, wanted.vm.place.zone) == ("us-south1-ai1b", "us-south1-b")
