"""The joints of diagnosis: evidence in, verdict out, decision out. Plain values, no behaviour beyond their own fields.

Classes and actions are those of the failure taxonomy and are stable names that scripts rely on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Action(StrEnum):
    """What the taxonomy says to do about a class."""

    NONE = "none"
    RETRY_IN_PLACE = "retry_in_place"
    WAIT_AND_RETRY = "wait_and_retry"
    STOP_START = "stop_start_tpu"
    RECREATE = "recreate_tpu"
    OTHER_ZONE = "recreate_in_other_zone"
    FIX_CREDENTIALS = "fix_credentials"
    FIX_SSH_KEYS = "fix_ssh_keys"
    FIX_CONFIG = "fix_config"
    FIX_CODE = "fix_code_or_model"
    REDUCE_MEMORY = "reduce_memory"
    GROW_HOST_MEMORY = "grow_host_memory"
    FREE_DISK = "free_disk"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run stands on, as far as a remedy depends on it."""

    workers: int = 1
    spot: bool = False
    queued: bool = False

    @property
    def can_stop(self) -> bool:
        """Whether stop/start is possible (facts: google-cloud.md 1.4)."""
        return self.workers == 1 and not self.spot and not self.queued


@dataclass(frozen=True, slots=True)
class WorkerEvidence:
    """One worker's side of an attempt that ended: its log's tail, and how its process ended if that is known."""

    worker: int = 0
    log: bytes = b""
    exit_code: int | None = None
    signal: int = 0
    reachable: bool = True
    rebooted: bool = False
    kernel_log: bytes | None = None
    devices: int | None = None


@dataclass(frozen=True, slots=True)
class ApiError:
    """One refused call: `reason` is ErrorInfo's (or the legacy JSON reason), which beats `message` (5.7, 5.8)."""

    status: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known of one attempt's end. State and health are the API's words, empty where it was not asked.

    `node_missing` means that the API said NOT_FOUND, or showed another id under the name. `silence_s` is how long
    nothing advanced in a process that lives, `phase` what it was doing (start, compile, restore, train, checkpoint);
    `symptoms`, `queued_state` and `vm_events` are the API's words (google-cloud.md 2.2, 2.6; Compute system events).
    `progress` is the environment's own pattern of progress lines, beside the forms that are known, and `signatures` are
    its own signature files, as name and content.
    """

    workers: tuple[WorkerEvidence, ...]
    node_state: str = ""
    node_health: str = ""
    node_missing: bool = False
    interrupted: bool = False
    silence_s: float | None = None
    phase: str = ""
    symptoms: tuple[str, ...] = ()
    queued_state: str = ""
    vm_events: tuple[str, ...] = ()
    api_errors: tuple[ApiError, ...] = ()
    progress: str = ""
    signatures: tuple[tuple[str, str], ...] = ()


class Basis(StrEnum):
    """What a verdict rests on. Only STATE and DEVICE corroborate a deletion by themselves; a log never does."""

    LOG = "log"
    EXIT = "exit"
    STATE = "state"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Echo:
    """A louder or later message that the cause explains."""

    failure_class: str
    line: str
    line_number: int
    worker: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened. `line_number` is 1-based, 0 where no line decided it; `confidence` is high, medium or low.

    `refinement` tells apart what the class does not, e.g. `process_killed` (SIGKILL from outside, no sign of memory
    exhaustion) within `native_crash`; budgets may name it. `signature` is the id that decided, `file` the log's name.
    """

    failure_class: str
    action: Action
    decisive_line: str = ""
    line_number: int = 0
    worker: int = 0
    confidence: str = "high"
    advice: str = ""
    refinement: str = ""
    basis: Basis = Basis.LOG
    signature: str = ""
    file: str = ""
    echoes: tuple[Echo, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """One earlier failure of this run: its class, what was done, the training step reached before it, and when (seconds
    since the epoch; 0 where nobody noted it)."""

    failure_class: str
    action: Action
    step: int
    at: float = 0.0


class Move(StrEnum):
    """What the one place that executes can do."""

    FINISH = "finish"
    RESTART = "restart"
    STOP_START = "stop_start"
    RECREATE = "recreate"
    RECONNECT = "reconnect"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next and why; `after_s` is a wait before doing it, `budget` the cause it is charged to."""

    move: Move
    reason: str
    after_s: float = 0.0
    budget: str = ""


@dataclass(frozen=True, slots=True)
class Budgets:
    """How many recoveries each cause may take without progress in between; progress refills all of them.

    `overrides` is the environment's word for single classes: `give_up` never retries the class, `restart` never goes
    beyond a restart in place, and is the only way to have an `unknown` end restarted. What only a person can mend
    stays refused whatever it says.
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    default: int = 3
    overrides: Mapping[str, Move] = field(default_factory=dict)
