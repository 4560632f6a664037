"""The caps on size, measured; ruff measures complexity and arguments."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

TOP = Path(__file__).parents[2]
FUNCTION_LINES, FILE_LINES = 60, 350


def tracked(*patterns: str) -> list[Path]:
    """Files that git tracks and that are still there."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *patterns]  # CI may own the files as somebody else
    listed = subprocess.run(command, cwd=TOP, capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := TOP / name).is_file()]


def excesses(path: Path, source: str) -> list[str]:
    """What in one Python file is over a cap, as `file:line: what`."""
    found = []
    lines = len(source.splitlines())
    if lines > FILE_LINES:
        found.append(f"{path}: {lines} lines, at most {FILE_LINES}")
    tree = ast.parse(source)
    if tree.body and not ast.get_docstring(tree) and path.parts[0] != "tests":
        found.append(f"{path}: no module docstring")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > FUNCTION_LINES:
            found.append(f"{path}:{node.lineno}: {node.name} has {_length(node)} lines, at most {FUNCTION_LINES}")
    return found


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without decorators and docstring."""
    first = node.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring
