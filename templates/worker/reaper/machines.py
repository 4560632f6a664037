"""The machines of the environment: which there are, whether they are ours, and their deletion."""

import time

import api
import switch

GONE_S = 600


def node_of(google, orders):
    """The TPU: [(url to read, url to delete, labels of what is read)]: queued resource and node, whichever is there."""
    at = orders["node"]
    place = "%sprojects/%s/locations/%s/" % (google.tpu, at["project"], at["zone"])
    own = place + "nodes/" + at["name"]
    status, node = google.ask("GET", own)
    queue = node.get("queuedResource", "") if status == 200 else ""
    queue = google.tpu + queue if queue else place + "queuedResources/" + at["name"]
    found = [(queue, queue + "?force=true", labels_of_queue)]
    return [*found, (own, own, labels_of)]


def vm_of(google, orders):
    """The VM, as `node_of`; nothing where the environment has none."""
    if not orders["vm"]:
        return []
    at = orders["vm"]
    own = "%sprojects/%s/zones/%s/instances/%s" % (google.compute, at["project"], at["zone"], at["name"])
    return [(own, own, labels_of)]


def labels_of(document):
    """The labels of a node or an instance."""
    return document.get("labels") or {}


def labels_of_queue(document):
    """The labels that a queued resource gives its node."""
    specs = (document.get("tpu") or {}).get("nodeSpec") or [{}]
    return (specs[0].get("node") or {}).get("labels") or {}


def remove(google, orders, fence, targets):
    """Delete each target that is there and carries our labels, and see it go. Raises `Failed`, `Lost`."""
    for read, delete, labels in targets:
        status, found = google.ask("GET", read)
        if status == 404:
            continue
        if not isinstance(found, dict) or "name" not in found:
            raise api.Failed("%s: the answer shows no machine" % read)
        if not is_ours(orders, labels(found)):
            api.say("%s is not ours and stays" % read)
            continue
        if not fence.renew():  # the looks before it may have been slow
            raise switch.Lost()
        google.ask("DELETE", delete)
        api.say("deleting %s" % read)
        gone(google, orders, fence, read)


def is_ours(orders, labels):
    """Whether these are the labels of this environment."""
    return bool(orders["labels"]) and all(labels.get(key) == value for key, value in orders["labels"].items())


def gone(google, orders, fence, read):
    """Wait until it is not there any more; the fence is kept meanwhile. Raises `Failed`, `Lost`."""
    began = time.monotonic()
    while time.monotonic() - began < GONE_S:
        time.sleep(min(orders["look_s"], 5))
        if google.ask("GET", read)[0] == 404:
            return
        if not fence.renew():
            raise switch.Lost()
    raise api.Failed("%s is still there after its deletion" % read)


def is_queued(google, orders):
    """Whether the TPU came from a queued resource; None where that cannot be told."""
    at = orders["node"]
    try:
        url = "%sprojects/%s/locations/%s/nodes/%s" % (google.tpu, at["project"], at["zone"], at["name"])
        status, node = google.ask("GET", url)
    except api.Failed:
        return None
    return status == 200 and bool(node.get("queuedResource"))
