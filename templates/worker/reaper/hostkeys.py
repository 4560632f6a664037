"""The machine's public host keys and its name as an instance, as one object in the home bucket.

For where nobody may read its guest attributes.

Written at every boot with the machine's own identity, tried until it succeeds, and again where the keys change soon
after (an image may make them late). The object says whose keys it holds; when it was written is the bucket's to say.
Whoever may write to the bucket could put other keys there. Secret halves are never opened.
"""

import glob
import json
import os
import time
import urllib.parse

import api

FILES = "/etc/ssh/ssh_host_*_key.pub"
KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-")
LOOK_S = 2
SETTLED_S = 300
LONGEST_S = 30


def publish(google, orders, files=FILES, settled_s=SETTLED_S):
    """Write what the files hold, and again whenever that changes, until it has long stayed the same."""
    told, since, pause_s = [], time.monotonic(), LOOK_S
    while time.monotonic() - since < settled_s or not told:
        keys = found(files)
        if keys and keys != told:
            try:
                write(google, orders, keys)
                told, since, pause_s = keys, time.monotonic(), LOOK_S
            except (api.Failed, KeyError, ValueError) as error:
                api.say("host keys later again: %s" % error)
                pause_s = min(LONGEST_S, 2 * pause_s)
        time.sleep(pause_s)


def found(files):
    """The public keys in the files as `type base64`, without their comments."""
    keys = []
    for path in sorted(glob.glob(files)):
        try:
            with open(path, encoding="ascii") as file:
                words = file.readline().split()
        except (OSError, ValueError):
            continue
        if len(words) >= 2 and words[0].startswith(KINDS):
            keys.append(" ".join(words[:2]))
    return keys


def write(google, orders, keys):
    """Over whatever is there. Raises `Failed`."""
    worker = int((google.metadata("instance/attributes/agent-worker-number") or "0").strip())
    name = orders[orders["role"]]["name"]
    if orders["role"] == "node":
        name = "%s-%d" % (name, worker)
    document = {
        "name": name,
        "instance": google.metadata("instance/id") or "",
        "hostname": (google.metadata("instance/hostname") or "").partition(".")[0],  # what IAP knows a TPU's worker by
        "keys": keys,
    }
    where = "%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s" % (
        google.storage,
        urllib.parse.quote(orders["bucket"], safe=""),
        urllib.parse.quote("%s%s.json" % (orders["host_keys"], name), safe=""),
    )
    status, _ = google.ask("POST", where, json.dumps(document, sort_keys=True).encode())
    if status != 200:
        raise api.Failed("%s: %d" % (orders["bucket"], status))
    api.say("host keys are in the bucket as %s" % os.path.basename(name))
