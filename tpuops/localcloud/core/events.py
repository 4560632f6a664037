"""What the core tells the machines to do, and what the machines tell the core: plain values, both ways.

The core never starts a process: it emits an `Event`, the server program carries it out with real machines (tests: with
none), and what happened there comes back as a `Notice`. This module knows neither side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """One machine to run: a worker of a TPU slice, or a Compute Engine instance.

    Attributes:
        id: `<node's numeric id>-<worker>` for a worker, `<instance's numeric id>` for an instance. The disk belongs to
            the id: a node created anew is another machine; stop and start keep id and disk.
        name: the node's or instance's name, `kind` is `tpu` or `vm`.
        address: the loopback address its sshd listens on, also shown as the resource's internal and external address.
        accelerator: e.g. `v3-8`; empty for an instance. `worker` counts from 0.
        devices: accelerator devices a program would see on this worker; 0 for an instance.
        metadata: the attributes as the metadata server gives them (`ssh-keys`, `startup-script`, ...).
        boot: 1 at the first start, one more at each further one.
        scopes: OAuth scopes of `service_account` on this machine.
    """

    id: str
    name: str
    kind: str
    project: str
    zone: str
    address: str
    hostname: str
    accelerator: str
    worker: int
    metadata: Mapping[str, str]
    boot: int
    service_account: str
    scopes: tuple[str, ...]
    devices: int = 0


@dataclass(frozen=True, slots=True)
class StartMachine:
    """Boot the machine; its disk is made at the first boot and found again at later ones."""

    machine: MachineSpec


@dataclass(frozen=True, slots=True)
class StopMachine:
    """Kill everything on the machine and close its sockets; the disk stays. Unknown ids are fine."""

    id: str


@dataclass(frozen=True, slots=True)
class DeleteMachine:
    """As `StopMachine`, and the disk goes too."""

    id: str


@dataclass(frozen=True, slots=True)
class Control:
    """An order to a running machine; ignored where it does not run. `order["order"]` names it:

    - `{"order": "metadata", "metadata": {...}}`: the attributes changed; login keys follow them.
    - `{"order": "watch", "fault_index": 1, "step": 80, "file": "**/train.log", "pattern": "step=(\\d+)"}`: report, as
      one `LogLine`, the first step >= `step` in any file matching the glob below the home folders. A later watch
      replaces an earlier one; a machine that boots is told again.
    - `{"order": "unwatch"}`: no step fault is pending any more.
    - `{"order": "kill", "match": "train.py"}`: SIGKILL the newest process whose command line contains it.
    - `{"order": "device_fault", "message": "..."}`: every program that loaded a device framework dies with that text on
      its standard error, now and at each start, until the machine is stopped and started.
    - `{"order": "ssh_drop", "for_s": 1.0}`: abort all SSH connections; refuse new ones for that long.
    - `hang`, `device_held`, `ssh_delay`, `key_delay`, `disk_full`, `slow_disk`, `slow_network`: the other deeds of
      script.py, with their fields; a process is named by `match`.

    Where `fault` is set, the answer comes back as `Answered`.
    """

    id: str
    order: Mapping[str, Any]
    fault: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Booted:
    """The machine's sshd answers. `host_keys` are `type base64` lines; `agent` is what the machine says of itself."""

    id: str
    host_keys: tuple[str, ...]
    agent: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Crashed:
    """The machine's first process ended without having been told to; `reason` is one line."""

    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """The watched progress reached `step`; `fault_index` is the one of the watch order."""

    id: str
    fault_index: int
    step: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What a machine answered to the order of the fault with that key."""

    id: str
    fault: str
    answer: Mapping[str, Any]


Event = StartMachine | StopMachine | DeleteMachine | Control
Notice = Booted | Crashed | LogLine | Answered
