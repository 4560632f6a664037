"""The TPU service's methods: which path reaches which function, in v2 and in v2alpha1. Data only.

v2alpha1 has everything that v2 has, and what `_ALPHA` names besides (facts: google-cloud.md 2.1). A fault script and
the request log call a method alike in both; its answers name the message types of the version that was asked.
"""

from __future__ import annotations

from dataclasses import replace

from tpuops.localcloud.core.routes import Route
from tpuops.localcloud.core.scene import Answer, Call, Method
from tpuops.localcloud.core.tpu import maintenance, nodes, operations, places, queue
from tpuops.localcloud.core.wire import Reply, json_reply

_LOCATION = "/v2/projects/{project}/locations/{zone}"
_NODE = f"{_LOCATION}/nodes/{{node}}"
_QUEUED = f"{_LOCATION}/queuedResources/{{queued}}"
_OPERATION = f"{_LOCATION}/operations/{{operation}}"
_STABLE = (
    Route("GET", "/v2/projects/{project}/locations", "tpu.locations.list", places.locations_list),
    Route("GET", _LOCATION, "tpu.locations.get", places.locations_get),
    Route("POST", f"{_LOCATION}:generateServiceIdentity", "tpu.locations.generateServiceIdentity", places.identity),
    Route("GET", f"{_LOCATION}/acceleratorTypes", "tpu.acceleratorTypes.list", places.accelerator_types_list),
    Route("GET", f"{_LOCATION}/acceleratorTypes/{{type}}", "tpu.acceleratorTypes.get", places.accelerator_types_get),
    Route("GET", f"{_LOCATION}/runtimeVersions", "tpu.runtimeVersions.list", places.runtime_versions_list),
    Route("GET", f"{_LOCATION}/runtimeVersions/{{runtime}}", "tpu.runtimeVersions.get", places.runtime_versions_get),
    Route("POST", f"{_LOCATION}/nodes", "tpu.nodes.create", nodes.create, "addresses are loopback, chips are CPUs"),
    Route("GET", f"{_LOCATION}/nodes", "tpu.nodes.list", nodes.listing),
    Route("GET", _NODE, "tpu.nodes.get", nodes.get),
    Route("PATCH", _NODE, "tpu.nodes.patch", nodes.patch),
    Route("DELETE", _NODE, "tpu.nodes.delete", nodes.delete),
    Route("POST", f"{_NODE}:stop", "tpu.nodes.stop", nodes.stop),
    Route("POST", f"{_NODE}:start", "tpu.nodes.start", nodes.start),
    Route("POST", f"{_NODE}:getGuestAttributes", "tpu.nodes.getGuestAttributes", nodes.get_guest_attributes),
    Route("POST", f"{_LOCATION}/queuedResources", "tpu.queuedResources.create", queue.create, "waits as a script says"),
    Route("GET", f"{_LOCATION}/queuedResources", "tpu.queuedResources.list", queue.listing),
    Route("GET", _QUEUED, "tpu.queuedResources.get", queue.get),
    Route("DELETE", _QUEUED, "tpu.queuedResources.delete", queue.delete),
    Route("POST", f"{_QUEUED}:reset", "tpu.queuedResources.reset", queue.reset),
    Route("GET", f"{_LOCATION}/operations", "tpu.operations.list", operations.operations_list),
    Route("GET", _OPERATION, "tpu.operations.get", operations.operations_get),
    Route("DELETE", _OPERATION, "tpu.operations.delete", operations.operations_delete),
    Route("POST", f"{_OPERATION}:cancel", "tpu.operations.cancel", operations.operations_cancel, "cuts nothing short"),
)
_ALPHA = (
    Route("POST", f"{_NODE}:performMaintenance", "tpu.nodes.performMaintenance", maintenance.perform, "a reboot"),
    Route(
        "POST",
        f"{_NODE}:simulateMaintenanceEvent",
        "tpu.nodes.simulateMaintenanceEvent",
        maintenance.simulate,
        "a notice, then a reboot",
    ),
    Route(
        "POST",
        f"{_QUEUED}:performMaintenanceQueuedResource",
        "tpu.queuedResources.performMaintenanceQueuedResource",
        maintenance.perform_queued,
        "a reboot of every node",
    ),
    Route("GET", f"{_LOCATION}/reservations", "tpu.reservations.list", places.reservations_list, "there are none"),
)


def _alpha(route: Route) -> Route:
    return replace(route, template=route.template.replace("/v2/", "/v2alpha1/", 1), function=_renamed(route.function))


def _renamed(function: Method) -> Method:
    def answered(call: Call) -> Answer:
        answer = function(call)
        reply = answer if isinstance(answer, Reply) else json_reply(answer)
        return reply._replace(body=reply.body.replace(b"google.cloud.tpu.v2.", b"google.cloud.tpu.v2alpha1."))

    return answered


METHODS = (*_STABLE, *map(_alpha, _STABLE), *map(_alpha, _ALPHA))
