"""The environment file as frozen values: what may stand in it, and nothing that is ignored.

Attribute names are the file's keys. Values are strict (a number is never taken for a text), unknown keys are refused,
and every model is immutable; whoever needs a variation copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_serializer, field_validator, model_validator

from tpuops.environment import grants
from tpuops.environment.problems import Lines, Wrong
from tpuops.environment.recovery import Recovery
from tpuops.environment.values import (
    Argument,
    BucketName,
    Command,
    Duration,
    EnvName,
    LabelKey,
    LabelValue,
    MachineType,
    Network,
    OutputFolder,
    Pattern,
    Project,
    ResourceName,
    SecretFile,
    SecretVersion,
    ServiceAccount,
    SourceFolder,
    UserName,
    Zone,
    source_folder,
)
from tpuops.facts import catalogue, names

SHIPPED_PROJECT = "my-project"
"""What the files that come with tpuops name, until somebody puts their own project there."""

Provisioning = Literal["on-demand", "spot"]
Ending = Literal["delete", "keep"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Grant(_Section):
    """Free quota: `chips` of a generation (v4) or of one type (v3-8), in one zone."""

    type: str
    zone: Zone
    provisioning: Provisioning = "on-demand"
    chips: int = Field(ge=1, le=100_000)


class DataDisk(_Section):
    """A persistent disk that exists in the zone, attached to every worker; several workers can only read it."""

    name: ResourceName
    mode: Literal["read-only", "read-write"] = "read-only"


class Tpu(_Section):
    """The slice: its type, its software, and how it is paid for.

    `allow_paid` left out means: paid for where there are no grants, refused outside them where there are. The VM stands
    in the same `network` and `subnetwork`.
    """

    accelerator: str
    runtime: str
    provisioning: Provisioning = "on-demand"
    grants: tuple[Grant, ...] = ()
    allow_paid: bool | None = None
    network: Network = "default"
    subnetwork: Network | None = None
    service_account: ServiceAccount | None = None
    labels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict, max_length=32)
    disks: tuple[DataDisk, ...] = ()

    @property
    def spot(self) -> bool:
        """Whether Google may take it away at any time."""
        return self.provisioning == "spot"


class VmSection(_Section):
    """The machine beside the TPU; `disk_gb` is its boot disk (an image of Debian needs 10)."""

    machine_type: MachineType = "e2-small"
    disk_gb: int = Field(default=10, ge=10, le=65536)
    service_account: ServiceAccount | None = None
    labels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict, max_length=32)


class BucketSection(_Section):
    """The home bucket; without a name it gets one that is the same on every machine."""

    name: BucketName | None = None


class Ssh(_Section):
    """Who logs in and how machines are reached.

    `login`: by a key in the machines' metadata, or by OS Login, which gives the user its name. `reach`: at an address
    in the internet, from inside the network, or through Identity-Aware Proxy to machines without such an address.
    """

    user: UserName = "tpuops"
    login: Literal["metadata", "os-login"] = "metadata"
    reach: Literal["external", "internal", "iap"] = "external"


class Secret(_Section):
    """Where a secret is: an environment variable of whoever runs the command, a file there, or in Secret Manager.

    Also the last is read by whoever runs the command: the machines need no permission on it, and so have none.
    """

    env: EnvName | None = None
    file: SecretFile | None = None
    secret_manager: SecretVersion | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if [self.env, self.file, self.secret_manager].count(None) != 2:
            hint = "write {env: NAME}, {file: path} or {secret_manager: projects/P/secrets/S/versions/V}"
            raise Wrong("must say one place", hint)
        return self


class Stall(_Section):
    """How long nothing may happen in a program that lives, before it is ended and started again.

    `start`: nothing printed before the first step, or while it saves or evaluates. `train`: nothing between steps, or
    20 times its slowest step so far where that is longer.
    """

    start: Duration = timedelta(hours=1)
    train: Duration = timedelta(minutes=30)

    @field_validator("start", "train")
    @classmethod
    def _patient(cls, value: timedelta) -> timedelta:
        if not timedelta(seconds=5) <= value <= timedelta(days=7):
            raise Wrong("must lie between 5s and 7d")
        return value


class Train(_Section):
    """What runs on the workers. `progress` is an RE2 pattern whose one group is the step; `stall` None: never."""

    source: SourceFolder
    command: Command
    setup: tuple[Command, ...] = ()
    env: Mapping[EnvName, Argument] = Field(default_factory=dict)
    secrets: Mapping[EnvName, Secret] = Field(default_factory=dict)
    outputs: tuple[OutputFolder, ...] = ()
    progress: Pattern | None = None
    stall: Stall | None = Stall()

    @model_validator(mode="before")
    @classmethod
    def _patience(cls, values: Any) -> Any:
        """Without a word of the file, only a program whose steps can be told is ever taken for stalled."""
        told = not isinstance(values, Mapping) or "stall" in values or values.get("progress")
        return values if told else {**values, "stall": "none"}

    @field_validator("stall", mode="before")
    @classmethod
    def _none_is_a_word(cls, value: Any) -> Any:
        if value is None:
            raise Wrong("is empty", "write `stall: none` to let it be silent for ever, or `start` and `train` below it")
        return None if value == "none" else value

    @field_serializer("stall", when_used="json")
    def _none_is_written(self, value: Stall | None) -> Any:
        return "none" if value is None else value.model_dump(mode="json")


class Teardown(_Section):
    """What becomes of TPU and VM at each kind of end; the bucket always stays."""

    success: Ending = "delete"
    failure: Ending = "delete"
    interrupt: Ending = "keep"


class Limits(_Section):
    """The longest a run may take; Compute Engine takes absolute ends of at most 120 days (google-cloud.md 3.2.3).

    `abandoned`: how long machines outlive a controller that was killed or cut off.
    """

    runtime: Duration = timedelta(days=7)
    abandoned: Duration = timedelta(minutes=15)

    @field_validator("runtime")
    @classmethod
    def _bounded(cls, value: timedelta) -> timedelta:
        if not timedelta(minutes=1) <= value <= timedelta(days=119):
            raise Wrong("must lie between 1m and 119d")
        return value

    @field_validator("abandoned")
    @classmethod
    def _seen_in_time(cls, value: timedelta) -> timedelta:
        if not timedelta(seconds=12) <= value <= timedelta(days=1):
            raise Wrong("must lie between 12s and 1d")
        return value


class Rehearsal(_Section):
    """What differs on one's own machine: absent keys mean as in `train`; `env` is laid over `train.env`.

    `network: none` leaves machines nothing to reach but the embedded cloud.
    """

    setup: tuple[Command, ...] | None = None
    command: Command | None = None
    env: Mapping[EnvName, Argument] = Field(default_factory=dict)
    devices: int | None = Field(default=None, ge=1, le=64)
    network: Literal["none"] | None = None


class Environment(_Section):
    """One environment. `path` is the file it came from: its stem is the name, its folder the base of relative paths."""

    version: Literal[1]
    cloud: Literal["google", "local"] = "google"
    project: Project
    zone: Zone
    owner: Literal["user", "team"] = "user"
    tpu: Tpu
    vm: VmSection | None = None
    bucket: BucketSection = BucketSection()
    ssh: Ssh = Ssh()
    train: Train
    recovery: Recovery = Recovery()
    teardown: Teardown = Teardown()
    limits: Limits = Limits()
    rehearsal: Rehearsal = Rehearsal()

    _path: Path = PrivateAttr(default=Path())
    _lines: Lines = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Remember the file given as validation context, and the line of each of its keys."""
        if isinstance(context, dict) and isinstance(context.get("path"), Path):
            self._path, self._lines = context["path"], context.get("lines", {})

    @field_validator("vm", mode="before")
    @classmethod
    def _none_is_a_word(cls, value: Any) -> Any:
        if value is None:
            raise Wrong("is empty", "write `vm: none` for no machine beside the TPU, or its keys below it")
        return None if value == "none" else value

    @field_serializer("vm", when_used="json")
    def _none_is_written(self, value: VmSection | None) -> Any:
        return "none" if value is None else value.model_dump(mode="json")

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return self._path

    @property
    def lines(self) -> Lines:
        """The line of each key in the file, so that what shows later can still name it."""
        return self._lines

    @property
    def name(self) -> str:
        """The environment's name: the file's, without its ending."""
        return self._path.stem

    @property
    def slug(self) -> str:
        """The name as resource names and labels carry it."""
        return names.environment_slug(self.name)

    @property
    def region(self) -> str:
        """The region of the zone."""
        return catalogue.region_of(self.zone)

    @property
    def granted(self) -> bool:
        """Whether one of the grants pays for the slice."""
        known = catalogue.accelerator(self.tpu.accelerator)
        return known is not None and any(
            grants.covers(grant.model_dump(), known, self.zone, self.tpu.provisioning) for grant in self.tpu.grants
        )

    @property
    def source_folder(self) -> Path:
        """The folder to sync, absolute."""
        return source_folder(self._path, self.train.source)

    @property
    def is_example(self) -> bool:
        """Whether it is for Google and its project is still the one of the shipped files, which is nobody's here."""
        return self.cloud == "google" and self.project == SHIPPED_PROJECT

    def on_embedded_cloud(self) -> Environment:
        """The same environment with `cloud: local` and a project that can be nobody's."""
        project = self.project if self.project.startswith("local-") else f"local-{self.project}"[:30].rstrip("-")
        return self.model_copy(update={"cloud": "local", "project": project})
