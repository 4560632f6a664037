"""Every task under the name that is typed; what `tasks.py` and the `tpuops` command both serve."""

from __future__ import annotations

from types import ModuleType

from invoke.collection import Collection

from tpuops.tasks import check, cloud, diagnose, doctor, environments, lock, run, session, status
from tpuops.tasks.task import NAMES, Task

ROOT = (run, status, session, doctor, diagnose, check)
"""Modules whose tasks are typed by their bare names."""

GROUPS = {"cloud": cloud, "env": environments, "lock": lock}
"""Modules whose tasks are typed as `group.task`."""


def namespace() -> Collection:
    """All tasks."""
    root = Collection()
    for module in ROOT:
        for task in _tasks(module):
            root.add_task(task)
    for name, module in GROUPS.items():
        group = Collection(name, *_tasks(module))
        group.__doc__ = module.__doc__
        root.add_collection(group)
    root.configure({NAMES: list(root.task_names)})
    return root


def _tasks(module: ModuleType) -> list[Task]:
    return [value for value in vars(module).values() if isinstance(value, Task)]
