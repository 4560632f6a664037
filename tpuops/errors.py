"""The error tree. Each class is named by what the reader does next, and carries its hint and its exit code.

    TpuopsError
    ├── EnvironmentFileError        edit the file                                     exit 2
    ├── AccessError                 a person repairs login, permission or keys        exit 3
    ├── CloudError                  what one API call answered                        exit 5
    │   ├── Transient               try again, bounded
    │   ├── NoCapacity              wait, or another zone                             exit 4
    │   ├── QuotaExceeded           ask for quota or use another zone; never retried  exit 4
    │   ├── Conflict                read again, decide again
    │   ├── NotFound                it is not there
    │   └── Refused                 never retried                                     exit 3
    ├── RemoteError                 a machine, over SSH
    │   ├── Unreachable             ask the API what became of it, then connect again exit 5
    │   └── CommandFailed           read the command's last lines                     exit 5
    ├── TrainingFailed              mend the training program                         exit 10
    ├── GaveUp                      read the history of recoveries                    exit 5
    ├── Busy                        someone else holds the lock, or a run lives       exit 7
    ├── LimitReached                the file's own limit ended it                     exit 8
    └── StillBilling                run the named commands: something may still cost  exit 6

No exception of a client library crosses `cloud/` or `remote/`: it is chained as the cause. A traceback on the screen
always means a bug in tpuops.
"""

from __future__ import annotations

from collections.abc import Sequence


class TpuopsError(Exception):
    """What happened and where, evidence, and the next command.

    Args:
        message: one line, what and where, without a full stop.
        evidence: last lines, status, operation id; shown indented.
        hint: the next command to type or the thing to change.
    """

    exit_code = 1

    def __init__(self, message: str, *, evidence: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.evidence = tuple(evidence)
        self.hint = hint


class EnvironmentFileError(TpuopsError):
    """The environment file is wrong; `evidence` holds every problem as `file:line: key.path: message`."""

    exit_code = 2


class AccessError(TpuopsError):
    """Credentials, permissions or keys that only a person can repair. `kind` is the class that doctor tells scripts."""

    exit_code = 3

    def __init__(self, message: str, *, evidence: Sequence[str] = (), hint: str = "", kind: str = "") -> None:
        super().__init__(message, evidence=evidence, hint=hint)
        self.kind = kind


class CloudError(TpuopsError):
    """One API call's answer.

    Args:
        method: service and verb, e.g. `tpu.nodes.create`.
        resource: the full resource name the call was about.
        status: HTTP status, or the canonical code of a failed operation.
        reason: ErrorInfo reason or the legacy JSON reason, empty where the service gave none.
    """

    exit_code = 5

    def __init__(
        self, message: str, *, method: str = "", resource: str = "", status: int = 0, reason: str = "", hint: str = ""
    ) -> None:
        evidence = [f"{method} {resource}".strip(), f"status {status} {reason}".strip()]
        super().__init__(message, evidence=[line for line in evidence if line], hint=hint)
        self.method, self.resource, self.status, self.reason = method, resource, status, reason


class Transient(CloudError):
    """A passing fault of the service or of the way to it; the same call may succeed later.

    `retry_after_s` is how long the service asked us to wait before that, 0 where it did not say.
    """

    retry_after_s = 0.0


class NoCapacity(CloudError):
    """Google has no machine to give now (stockout)."""

    exit_code = 4


class QuotaExceeded(CloudError):
    """The project's own limit; a retry cannot help."""

    exit_code = 4


class Conflict(CloudError):
    """A precondition failed, or the name is taken: read again before deciding."""


class NotFound(CloudError):
    """The resource is not there."""


class Refused(CloudError):
    """Forbidden or malformed; the same call will be refused again."""

    exit_code = 3


class RemoteError(TpuopsError):
    """Something that happened on, or on the way to, a machine."""

    exit_code = 5


class Unreachable(RemoteError):
    """No SSH connection, or it broke; says nothing of the training behind it."""


class CommandFailed(RemoteError):
    """A command ran on a machine and ended with a code other than 0."""

    def __init__(self, message: str, *, exit_status: int, evidence: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, evidence=evidence, hint=hint)
        self.exit_status = exit_status


class TrainingFailed(TpuopsError):
    """The training program itself is at fault; no retry can help."""

    exit_code = 10


class GaveUp(TpuopsError):
    """The recovery budget is spent."""

    exit_code = 5


class Busy(TpuopsError):
    """The lease is held by someone else (named), or the machine runs another run."""

    exit_code = 7


class LimitReached(TpuopsError):
    """The run reached `limits` of its own file."""

    exit_code = 8


class StillBilling(TpuopsError):
    """Something that should be gone may still bill, or outputs could not be saved. Outranks every other end."""

    exit_code = 6
