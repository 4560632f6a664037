"""Every method the embedded cloud serves, and every action its timer knows: the tables of the services, joined."""

from __future__ import annotations

from collections.abc import Mapping

from tpuops.localcloud.core import constraints, machines, secrets, strikes
from tpuops.localcloud.core.compute import methods as compute
from tpuops.localcloud.core.compute import transitions as compute_transitions
from tpuops.localcloud.core.identity import methods as identity
from tpuops.localcloud.core.project import methods as project
from tpuops.localcloud.core.routes import Route, Routes
from tpuops.localcloud.core.scene import Action, Scene
from tpuops.localcloud.core.storage import lifecycle
from tpuops.localcloud.core.storage import methods as storage
from tpuops.localcloud.core.tpu import away, maintenance, queue_life
from tpuops.localcloud.core.tpu import methods as tpu
from tpuops.localcloud.core.tpu import transitions as tpu_transitions
from tpuops.localcloud.core.world import Document

ROUTES = Routes(
    (
        *(*tpu.METHODS, *compute.METHODS, *storage.METHODS, *secrets.METHODS, *identity.METHODS, *project.METHODS),
        Route("GET", "/_cloud/constraints", "cloud.constraints", constraints.show),
        Route("POST", "/_cloud/constraints", "cloud.setConstraints", constraints.put),
    )
)


def _boot_again(scene: Scene, timer: Document) -> None:
    machine = scene.world.get("machine", timer["machine"])
    if machine is not None and machine["running"]:
        machines.boot(scene, [timer["machine"]])


ACTIONS: Mapping[str, Action] = {
    **tpu_transitions.ACTIONS,
    **queue_life.ACTIONS,
    **maintenance.ACTIONS,
    **away.ACTIONS,
    **compute_transitions.ACTIONS,
    **lifecycle.ACTIONS,
    **strikes.ACTIONS,
    "machine.boot": _boot_again,
}
