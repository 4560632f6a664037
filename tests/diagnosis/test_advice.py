"""Advice carries the log's own numbers: sizes, padding, multiples, operations, metrics, zones, holders."""

import pytest

from tests.diagnosis.rows import CORPUS
from tpuops.diagnosis import report_of
from tpuops.diagnosis.advice.hbm import hbm_advice, shortage_of
from tpuops.diagnosis.advice.tiles import array_of

PADDED = """XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 19.46G of 15.48G hbm. \
Exceeded hbm capacity by 3.98G.

Total hbm usage >= 20.00G:
    reserved        530.00M
    program          19.46G

  Largest program allocations in hbm:

  1. Size: 14.00G
     Operator: op_name="jit(train_step)/conv_general_dilated"
     Shape: f32[512,224,224,10]{3,2,1,0:T(8,128)}
     Unpadded size: 1.09G
     Extra memory due to padding: 12.91G (12.8x expansion)
     XLA label: %copy.1
     Allocation type: HLO temp
     ==========================

  2. Size: 512.00M
     Operator: op_name="jit(train_step)/dot_general"
     Shape: bf16[4096,65536]{1,0:T(8,128)(2,1)}
     Unpadded size: 512.00M
     Allocation type: HLO temp
     ==========================
"""


def advice(text):
    return report_of([text.encode()])["advice"]


def test_hbm_advice_names_sizes_the_largest_the_dimension_and_its_multiple():
    said = advice(PADDED)
    assert "19.46G of 15.48G" in said
    assert "3.98G too much" in said
    assert "14.00G f32[512,224,224,10] for conv_general_dilated" in said
    assert "12.8x larger" in said
    assert "dimension 3 from 10 to a multiple of 128" in said
    assert "without the padding named above it would fit" in said


def test_hbm_advice_without_padding_says_what_share_of_the_batch_would_fit():
    said = advice("Ran out of memory in memory space hbm. Used 20.00G of 15.00G hbm. Exceeded hbm capacity by 5G.")
    assert "75 %" in said
    assert "multiples of 64" in said


def test_the_short_form_of_older_programs_is_read():
    shortage = shortage_of("Ran out of memory in memory space hbm; used: 8.60G; limit: 7.48G.")
    assert round(shortage.used / 2**30, 2) == 8.6
    assert round(shortage.limit / 2**30, 2) == 7.48


def test_a_failed_reservation_at_run_time_says_what_was_free():
    text = "RESOURCE_EXHAUSTED: Attempting to reserve 10.51G at the bottom of memory. There are 8.97G free, 0B reserved"
    assert "10.51G were asked for at run time and 8.97G were free" in advice(text)


@pytest.mark.parametrize(
    ("shape", "axes", "expansion"),
    [
        ("f32[8,128]{1,0:T(8,128)}", [], 1.0),
        ("f32[8,128,1,1]{3,2,1,0:T(8,128)}", [(3, 128), (2, 8)], 1024.0),
        ("f32[32,4096,3]{2,1,0:T(8,128)}", [(2, 128)], 128 / 3),
        ("f32[3,4096]{0,1:T(8,128)}", [(0, 128)], 128 / 3),
        ("bf16[10,128]{1,0}", [(0, 16)], 1.6),
        ("s8[33,128]{1,0}", [(0, 32)], 64 / 33),
    ],
)
def test_padding_follows_layout_tile_and_type(shape, axes, expansion):
    array = array_of(shape)
    assert [(each.axis, each.multiple) for each in array.paddings] == axes
    assert array.expansion == pytest.approx(expansion)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Quota limit 'TPUV6EPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 4 in zone us-east5-a.",
         ["TPUV6EPerProjectPerZoneForTPUAPI", "limit is 4", "zone us-east5-a"]),
        ('There is no more capacity in the zone "us-central1-f"; you can try', ["us-central1-f"]),
        ("code: ZONE_RESOURCE_POOL_EXHAUSTED\n zonesAvailable: us-west1-a,us-west1-b\n", ["us-west1-a,us-west1-b"]),
        ("No registered 'PyFunc' OpKernel for 'CPU' devices", ["PyFunc"]),
        ("Detected unsupported operations when trying to compile graph g on XLA_TPU_JIT: Where", ["Where"]),
        ("Unsupported data type for TPU: string, caused by output x", ["string"]),
        ("ABORTED: The TPU is already in use by process with pid 4242.", ["pid 4242"]),
        ("Permission 'tpu.nodes.create' denied on 'projects/p/locations/z'", ["tpu.nodes.create", "projects/p"]),
        ("a-b@cloud-tpu.iam.gserviceaccount.com does not have storage.objects.list access to bkt.",
         ["a-b@cloud-tpu.iam.gserviceaccount.com", "storage.objects.list"]),
        ("X has not been used in project 77 before or it is disabled. Enable it by visiting "
         "https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=77",
         ["gcloud services enable tpu.googleapis.com", "project 77"]),
        ("Out of memory: Killed process 25 (python3) total-vm:9kB, anon-rss:31207744kB", ["python3", "31207744 kB"]),
        ("ModuleNotFoundError: No module named 'flax'", ["flax"]),
        ("Input 1 to node `m/tile` with op Tile must be a compile-time constant.", ["m/tile", "Tile"]),
        ("jaxlib is version 0.3.25, but this version of jax requires version >= 0.4.19.", ["0.3.25", "0.4.19"]),
        ('<HttpError 403 when requesting https://tpu.googleapis.com/v2/x returned "Request had insufficient '
         'authentication scopes.">', ["tpu.googleapis.com", "cloud-platform"]),
    ],
)  # fmt: skip
def test_advice_names_the_parts_of_the_message(text, parts):
    said = advice(text)
    assert [part for part in parts if part not in said] == [], said


def test_every_failure_has_some_advice():
    silent = [row["id"] for row in CORPUS if row["class"] != "healthy" and not advice(row["text"])]
    assert silent == []


def test_hbm_advice_does_not_stumble_over_a_cut_message():
    for cut in range(0, len(PADDED), 17):
        assert hbm_advice(PADDED[:cut])
