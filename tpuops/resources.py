"""What should stand and what does stand, as plain frozen values.

Every stage speaks these nouns. Google's message types never enter here (the TPU API is in maintenance mode; a second
backend must stay possible), and nothing here asks or changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

LABEL_MANAGED = "tpuops"
LABEL_ENVIRONMENT = "tpuops-env"
LABEL_OWNER = "tpuops-owner"

CLOSED_NETWORK = "rehearsal-network"
"""Metadata: `none` on a machine of the embedded cloud that reaches nothing else."""
METADATA_BUCKET = "tpuops-bucket"
"""On a node: the home bucket it was made for, where its run is on record."""

LOST_STATES = frozenset({"PREEMPTED", "TERMINATED"})
"""Node states that only deletion leaves (facts: google-cloud.md 2.2)."""

TRANSITIONAL_STATES = frozenset(
    {"CREATING", "STARTING", "STOPPING", "RESTARTING", "REIMAGING", "REPAIRING", "DELETING"}
)


@dataclass(frozen=True, slots=True)
class Place:
    """A project and a zone in it."""

    project: str
    zone: str

    @property
    def region(self) -> str:
        """The zone's region: everything before its last dash, which also holds for AI zones such as us-south1-ai1b."""
        return self.zone.rsplit("-", 1)[0]


@dataclass(frozen=True, slots=True)
class Owned:
    """The labels that make a resource ours; values are legal label values."""

    environment: str
    owner: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels every resource of this environment carries."""
        return {LABEL_MANAGED: "v1", LABEL_ENVIRONMENT: self.environment, LABEL_OWNER: self.owner}

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Whether a resource with these labels belongs to this environment and owner."""
        return all(labels.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class Link:
    """How a machine is in the network. `network` and `subnetwork` are full names or plain ones, empty where the service
    chooses; `external` says whether it has an address in the internet."""

    network: str = "default"
    subnetwork: str = ""
    external: bool = True


@dataclass(frozen=True, slots=True)
class Disk:
    """A persistent disk that is there already, to attach to every worker."""

    name: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A TPU slice to create: `metadata` travels to every worker, `spot` may be taken away at any time.

    `granted`: free quota pays for it. An empty `service_account` means the project's default one.
    """

    name: str
    place: Place
    accelerator: str
    runtime: str
    spot: bool
    labels: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    link: Link = Link()
    service_account: str = ""
    disks: tuple[Disk, ...] = ()
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """One TPU VM of a slice; `external_ip` is empty where the file asks for internal addresses."""

    index: int
    internal_ip: str
    external_ip: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What the service noticed about a worker, in the API's word, and when (google-cloud.md 2.2)."""

    kind: str
    worker: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Node:
    """A TPU slice as the API shows it. `id` changes when a node is created anew under the same name.

    `link` and `disks` are None where the API did not say.
    """

    name: str
    place: Place
    id: str
    state: str
    health: str
    accelerator: str
    runtime: str
    spot: bool
    labels: Mapping[str, str]
    workers: tuple[Worker, ...]
    created: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    queued_resource: str = ""
    link: Link | None = None
    service_account: str = ""
    disks: tuple[Disk, ...] | None = None
    symptoms: tuple[Symptom, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the API calls the node usable."""
        return self.state == "READY"

    @property
    def is_lost(self) -> bool:
        """Whether nothing but deletion is left to do with it."""
        return self.state in LOST_STATES


@dataclass(frozen=True, slots=True)
class VmSpec:
    """The Compute Engine machine beside the TPU. `terminate_at` is the absolute end the service itself enforces."""

    name: str
    place: Place
    machine_type: str
    image: str
    disk_gb: int
    labels: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    link: Link = Link()
    service_account: str = ""
    terminate_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Vm:
    """The machine beside the TPU as the API shows it (RUNNING, TERMINATED, ...); `link` None: it did not say.

    `fingerprint` is the metadata's and `label_fingerprint` the labels': a change of them must name it.
    """

    name: str
    place: Place
    id: str
    state: str
    machine_type: str
    labels: Mapping[str, str]
    internal_ip: str = ""
    external_ip: str = ""
    created: datetime | None = None
    link: Link | None = None
    service_account: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    label_fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """The home bucket: adopted or created, never deleted by tpuops."""

    name: str
    project: str
    location: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as the API shows it. `location` is lower case; `project_number` tells whose it is.

    `regions`: those that a dual-region of the user's own choice names.
    """

    name: str
    location: str
    project_number: str
    labels: Mapping[str, str]
    created: datetime | None = None
    regions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota of the project as the API shows it, in one zone or region; `usage` None: it does not say what is used."""

    id: str
    place: str
    limit: int
    usage: int | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """Slices that take quota without being a node: what a queued resource asked for, whatever became of it."""

    name: str
    place: Place
    accelerator: str
    spot: bool
    slices: int
    state: str


@dataclass(frozen=True, slots=True)
class Desired:
    """What the environment file asks for. `spare_vm`: where a machine would stand that it does not ask for."""

    owned: Owned
    node: NodeSpec
    vm: VmSpec | None
    bucket: BucketSpec
    spare_vm: tuple[Place, str] | None = None

    @property
    def vm_at(self) -> tuple[Place, str] | None:
        """Place and name of the machine beside the TPU, whether or not it is asked for."""
        return self.spare_vm if self.vm is None else (self.vm.place, self.vm.name)


@dataclass(frozen=True, slots=True)
class Observed:
    """What stands under the names of `Desired`, whoever owns it. `None` means the API said: not there."""

    node: Node | None
    vm: Vm | None
    bucket: Bucket | None
    project_number: str = ""
