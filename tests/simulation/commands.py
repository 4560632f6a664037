"""The commands as a simulated controller gives them, each with its end in one shape."""

from __future__ import annotations

from dataclasses import asdict

from tests.simulation.history import Ended
from tests.simulation.lives import Life
from tests.simulation.play import SOURCE
from tpuops.lifecycle.down import down
from tpuops.lifecycle.lock import break_lock
from tpuops.lifecycle.run import run, train
from tpuops.lifecycle.site import Site
from tpuops.lifecycle.stop import stop
from tpuops.lifecycle.told import acknowledge
from tpuops.lifecycle.up import up


async def given(command: str, life: Life, site: Site) -> Ended:
    """Carry out one command; its end as the process would end."""
    if command in {"run", "train"}:
        report = await (run if command == "run" else train)(site, SOURCE)
        await acknowledge(site, report.run.get("run_id", ""))
        return Ended(life, report.exit_code, report.document)
    if command == "up":
        done = await up(site)
        return Ended(life, 0, {"kept": [], "remains": [], "stands": done.observed.node is not None})
    if command == "relabel":
        await _relabelled(site)
        return Ended(life, 0, {"kept": [], "remains": []})
    if command == "lock.break":
        return Ended(life, 0, asdict(await break_lock(site, _yes)))
    torn = await down(site, _yes) if command == "down" else await stop(site, _yes)
    return Ended(life, 6 if torn.remains else 0, {"remains": [left.name for left in torn.remains]})


async def _relabelled(site: Site) -> None:
    """Somebody gives both machines another team, and a label of their own."""
    node, vm = site.desired.node, site.desired.vm
    theirs = {"team": "speech", "cost": "theirs"}
    assert vm is not None
    change = await site.cloud.set_node_labels(node.place, node.name, {**node.labels, **theirs})
    await site.cloud.wait(change, 60.0)
    found = await site.cloud.vm(vm.place, vm.name)
    assert found is not None
    await site.cloud.wait(await site.cloud.set_vm_labels(found, {**found.labels, **theirs}), 60.0)


async def _yes(question: str, whose: str = "") -> None:
    """A person agrees."""
