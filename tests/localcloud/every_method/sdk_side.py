"""Runs in gcloud's own Python: calls the generated clients that gcloud is made of, as told on standard input.

A line in: client, URL, method and request. A line out: the reply, and which of its fields the published message types
do not know; or the error. Knows nothing of the embedded cloud.
"""

import base64
import importlib
import io
import json
import sys

sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/third_party"]

import httplib2  # noqa: E402 (gcloud's own)
from apitools.base.protorpclite import messages  # noqa: E402
from apitools.base.py import encoding, exceptions, transfer  # noqa: E402


class Bearing(httplib2.Http):
    """Sends a token with every request, as gcloud does."""

    def request(self, uri, method="GET", body=None, headers=None, **options):
        """One request."""
        headers = {**(headers or {}), "Authorization": f"Bearer {sys.argv[2]}"}
        return super().request(uri, method, body, headers, **options)


def client(name, url):
    """The generated client `api/version`."""
    api, version = name.split("/")
    place = f"googlecloudsdk.generated_clients.apis.{api}.{version}.{api}_{version}_client"
    kinds = [value for value in vars(importlib.import_module(place)).values() if hasattr(value, "_CLIENT_CLASS_NAME")]
    return kinds[0](url=url, get_credentials=False, http=Bearing())


def unknown(message, where=""):
    """The fields, and the values of enumerations, that the message types do not know."""
    found = [where + name for name in message.all_unrecognized_fields()]
    for field in message.all_fields():
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, messages.Message):
                found += unknown(each, f"{where}{field.name}.")
    return found


def call(order):
    """What the client makes of one call."""
    spoken = client(order["client"], order["url"])
    service, name = order["method"].split(".")
    method = getattr(getattr(spoken, service), name)
    kind = getattr(spoken.MESSAGES_MODULE, method.method_config().request_type_name)
    request = encoding.DictToMessage(order["request"], kind)
    options = {}
    if "upload" in order:
        data = base64.b64decode(order["upload"])
        options["upload"] = transfer.Upload(io.BytesIO(data), "text/plain", total_size=len(data), auto_transfer=True)
        options["upload"].strategy = transfer.RESUMABLE_UPLOAD
    try:
        reply = method(request, **options)
    except exceptions.HttpError as error:
        return {"error": error.status_code, "text": error.content.decode()}
    return {"reply": encoding.MessageToPyValue(reply), "unknown": unknown(reply)}


for line in sys.stdin:
    print(json.dumps(call(json.loads(line))), flush=True)
