"""The coverage table is the routes' own, and no method of Google's TPU client is missing from it."""

import re
from pathlib import Path

from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import rest_base

from tpuops.localcloud import coverage
from tpuops.localcloud.core.core import Core
from tpuops.localcloud.core.table import ACTIONS, ROUTES
from tpuops.localcloud.core.tpu import states
from tpuops.localcloud.core.wire import Request
from tpuops.localcloud.core.world import World

PAGE = Path(__file__).with_name("coverage.md")


def test_the_table_is_current():
    assert coverage.table() == PAGE.read_text(), "python -m tpuops.localcloud coverage > tests/localcloud/coverage.md"


def test_every_route_is_in_the_table_under_a_service_that_has_a_title():
    assert {route.service for route in ROUTES.all} <= set(coverage.TITLES)
    assert all(f"`{route.verb} {route.template}`" in PAGE.read_text() for route in ROUTES.all)


def test_every_path_that_googles_tpu_client_knows_is_served():
    source = Path(rest_base.__file__).read_text()
    calls = re.findall(r"\"method\": \"(\w+)\",\s+\"uri\": \"([^\"]+)\"", source)
    assert len(calls) > 20
    for verb, uri in calls:
        pattern = re.search(r"=([^}]+)}", uri).group(1)
        path = re.sub(r"\{[^}]+\}", pattern.replace("*", "x"), uri)
        assert ROUTES.find(verb.upper(), path), (verb, uri)


def test_what_the_client_calls_a_state_is_what_the_tables_call_it():
    assert set(states.NODE_STEPS) <= {state.name for state in tpu_v2.Node.State}
    assert set(states.QUEUE_STEPS) <= {state.name for state in tpu_v2.QueuedResourceState.State}


def test_a_path_that_nobody_serves_is_a_404_in_its_services_shape():
    for path in ("/v2/x", "/v2alpha1/x", "/compute/v1/x", "/storage/v1/x", "/x"):
        reply, _ = Core(World()).handle(Request("GET", path), 1.0)
        assert reply.status == 404
        assert b"Method not found" in reply.body


def test_every_action_a_timer_can_name_has_a_function():
    assert all(callable(action) for action in ACTIONS.values())
