"""Hosts: each has a login key that no other host ever sees, and machines let in whose key their metadata lists."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime

from tests.simulation.lives import Life, LifeClock
from tests.simulation.net import Net
from tpuops.desired import desired
from tpuops.environment import Environment
from tpuops.facts.entries import KEYS, of_key
from tpuops.localcloud.core.events import MachineSpec
from tpuops.resources import Desired


def key_of(host: str) -> str:
    """The public part of a host's login key."""
    return f"ssh-ed25519 {base64.b64encode(host.encode()).decode()}"


def wanted_on(host: str, environment: Environment) -> Desired:
    """What a controller on this host desires."""
    key, now = f"{key_of(host)} {host}", LifeClock(Life("", 0)).now()
    return _lighter(desired(environment, owner="ada", public_key=key, now=now))


def _lighter(wanted: Desired) -> Desired:
    """The same without the scripts of the machines, which nobody plays: they would only be copied with every answer."""
    node, vm = wanted.node, wanted.vm
    node = replace(node, metadata={**node.metadata, "startup-script": "#!/bin/sh"})
    vm = None if vm is None else replace(vm, metadata={**vm.metadata, "startup-script": "#!/bin/sh"})
    return replace(wanted, node=node, vm=vm)


def opens(public: str, user: str, spec: MachineSpec, net: Net) -> bool:
    """Whether the metadata of a worker's node, as it is now, lets this key in under that name."""
    node = net.core.world.get("tpu.node", f"projects/{spec.project}/locations/{spec.zone}/nodes/{spec.name}")
    listed = "" if node is None else node["shown"].get("metadata", {}).get(KEYS, "")
    now = datetime.fromtimestamp(net.now(), UTC)
    return any(entry.user == user and entry.opens(now) for entry in of_key(listed, public))
