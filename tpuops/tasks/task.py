"""What every task has in common: the standard flags, and how its function becomes an Invoke task.

    @task("env", "cloud", "json", "verbose", help={"dry_run": "show what would change, change nothing"})
    async def up(asked: Invocation, dry_run: bool = False) -> Answer:
        \"\"\"Provision what the environment file asks for.\"\"\"

A task's function parses nothing and decides nothing: it calls one function of the floors below, imported inside its
body so that `--list` stays fast, and returns an `Answer`.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

import invoke.context
import invoke.exceptions
import invoke.tasks
from invoke.parser.argument import Argument

from tpuops.errors import EnvironmentFileError, TpuopsError
from tpuops.report.console import Console
from tpuops.tasks.ending import Answer, conclude
from tpuops.tasks.spelling import spelled

__all__ = ["Answer", "Invocation", "UsageError", "task"]

Standard = Literal["env", "cloud", "json", "verbose"]
CLOUDS = ("google", "local")
SHORT = {"env": "e", "verbose": "v", "yes": "y", "follow": "f"}
HELP = {
    "env": "the environment to work on: its file's name without .yaml (default: $TPUOPS_ENV)",
    "cloud": "google or local (the embedded cloud), whatever the file says",
    "json": "print exactly one JSON document on stdout",
    "verbose": "show each API call on stderr",
}
NAMES = "task_names"
"""Where Invoke's configuration holds every task's name; `namespace` puts them there."""

DEFAULTS: Mapping[str, str | bool] = {"env": "", "cloud": "", "json": False, "verbose": False}


class UsageError(TpuopsError):
    """The command line asks for something that is not there; exit 1, as Invoke's own usage errors."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Invocation:
    """What was asked for beside the task's own flags, and the console to speak through.

    `env` is empty only where the task made it optional; `cloud` is empty where the file decides.
    """

    env: str = ""
    cloud: str = ""
    json: bool = False
    verbose: bool = False
    console: Console = field(default_factory=Console)

    @property
    def flags(self) -> str:
        """How the environment was named, as it is typed again."""
        return shlex.join(["--env", self.env, *(["--cloud", self.cloud] if self.cloud else [])])

    def typed(self, verb: str, *more: str) -> str:
        """A command on the same environment, as it is typed."""
        return " ".join(("tpuops", verb, self.flags, *more))

    def say(self, line: str) -> None:
        """Progress, on stderr."""
        self.console.say(line)

    def write(self, text: str) -> None:
        """Data, on stdout, for tasks that stream; not with `--json`, which prints its one document at the end."""
        self.console.write(text)


class Replacing(Argument):
    """A flag that, once given, stands for the positional argument, which need not be given then."""

    replaced: Argument

    def set_value(self, value: Any, cast: bool = True) -> None:
        """Invoke's own, and an empty text for what it replaces."""
        super().set_value(value, cast)
        if self.replaced.value is None:
            self.replaced.set_value("", cast=False)


class Task(invoke.tasks.Task[Callable[..., None]]):
    """An Invoke task with short flags of our choice: Invoke's first free letter moves whenever a flag is added.

    `replacing`: the flag that is given in place of the positional argument, which is an empty text then.
    """

    replacing = ""

    def __eq__(self, other: object) -> bool:
        return self is other  # Invoke compares names and code, and `env.list` is not `jobs.list`

    def __hash__(self) -> int:
        return id(self)

    def arg_opts(self, name: str, default: str, taken_names: set[str]) -> dict[str, Any]:
        """Invoke's own description of one flag, with our short name for it."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        if name in SHORT:
            options["names"] = [*options["names"], SHORT[name]]
        return options

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Invoke's own, with the flag that replaces the positional argument tied to it."""
        told = dict(self.help)
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        self.help = told  # Invoke empties it, so that whoever asks again would find no flag explained
        for argument in arguments if self.replacing else ():
            if argument.name == self.replacing:
                argument.__class__ = Replacing
                vars(argument)["replaced"] = next(each for each in arguments if each.positional)
        return arguments


