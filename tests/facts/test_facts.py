"""The tables answer what the checks and the embedded cloud ask of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuops.facts import catalogue, names, prices


def test_a_v3_8_is_one_worker_with_four_chips_and_eight_devices():
    known = catalogue.accelerator("v3-8")
    assert known is not None
    assert (known.generation, known.chips, known.cores, known.workers, known.devices) == ("v3", 4, 8, 1, 8)
    assert known.stop_start and known.single_host


@pytest.mark.parametrize(
    ("name", "chips", "workers"),
    [("v5litepod-8", 8, 1), ("v5litepod-16", 16, 4), ("v6e-8", 8, 1), ("v4-32", 16, 4), ("v5p-16", 8, 2)],
)
def test_the_suffix_means_cores_or_chips_by_generation(name, chips, workers):
    known = catalogue.accelerator(name)
    assert (known.chips, known.workers) == (chips, workers)
    assert known.stop_start == (workers == 1)


def test_an_unknown_type_is_none_and_an_alias_is_explained():
    assert catalogue.accelerator("v9-8") is None
    assert catalogue.spelled_otherwise("v5e-8") == "v5litepod-8"
    assert catalogue.spelled_otherwise("V3-8") == "v3-8"
    assert catalogue.spelled_otherwise("v3-8") == ""
    assert catalogue.spelled_otherwise("tpu7x-8") == ""


def test_sizes_within_a_documented_span_are_offered_where_the_span_is():
    assert "europe-west4-a" in catalogue.zones_of("v3-64")
    assert "us-central1-a" not in catalogue.zones_of("v3-64")
    assert "v3-8" in catalogue.offered("us-central1-a")
    assert "v2-8" not in catalogue.offered("us-central1-a")
    assert catalogue.offered("us-nowhere1-a") == ()


def test_every_type_has_a_zone_and_a_runtime():
    for name in catalogue.accelerator_types():
        assert catalogue.zones_of(name), name
        assert catalogue.default_runtime(name), name


def test_runtimes_belong_to_their_generation():
    assert catalogue.runtimes("v3").takes("tpu-ubuntu2204-base")
    assert not catalogue.runtimes("v6e").takes("tpu-ubuntu2204-base")
    assert catalogue.runtimes("v6e").takes("v2-alpha-tpuv6e")
    assert catalogue.is_pod_runtime("tpu-vm-tf-2.17.1-pod-pjrt") is True
    assert catalogue.is_pod_runtime("tpu-vm-tf-2.17.1-pjrt") is False
    assert catalogue.is_pod_runtime("v2-alpha-tpuv6e") is None


@pytest.mark.parametrize(
    ("zone", "region"),
    [("us-central1-a", "us-central1"), ("us-south1-ai1b", "us-south1"), ("us-central1-ai1a", "us-central1")],
)
def test_the_region_of_an_ai_zone_is_its_parent(zone, region):
    assert catalogue.region_of(zone) == region


def test_prices_carry_source_and_date_and_unknown_is_none():
    known = prices.tpu("v3-8", "europe-west4")
    assert known is not None
    assert known.usd_per_hour == pytest.approx(8.8)
    assert known.source and known.date == "2024-12-23"
    historic = prices.tpu("v3-8", "us-central1")
    assert historic is not None and historic.usd_per_hour == 8.0 and "historic" in historic.note
    assert prices.tpu("v4-32", "us-central2").usd_per_hour == pytest.approx(3.22 * 16)
    assert prices.tpu("v3-8", "asia-east1") is None
    assert prices.tpu("v9-8", "us-central1") is None
    assert prices.vm("e2-small", "us-central1").usd_per_hour == pytest.approx(0.01675286)
    assert prices.vm("e2-small", "us-central2") is None
    assert prices.disk("pd-standard", "us-central1", 730).usd_per_hour == pytest.approx(0.04)
    assert prices.disk("pd-standard", "us-central2", 10) is None
    assert prices.vm_address().usd_per_hour == 0.005
    assert prices.tpu_address() is None
    assert prices.storage_gib_month("us-central2") is None


@given(st.text(max_size=80))
def test_any_text_becomes_a_legal_name(text):
    environment, owner = names.environment_slug(text), names.owner_slug(text)
    for name in (names.node_name(environment, owner), names.vm_name(environment, owner)):
        assert names.RESOURCE.fullmatch(name), name
    assert names.bucket_problem(names.bucket_name("p", environment, owner)) == ""
    assert names.LABEL_VALUE.fullmatch(environment)
    assert names.LABEL_VALUE.fullmatch(names.label_value(text))


def test_the_longest_names_are_legal_and_a_forbidden_word_stays_out_of_the_bucket():
    environment, owner = names.environment_slug("e" * 99), names.owner_slug("o" * 99)
    assert names.bucket_problem(names.bucket_name("p", environment, owner)) == ""
    assert "google" not in names.bucket_name("p", "google-runs", "ann")


@given(st.text(max_size=40), st.text(max_size=40))
def test_people_and_environments_that_differ_keep_apart(one, other):
    if one != other:
        assert names.owner_slug(one) != names.owner_slug(other)


def test_the_bucket_of_the_same_three_is_the_same_and_hides_the_project():
    name = names.bucket_name("secret-project", "v3-8", "ann")
    assert name == names.bucket_name("secret-project", "v3-8", "ann")
    assert name != names.bucket_name("other-project", "v3-8", "ann")
    assert "secret" not in name


@pytest.mark.parametrize("name", ["ab", "Upper", "-a-", "goog-x", "my-google-b", "a" * 64, "a.b", "x/y"])
def test_illegal_bucket_names_are_explained(name):
    assert names.bucket_problem(name)
