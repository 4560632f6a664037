"""Google's own clients call every method of TPU and Compute that is served, on the path that the client itself chose.

Each reply must be one that the client understands: the message it expects, or an error of the kind it raises. The
library of v2alpha1 speaks gRPC alone; gcloud's alpha commands stand for it (test_gcloud_script.py).
"""

import importlib
import inspect
import pkgutil
import re

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1, tpu_v2

from tpuops.localcloud.core.table import ROUTES

pytestmark = pytest.mark.wire
VALUES = {
    "project": "local-tests",
    "zone": "us-central1-a",
    "region": "us-central1",
    "instance": "vm1",
    "machine_type": "e2-small",
    "disk_type": "pd-ssd",
    "network": "default",
    "subnetwork": "default",
    "firewall": "default-allow-ssh",
}


def snake(name):
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def rules(package):
    """(service module, method name, verb, path template, name of the body) of everything a client knows."""
    for found in pkgutil.iter_modules(package.services.__path__):
        module = importlib.import_module(f"{package.__name__}.services.{found.name}.transports.rest_base")
        [base] = [value for name, value in vars(module).items() if re.fullmatch(r"_Base\w+RestTransport", name)]
        for name, rule in vars(base).items():
            if inspect.isclass(rule) and hasattr(rule, "_get_http_options"):
                for option in rule._get_http_options():
                    yield (
                        found.name,
                        snake(name.removeprefix("_Base")),
                        option["method"],
                        option["uri"],
                        option.get("body"),
                    )


def served(package):
    """Those of them that the embedded cloud serves, each once, with the method's name here."""
    seen = set()
    for service, name, verb, uri, body in rules(package):
        path = re.sub(r"\{[^}=]+=([^}]+)\}", lambda found: found[1].replace("*", "x"), uri)
        hit = ROUTES.find(verb.upper(), re.sub(r"\{[^}]+\}", "x", path))
        if hit is not None and hit[0].method not in seen:
            seen.add(hit[0].method)
            yield hit[0].method, service, name, uri, body


def call(package, url, service, name, request):
    """Have the client call it. An error of the API is an answer; anything else is not."""
    module = importlib.import_module(f"{package.__name__}.services.{service}")
    [kind] = [value for found, value in vars(module).items() if re.fullmatch(r"\w+(?<!Async)Client", found)]
    client = kind(credentials=AnonymousCredentials(), transport="rest", client_options={"api_endpoint": url})
    method = getattr(client, f"{name}_unary", None) or getattr(client, name)
    try:
        reply = method(request=request, timeout=20, retry=None)
        list(reply) if hasattr(reply, "pages") else reply
    except exceptions.GoogleAPICallError as error:
        assert error.code in {400, 403, 404, 409, 412}, (name, error)
        assert error.message, name


@pytest.fixture
def stage(shared_cloud):
    body = {
        "name": "vm1",
        "machineType": "zones/us-central1-a/machineTypes/e2-small",
        "disks": [{"boot": True}],
        "networkInterfaces": [{}],
    }
    shared_cloud.ask("POST", "/compute/v1/projects/local-tests/zones/us-central1-a/instances", body)
    return shared_cloud


def test_the_compute_client_calls_every_method_that_is_served(stage):
    methods = {route.method for route in ROUTES.all if route.service == "compute"}
    ways = {method: way for method, *way in served(compute_v1)}
    assert methods == ways.keys()
    for service, name, uri, body in ways.values():
        request = {field: VALUES.get(field, "x") for field in re.findall(r"\{(\w+)", uri)}
        call(compute_v1, stage.url, service, name, request | ({body: {}} if body else {}))
    asked = {entry["method"] for entry in stage.requests(service="compute")}
    assert methods <= asked


def test_the_tpu_client_calls_every_method_that_is_served(stage):
    methods = {route.method for route in ROUTES.all if route.template.startswith("/v2/")}
    ways = {method: way for method, *way in served(tpu_v2)}
    assert methods == ways.keys()
    for service, name, uri, body in ways.values():
        field, pattern = re.search(r"\{([\w.]+)=([^}]+)\}", uri).groups()
        path = pattern.replace("projects/*", "projects/local-tests").replace("locations/*", "locations/us-central1-a")
        value = path.replace("*", "x")
        nested = {field: value}
        for part in reversed(field.split(".")[:-1]):
            nested = {part: {field.rpartition(".")[2]: value}}
        call(
            tpu_v2,
            stage.url,
            service,
            name,
            nested | ({body: nested.get(body, {})} if body not in (None, "*") else {}),
        )
    assert methods <= {entry["method"] for entry in stage.requests(service="tpu")}
