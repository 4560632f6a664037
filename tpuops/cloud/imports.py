"""Single clients out of a package whose `__init__` would load a hundred of them.

`google.cloud.compute_v1` imports every service of Compute Engine (4.3 s of processor where three clients take 1.2 s),
and every command would pay for it. Here the package's submodules are imported without running its `__init__`; whoever
imports the package itself later gets it whole.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType


def submodules(package: str, *names: str) -> list[ModuleType]:
    """The named submodules of a package, imported without its `__init__` unless that has run already.

    Only one thread may be at it (see `threads.Turns`).
    """
    if package in sys.modules:
        return [importlib.import_module(f"{package}.{name}") for name in names]
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        return [importlib.import_module(f"{package}.{name}") for name in names]
    finally:
        del sys.modules[package]
