"""The embedded cloud on this machine: start, look, redirect, stop."""

from __future__ import annotations

from typing import Any

from tpuops.tasks.task import Answer, Invocation, task


@task("json")
async def start(asked: Invocation) -> Answer:
    """Start the embedded cloud, or find the running one."""
    from tpuops import embedded
    from tpuops.report import following

    stage = await embedded.ensure(embedded.folder())
    text = f"{stage.url} (process {stage.pid}, SSH port {stage.ssh_port})"
    return Answer(_described(stage), text, following.after_cloud_start())


@task("json")
async def stop(asked: Invocation) -> Answer:
    """Stop the embedded cloud and its machines; what it holds stays."""
    from tpuops import embedded
    from tpuops.report import following

    stopped = await embedded.stop(embedded.folder())
    text = "stopped; what it holds stays" if stopped else "nothing to stop"
    return Answer({"stopped": stopped}, text, following.after_cloud_stop())


@task("json")
def status(asked: Invocation) -> Answer:
    """Show whether the embedded cloud runs, and what stands on it."""
    from tpuops import embedded
    from tpuops.report import following

    stage = embedded.status(embedded.folder())
    if stage is None:
        document = {"running": False, "state": str(embedded.folder())}
        return Answer(document, "not running", following.after_cloud_stop())
    standing = embedded.ask(stage, "GET", "/_cloud/status")
    lines = [f"{stage.url} (process {stage.pid}, SSH port {stage.ssh_port})"]
    lines += [f"  {kind}: {_short(standing[kind])}" for kind in ("nodes", "instances", "buckets") if kind in standing]
    return Answer({**_described(stage), "standing": standing}, "\n".join(lines), following.after_cloud_start())


@task("json")
async def reset(asked: Invocation) -> Answer:
    """Stop the embedded cloud and forget everything on it."""
    from tpuops import embedded
    from tpuops.report import following

    forgotten = await embedded.reset(embedded.folder())
    text = "stopped, and everything on it is forgotten" if forgotten else "nothing to forget"
    return Answer({"reset": forgotten}, text, following.after_cloud_stop()[:1])


@task("json", help={"project": "the project's name on the embedded cloud; must begin with local-"})
async def env(asked: Invocation, project: str = "local-tpuops") -> Answer:
    """Print the export lines that send gcloud to the embedded cloud: eval "$(tpuops cloud.env)"."""
    from tpuops import embedded, redirect
    from tpuops.report import following
    from tpuops.tasks.task import UsageError

    if not project.startswith("local-"):
        raise UsageError(f"--project {project}: a project on the embedded cloud is called local-...")
    state = embedded.folder()
    stage = await embedded.ensure(state)
    redirect.write_token(stage.url, state)
    set_to = redirect.variables(stage.url, state, project)
    steps = following.after_cloud_env(evaluated=not asked.console.shows_data)
    return Answer({"set": set_to, "unset": list(redirect.UNSET)}, redirect.exports(stage.url, state, project), steps)


def _described(stage: Any) -> dict[str, Any]:
    return {"running": True, "url": stage.url, "ssh_port": stage.ssh_port, "pid": stage.pid}


def _short(things: Any) -> str:
    """A number, or the names of what is there."""
    if not isinstance(things, list):
        return str(things)
    return ", ".join(str(each.get("name", each) if isinstance(each, dict) else each) for each in things) or "none"
