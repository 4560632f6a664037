"""The `recovery` section: what may be spent on keeping a run alive, and what is said of single failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from tpuops.environment.problems import Wrong, did_you_mean
from tpuops.facts import failures

_OVERRIDABLE = (*failures.RETRIED, failures.UNKNOWN)


def _failure_class(value: str) -> str:
    if value in _OVERRIDABLE:
        return value
    if value in failures.FOR_A_PERSON:
        raise Wrong("only a person can mend this, so it is never retried", "remove the line; there is nothing to say")
    hint = did_you_mean(value, _OVERRIDABLE) or f"classes: {', '.join(_OVERRIDABLE)}"
    raise Wrong(f"{value!r} is no class of failure that a recovery answers", hint)


def _signature_file(value: str) -> str:
    if not value.endswith((".yaml", ".yml")) or not value.isprintable():
        raise Wrong(f"{value!r} is no YAML file", "give a path relative to this file, such as signatures/mine.yaml")
    return value


FailureClass = Annotated[
    str, AfterValidator(_failure_class), WithJsonSchema({"type": "string", "enum": list(_OVERRIDABLE)})
]
SignatureFile = Annotated[str, AfterValidator(_signature_file)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class BudgetSection(_Section):
    """How many recoveries each cause may take without progress in between."""

    process_killed: int = Field(default=3, ge=0, le=1000)
    infrastructure: int = Field(default=3, ge=0, le=1000)
    preempted: int = Field(default=10, ge=0, le=1000)

    @property
    def limits(self) -> dict[str, int]:
        """The budgets by the name of their cause."""
        return {
            "process_killed": self.process_killed,
            "infrastructure": self.infrastructure,
            "preempted": self.preempted,
        }


class Override(_Section):
    """What the file says of one class: `restart` never goes beyond a restart in place, `give_up` never retries it;
    `budget` is the class's own, in place of its family's."""

    action: Literal["restart", "give_up"] | None = None
    budget: int | None = Field(default=None, ge=0, le=1000)

    @model_validator(mode="after")
    def _says_something(self) -> Override:
        if self.action is None and self.budget is None:
            raise Wrong("says nothing", "write {action: restart}, {action: give_up} or {budget: N}")
        if self.action == "give_up" and self.budget is not None:
            raise Wrong("gives up at once, so no budget is spent", "keep one of the two")
        return self


class Recovery(_Section):
    """What may be spent on keeping a run alive. `signatures` are files of the user's own messages."""

    budgets: BudgetSection = BudgetSection()
    overrides: Mapping[FailureClass, Override] = Field(default_factory=dict)
    signatures: tuple[SignatureFile, ...] = ()

    @property
    def limits(self) -> dict[str, int]:
        """Budgets by cause, and by the classes that have their own."""
        own = {name: each.budget for name, each in self.overrides.items() if each.budget is not None}
        return {**self.budgets.limits, **own}

    @property
    def actions(self) -> dict[str, str]:
        """The file's word for single classes."""
        return {name: each.action for name, each in self.overrides.items() if each.action is not None}

    def signature_files(self, file: Path) -> tuple[Path, ...]:
        """The signature files, absolute; their paths are relative to the environment file."""
        return tuple((file.parent / Path(each).expanduser()).resolve() for each in self.signatures)
