"""The environment files: which there are, what they say, whether they are right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpuops.tasks.new import new
from tpuops.tasks.task import Answer, Invocation, task

if TYPE_CHECKING:
    from tpuops.environment import Environment

__all__ = ["check", "list_", "new", "schema", "show"]


@task("json", name="list")
def list_(asked: Invocation) -> Answer:
    """List the environments that can be named here, with their files."""
    from tpuops.environment import available
    from tpuops.report import following

    found = {name: str(path) for name, path in available(Path.cwd()).items()}
    width = max((len(name) for name in found), default=0)
    text = "\n".join(f"{name:{width}}  {path}" for name, path in found.items())
    return Answer({"environments": found}, text, following.after_list())


@task("env", "json")
def show(asked: Invocation) -> Answer:
    """Show an environment with every default filled in."""
    import yaml

    from tpuops.environment import find, load
    from tpuops.report import following

    document = load(find(asked.env, Path.cwd())).model_dump(mode="json")
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return Answer(document, text, following.after_right(asked.typed))


def _own_messages(asked: Invocation, environment: Environment) -> None:
    """Try the signature files that it names, and say what they replace."""
    if environment.recovery.signatures:
        from tpuops.stages.signatures import conflicts, own

        for conflict in conflicts(own(environment)):
            asked.say(f"conflict: {conflict}")


@task("env", "json", env_default="")
def check(asked: Invocation) -> Answer:
    """Check one environment file, or all of them; every problem with its line."""
    from tpuops.environment import available, find, load
    from tpuops.errors import EnvironmentFileError
    from tpuops.report import following

    here = Path.cwd()
    paths = [find(asked.env, here)] if asked.env else list(available(here).values())
    problems: dict[str, list[str]] = {}
    for path in paths:
        try:
            _own_messages(asked, load(path))
        except EnvironmentFileError as error:
            problems[str(path)] = [error.message, *error.evidence]
    document = {"checked": [str(path) for path in paths], "problems": problems}
    if not problems:
        words = "1 environment file is right" if len(paths) == 1 else f"{len(paths)} environment files are right"
        return Answer(document, words, following.after_right(asked.typed) if asked.env else following.after_list())
    said = [line for message, *lines in problems.values() for line in lines or [message]]
    words = f"{len(problems)} of {len(paths)} environment files are wrong" if len(paths) > 1 else "the file is wrong"
    hint = "mend these lines and check again; nothing was called"
    return Answer(document, error=EnvironmentFileError(words, evidence=said, hint=hint))


@task()
def schema(asked: Invocation) -> Answer:
    """Print the JSON Schema of environment files, for editors."""
    import json

    from tpuops.environment import schema as made
    from tpuops.report import following

    return Answer(text=json.dumps(made(), indent=2), following=following.after_schema())