def task(
    *standard: Standard,
    env_default: str | None = None,
    help: Mapping[str, str] | None = None,
    positional: Iterable[str] = (),
    iterable: Iterable[str] = (),
    name: str | None = None,
    given: type[Any] | None = None,
) -> Callable[[Callable[..., Any]], Task]:
    """Make an Invoke task of a sync or async function: (Invocation, own flags with defaults) -> Answer or None.

    Args:
        standard: which of --env, --cloud, --json and --verbose it takes.
        env_default: the environment where neither --env nor TPUOPS_ENV names one; "" lets it be missing, None demands
            one (exit 2).
        help: what its own flags mean.
        positional: flags that are given without their name; Invoke takes one.
        iterable: flags that may be given several times.
        name: the task's name where the function's would not do, e.g. `list`.
        given: a dataclass whose fields are flags too; the function gets one as its second argument.
    """

    def wrap(body: Callable[..., Any]) -> Task:
        def run(context: invoke.context.Context, **flags: Any) -> None:
            # Invoke stops Python from keeping compiled modules, for the sake of `tasks.py`; ours are a package's.
            sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
            console = Console(spelled=spelled(sys.argv[0], context.get(NAMES, ())))
            asked: dict[str, Any] = {flag: flags.pop(flag) for flag in standard}

            def begin() -> Any:
                _no_flag(flags[each] for each in positional)
                told = [given(**{each.name: flags.pop(each.name) for each in fields(given)})] if given else []
                return body(_invocation(asked, env_default, console), *told, **flags)

            exit_code = conclude(begin, console, as_json=bool(asked.get("json")))
            if exit_code:
                raise invoke.exceptions.Exit(code=exit_code)

        run.__doc__, run.__name__, run.__module__ = body.__doc__, body.__name__, body.__module__
        run.__signature__ = _signature(body, standard, given)  # type: ignore[attr-defined]
        texts = {flag: HELP[flag] for flag in standard} | {k.replace("_", "-"): v for k, v in (help or {}).items()}
        return Task(
            run, name=name, help=texts, positional=list(positional), iterable=list(iterable), auto_shortflags=False
        )

    return wrap


def _no_flag(words: Iterable[str]) -> None:
    """Invoke takes even `--help` for a positional argument that is still missing."""
    for word in words:
        if word.startswith("--"):
            raise UsageError(
                f"{word} stands where a name is expected", hint="`tpuops --help TASK` shows what a task takes"
            )


def _signature(body: Callable[..., Any], standard: Iterable[Standard], given: type[Any] | None) -> inspect.Signature:
    first, *own = inspect.signature(body).parameters.values()
    own = [*_parameters(given), *own[1:]] if given else own
    flags = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name]) for name in standard]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    return inspect.Signature([first.replace(name="context"), *own, *flags])


def _parameters(given: type[Any]) -> Iterable[inspect.Parameter]:
    """A dataclass's fields as flags; one without a default must be given."""
    for each in fields(given):
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default)


def _invocation(asked: Mapping[str, Any], env_default: str | None, console: Console) -> Invocation:
    if asked.get("cloud") and asked["cloud"] not in CLOUDS:
        raise UsageError(f"--cloud takes {' or '.join(CLOUDS)}, not `{asked['cloud']}`")
    given = dict(asked)
    if "env" in given:
        given["env"] = given["env"] or os.environ.get("TPUOPS_ENV") or env_default
        if given["env"] is None:
            raise unnamed()
    return Invocation(console=console, **given)


def unnamed() -> EnvironmentFileError:
    """What to say where a task needs an environment and none is named."""
    return EnvironmentFileError(
        "no environment is named",
        hint="add --env NAME or set TPUOPS_ENV; `tpuops env.list` shows the names, `tpuops env.new` makes one",
    )
