"""What the TPU service offers where: locations, accelerator types, runtime versions. Read-only; from `tpuops.facts`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tpuops.facts import catalogue
from tpuops.localcloud.core.draw import project_number
from tpuops.localcloud.core.identity import access
from tpuops.localcloud.core.paging import page, page_size
from tpuops.localcloud.core.project import settings
from tpuops.localcloud.core.refusals import Refusal, refuse
from tpuops.localcloud.core.scene import Answer, Call
from tpuops.localcloud.core.world import Document

TENSORFLOW_RUNTIMES = ("tpu-vm-tf-2.16.0-pjrt", "tpu-vm-tf-2.17.1-pjrt", "tpu-vm-tf-2.17.1-pod-pjrt")
"""A few TensorFlow images that were seen (google-cloud.md 1.8)."""


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """The zones with TPUs; looked up at nearly every call."""
    return frozenset(catalogue.zones())


def locations_list(call: Call) -> Answer:
    """GET projects/P/locations: those that are not closed to the project (google-cloud.md 1.6)."""
    closed = access.rules(call.world).get("zones", {})
    found = [(zone, _location(call, zone)) for zone in sorted(zones()) if zone not in closed]
    return _listing(call, "locations", found)


def locations_get(call: Call) -> Answer:
    """GET projects/P/locations/Z."""
    return _location(call, known_zone(call))


def accelerator_types_list(call: Call) -> Answer:
    """GET .../acceleratorTypes."""
    zone = known_zone(call)
    known = [name for name in sorted(catalogue.offered(zone)) if not settings.lacks(call.world, name)]
    found = [(name, _accelerator(call, name)) for name in known]
    return _listing(call, "acceleratorTypes", found)


def accelerator_types_get(call: Call) -> Answer:
    """GET .../acceleratorTypes/T."""
    zone = known_zone(call)
    if call.params["type"] not in catalogue.offered(zone):
        raise refuse("tpu.absent", name=f"{_parent(call)}/acceleratorTypes/{call.params['type']}")
    return _accelerator(call, call.params["type"])


def runtime_versions_list(call: Call) -> Answer:
    """GET .../runtimeVersions."""
    known = [name for name in runtimes_in(known_zone(call)) if not settings.lacks(call.world, name)]
    found = [(name, _runtime(call, name)) for name in known]
    return _listing(call, "runtimeVersions", found)


def runtime_versions_get(call: Call) -> Answer:
    """GET .../runtimeVersions/R."""
    if call.params["runtime"] not in runtimes_in(known_zone(call)):
        raise refuse("tpu.absent", name=f"{_parent(call)}/runtimeVersions/{call.params['runtime']}")
    return _runtime(call, call.params["runtime"])


def shown_page(call: Call, field: str, found: Iterable[tuple[str, Document]]) -> Answer:
    """A page of resources with the zones that could not be reached, which only a list over all zones leaves out."""
    hidden_zones = call.unreachable if call.params["zone"] == "-" else ()
    reached = ((name, kept) for name, kept in found if name.split("/")[3] not in hidden_zones)
    size = page_size(call.query.get("pageSize", ""), 1000)
    chosen, token = page(reached, size, call.query.get("pageToken", ""))
    reply: Document = {field: [kept["shown"] for _, kept in chosen]} if chosen else {}
    if hidden_zones:
        reply["unreachable"] = [f"projects/{call.params['project']}/locations/{zone}" for zone in hidden_zones]
    return {**reply, "nextPageToken": token} if token else reply


def identity(call: Call) -> Answer:
    """POST ...:generateServiceIdentity: the service agent's address (its form is inferred, google-cloud.md 4.11)."""
    known_zone(call)
    number = project_number(call.params["project"])
    return {"identity": {"email": f"service-{number}@cloud-tpu.iam.gserviceaccount.com"}}


def reservations_list(call: Call) -> Answer:
    """GET .../reservations: nobody has reserved anything."""
    known_zone(call)
    return {}


def runtimes_in(zone: str) -> list[str]:
    """The runtime versions a zone lists: those of the generations it offers."""
    known = (catalogue.accelerator(name) for name in catalogue.offered(zone))
    generations = {accelerator.generation for accelerator in known if accelerator}
    names = {name for generation in generations for name in _names(generation)}
    return sorted(names | set(TENSORFLOW_RUNTIMES))


def known_zone(call: Call) -> str:
    """The call's zone. Raises the refusal for a location that the service does not show to this project."""
    zone = call.params["zone"]
    if zone not in zones():
        raise hidden(call.params["project"], zone)
    return zone


def hidden(project: str, zone: str) -> Refusal:
    """The recorded refusal for a zone that is not there, or not for this project (google-cloud.md 2.4)."""
    info: dict[str, Any] = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "LOCATION_POLICY_VIOLATED",
        "domain": "googleapis.com",
        "metadata": {"consumer": f"projects/{project}", "location": zone, "service": "tpu.googleapis.com"},
    }
    return refuse("tpu.location", (info,), zone=zone)


def _names(generation: str) -> set[str]:
    runtimes = catalogue.runtimes(generation)
    return {runtimes.default, *runtimes.named}


def _parent(call: Call) -> str:
    return f"projects/{call.params['project']}/locations/{call.params['zone']}"


def _location(call: Call, zone: str) -> Document:
    name = f"projects/{call.params['project']}/locations/{zone}"
    return {"name": name, "locationId": zone, "labels": {"cloud.googleapis.com/region": catalogue.region_of(zone)}}


def _accelerator(call: Call, name: str) -> Document:
    known = catalogue.accelerator(name)
    assert known is not None
    config = {"type": known.config_type, "topology": known.topology}
    return {"name": f"{_parent(call)}/acceleratorTypes/{name}", "type": name, "acceleratorConfigs": [config]}


def _runtime(call: Call, name: str) -> Document:
    return {"name": f"{_parent(call)}/runtimeVersions/{name}", "version": name}


def _listing(call: Call, field: str, found: list[tuple[str, Document]]) -> Answer:
    size = page_size(call.query.get("pageSize", ""), 1000)
    chosen, token = page(found, size, call.query.get("pageToken", ""))
    reply: Document = {field: [document for _, document in chosen]} if chosen else {}
    return {**reply, "nextPageToken": token} if token else reply
