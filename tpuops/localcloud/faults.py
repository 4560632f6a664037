"""Fault scripts and latency profiles as files: YAML or JSON. What they may say is checked by the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tpuops.localcloud.core.profile import PROFILES, Profile, profile_of


def read_script(path: Path) -> Any:
    """The script in a file. Raises OSError and ValueError, which names the file."""
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as problem:
        raise ValueError(f"{path}: {problem}") from problem
    return _plain([] if document is None else document)


def read_profile(name: str) -> Profile:
    """The profile of that name, or the one in a file of that name. Raises OSError and ValueError, which names it."""
    if name in PROFILES:
        return PROFILES[name]
    try:
        return profile_of(yaml.safe_load(Path(name).read_text("utf-8")))
    except FileNotFoundError:
        raise ValueError(f"--profile {name}: no such file, and no profile; profiles: {', '.join(PROFILES)}") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise ValueError(f"{name}: {problem}") from problem


def _plain(value: Any) -> Any:
    """YAML 1.1 reads the key `on` as true; put the word back."""
    if isinstance(value, dict):
        return {"on" if key is True else str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
