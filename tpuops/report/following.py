"""What to type next, by what a command found: pairs of a command and what it does. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Typed = Callable[..., str]
"""A verb and flags to a whole command line on the same environment."""
Steps = list[tuple[str, str]]


def after_plan(document: Mapping[str, Any], typed: Typed) -> Steps:
    """Carry it out, or train on what stands."""
    if any(row["verb"] != "keep" for row in document["changes"]):
        return [(typed("up"), "carries it out")]
    return [(typed("train"), "trains on it")]


def after_up(typed: Typed) -> Steps:
    """Train, or remove."""
    return [(typed("train"), "trains on it"), (typed("down"), "removes it")]


def after_run(document: Mapping[str, Any], typed: Typed) -> Steps:
    """See what came of it; remove what stays."""
    if (left := document.get("left")) is not None:
        return [
            (typed("status"), "shows whether it goes on, and how it ended"),
            (typed("logs", "--follow"), "shows its log"),
            (left["back"], "joins and supervises it again"),
            (typed("stop"), "ends it, with its outputs saved"),
        ]
    steps: Steps = []
    if document["exit_code"] not in {0, 6}:
        steps.append((typed("logs"), "shows what it said"))
    if document.get("saved"):
        steps.append((typed("fetch"), "brings outputs and logs home"))
    if any(thing["kind"] != "bucket" for thing in document.get("kept", ())):
        steps.append((typed("down"), "removes the machines"))
    return steps


def after_rehearsal(document: Mapping[str, Any], typed: Typed) -> Steps:
    """The same for real, once everything it needs is there; a rehearsal that failed is looked at first."""
    if document["exit_code"]:
        return [(typed("rehearse", "--verbose"), "shows the training's log as well")]
    return [
        (typed("doctor"), "checks what the real run needs: login, project, quota"),
        (typed("run"), "does the same for real"),
    ]


def after_status(document: Mapping[str, Any], typed: Typed) -> Steps:
    """By what stands and what runs."""
    run, states = document["run"], {row["role"]: row["state"] for row in document["resources"]}
    if run is not None and run["state"] == "running":
        if document["supervised"]:
            return [(typed("logs", "--follow"), "shows its log"), (typed("stop"), "ends it")]
        return [
            (typed("logs", "--follow"), "shows its log"),
            (typed("train"), "supervises it again"),
            (typed("stop"), "ends it"),
        ]
    if run is not None and run["state"] == "ended" and not document["supervised"]:
        return [(typed("run"), "brings it to its end"), (typed("fetch"), "brings its outputs home")]
    if states["node"] == "absent":
        return [(typed("up"), "provisions it")]
    if document["supervised"]:
        return []
    done = [(typed("fetch"), "brings the last run's outputs home")] if run is not None else []
    return [(typed("train"), "trains on it"), *done, (typed("down"), "removes it")]


def after_status_all(cloud: str) -> Steps:
    """Look closer at one."""
    flags = f" --cloud {cloud}" if cloud else ""
    return [(f"tpuops status --env NAME{flags}", "shows one of them whole")]


def after_down(document: Mapping[str, Any], typed: Typed) -> Steps:
    """Everything is gone: it can be made again."""
    return [(typed("up"), "provisions it again" if document["removed"] else "provisions it")]


def after_logs(document: Mapping[str, Any], typed: Typed) -> Steps:
    """Go on watching, or bring it home."""
    if document["alive"]:
        return [(typed("logs", "--follow"), "goes on as it grows"), (typed("attach"), "joins its tmux session")]
    if document["source"] == "bucket":
        return [(typed("fetch"), "brings saved outputs and logs home")]
    return [(typed("status"), "shows what the run does now")]


def after_stop(document: Mapping[str, Any], typed: Typed) -> Steps:
    """Bring the results home, remove the machines."""
    if not document["run_id"]:
        return [(typed("status"), "shows what stands")]
    steps: Steps = []
    if document["saved"]:
        steps.append((typed("fetch"), "brings outputs and logs home"))
    if any(thing["kind"] != "bucket" for thing in document["kept"]):
        steps.append((typed("down"), "removes the machines"))
    return steps


def after_fetch(document: Mapping[str, Any], typed: Typed) -> Steps:
    """An open run goes on; a closed one may leave machines."""
    if document["open"]:
        return [(typed("logs", "--follow"), "shows how it goes on: the run is still open")]
    return [(typed("status"), "shows what still stands")]


def after_list() -> Steps:
    """Look closer at one, or see what it would make."""
    return [
        ("tpuops env.show --env NAME", "shows one with every default filled in"),
        ("tpuops plan --env NAME", "shows what it would make, and its price"),
    ]


def after_right(typed: Typed) -> Steps:
    """The file is right: see what it would make, or rehearse it."""
    return [
        (typed("plan"), "shows what it would make, and its price"),
        (typed("rehearse"), "runs it whole on this machine, for nothing"),
    ]


def after_schema() -> Steps:
    """How an editor comes to know it."""
    return [
        ("tpuops env.schema > environments/schema.json", "keeps it beside the files, whose first line then is"),
        ("# yaml-language-server: $schema=schema.json", ""),
    ]


def after_cloud_start() -> Steps:
    """Use it, with tpuops or with gcloud; stop it."""
    return [
        ("tpuops up --env NAME --cloud local", "provisions an environment on it"),
        ('eval "$(tpuops cloud.env)"', "sends gcloud in this shell to it"),
        ("tpuops cloud.stop", "stops it; what it holds stays"),
    ]


def after_cloud_stop() -> Steps:
    """Start it again, or forget what it holds."""
    return [("tpuops cloud.start", "starts it"), ("tpuops cloud.reset", "forgets everything on it")]


def after_cloud_env(*, evaluated: bool) -> Steps:
    """On a terminal the lines were only shown; inside `eval` they hold now."""
    if not evaluated:
        return [('eval "$(tpuops cloud.env)"', "makes these lines hold in this shell")]
    return [("gcloud compute tpus tpu-vm list --zone=us-central1-a", "asks the embedded cloud now")]
