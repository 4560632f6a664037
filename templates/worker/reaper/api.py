"""The machine's way to its metadata and to Google's APIs, over their plain JSON forms. Decides nothing."""

import calendar
import contextlib
import email.utils
import http.client
import json
import os
import time
import urllib.error
import urllib.request

TIMEOUT_S = 20


class Failed(Exception):
    """A request without an answer that could be acted on."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect to another host."""

    def redirect_request(self, *args, **kwargs):
        """Follow none."""


class Google:
    """The machine's way to its metadata and to Google's APIs. Every request is made once: whoever asks comes back.

    The variables that redirect Google's own clients redirect this too; `when` is the server's time, of the last answer.
    """

    def __init__(self):
        set_to = os.environ.get
        self.metadata_host = set_to("GCE_METADATA_HOST") or "metadata.google.internal"
        self.storage = (set_to("STORAGE_EMULATOR_HOST") or "https://storage.googleapis.com").rstrip("/")
        self.tpu = (set_to("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU") or "https://tpu.googleapis.com/") + "v2/"
        self.compute = set_to("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE") or "https://compute.googleapis.com/compute/v1/"
        self.direct = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}))
        self.opener = urllib.request.build_opener(NoRedirect)
        if "127.0.0.1" in self.storage:
            self.opener = self.direct
        self.when = None

    def metadata(self, path):
        """One value of the metadata server, None where it has none. Raises `Failed`."""
        url = "http://%s/computeMetadata/v1/%s" % (self.metadata_host, path)
        request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        status, _, body = self._opened(self.direct, request)
        if status not in (200, 404):
            raise Failed("metadata %s: %d" % (path, status))
        return body.decode("utf-8") if status == 200 else None

    def ask(self, verb, url, body=None):
        """(status, document) of one call; 404 and 412 are answers. Raises `Failed` for everything else."""
        token = self.metadata("instance/service-accounts/default/token")
        if token is None:
            raise Failed("this machine has no service account")
        headers = {"Authorization": "Bearer " + json.loads(token)["access_token"]}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, body, headers, method=verb)
        status, date, text = self._opened(self.opener, request)
        self.when = seconds(date) if date else None
        if status not in (200, 204, 404, 412):
            raise Failed("%s %s: %d %s" % (verb, url.partition("?")[0], status, text[:300]))
        try:
            return status, json.loads(text or b"{}")
        except ValueError:
            return status, {}

    def _opened(self, opener, request):
        try:
            with opener.open(request, timeout=TIMEOUT_S) as reply:
                return reply.status, reply.headers.get("Date"), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("Date"), error.read(2000)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed("%s: %s" % (request.full_url.partition("?")[0], error)) from None


def seconds(text):
    """A server's time as epoch seconds: RFC 3339 as objects carry it, or a Date header. None where it is neither."""
    try:
        if text[:4].isdigit():
            whole, _, rest = text.rstrip("Z").partition(".")
            return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + (rest or "0"))
        parsed = email.utils.parsedate_tz(text)
        return None if parsed is None else float(email.utils.mktime_tz(parsed))
    except (ValueError, TypeError, OverflowError):
        return None


def say(words):
    """One line for the log; a full disk must not keep the machine."""
    line = "%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), words)
    with contextlib.suppress(OSError):
        os.write(1, line.encode("utf-8", "replace"))
