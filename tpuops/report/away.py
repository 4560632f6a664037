"""What goes on after a person left a command in the middle of it, and how to come back. Pure."""

from __future__ import annotations

from tpuops.report.following import Steps, Typed


def watching() -> str:
    """`status --watch` only looks."""
    return "only the watching ended; what stands, and a run on it, goes on"


def provisioning() -> str:
    """`up`: the cloud finishes what it was told to make."""
    return "interrupted; what was begun goes on in the cloud, and bills until it is removed"


def removing() -> str:
    """`down`: a removal that was begun is finished; before that, all stays."""
    return "interrupted; what was not removed by now stays, and bills"


def stopping() -> str:
    """`stop`: the order may be out already."""
    return "interrupted; an order to end that was given stands, and may not be carried out yet"


def fetching() -> str:
    """`fetch`: a file is there whole or not at all."""
    return "interrupted; every file that came is whole"


def logs(typed: Typed) -> Steps:
    """Back to the log, or to what else can be done about the run."""
    return [
        (typed("logs", "--follow"), "goes on following"),
        (typed("status"), "shows what the run does"),
        (typed("stop"), "ends it"),
    ]


def up(typed: Typed) -> Steps:
    """Finish it, or take it back."""
    return [(typed("up"), "finishes it"), (typed("down"), "removes what was made")]


def down(typed: Typed) -> Steps:
    """Finish it, or look."""
    return [(typed("down"), "finishes it"), (typed("status"), "shows what stands")]


def stop(typed: Typed) -> Steps:
    """Finish it, or look."""
    return [(typed("stop"), "finishes it"), (typed("status"), "shows what the run does")]


def fetch(typed: Typed) -> Steps:
    """Bring the rest."""
    return [(typed("fetch"), "brings the rest")]
