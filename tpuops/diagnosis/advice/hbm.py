"""What an exhausted device memory asks for, out of the numbers that the compiler or the runtime printed.

Used and available bytes, the largest allocations with their padding, which dimension to bring to which multiple, and
what would fit. Reads one message; decides nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpuops.diagnosis.advice.tiles import Array, Padding, array_of

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = r"(?P<{0}>[\d.]+) ?(?P<{0}_unit>[KMGT]?)i?B?"
_COMPILED = re.compile(rf"[Uu]sed:? {_SIZE.format('used')}(?: of|;? ?limit:?) {_SIZE.format('limit')}")
_RESERVED = re.compile(
    rf"Attempting to (?:reserve|allocate) {_SIZE.format('used')}.*?There are {_SIZE.format('limit')} free", re.DOTALL
)
_REQUESTED = re.compile(rf"allocate request for {_SIZE.format('used')}")
_ALLOCATION = re.compile(
    rf"\d+\. Size: {_SIZE.format('size')}\s+(?:Operator: op_name=\"(?P<op>[^\"]*)\"[^\n]*\s+)?Shape: (?P<shape>[^\n]+)"
    rf"(?P<rest>(?:\s+(?:Unpadded size|Extra memory|XLA label|Allocation type)[^\n]*)*)"
)
_EXPANSION = re.compile(r"\((?P<times>[\d.]+)x expansion\)")
_WORTH_NAMING = 1.25
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Allocation:
    """One of the largest: bytes on the device, the operation, the array, and how much of it is padding (1.0 none)."""

    size: int
    operation: str
    array: Array | None
    expansion: float


@dataclass(frozen=True, slots=True)
class Shortage:
    """What was needed and what there is, in bytes (0 unknown), with the largest allocations."""

    used: int
    limit: int
    at_run_time: bool
    allocations: tuple[Allocation, ...]


def shortage_of(text: str) -> Shortage:
    """The numbers of one message; those it does not hold are 0."""
    compiled = _COMPILED.search(text)
    found = compiled or _RESERVED.search(text) or _REQUESTED.search(text)
    used = _bytes(found, "used") if found else 0
    limit = _bytes(found, "limit") if found and "limit" in found.re.groupindex else 0
    return Shortage(used, limit, compiled is None, tuple(_allocation(each) for each in _ALLOCATION.finditer(text)))


def _bytes(found: re.Match[str], name: str) -> int:
    return int(float(found[name].rstrip(".")) * _UNITS[found[f"{name}_unit"] or ""])


def _allocation(found: re.Match[str]) -> Allocation:
    array = array_of(found["shape"])
    times = _EXPANSION.search(found["rest"] or "")
    expansion = float(times["times"]) if times else (array.expansion if array else 1.0)
    return Allocation(_bytes(found, "size"), found["op"] or "", array, expansion)


def hbm_advice(text: str) -> str:
    """Sentences for a person: what is short, what is largest, what to change and how far."""
    shortage = shortage_of(text)
    said = [_said_of_size(shortage), *_said_of_largest(shortage), *_said_of_padding(shortage), _said_of_fit(shortage)]
    return " ".join(each for each in said if each)


def _said_of_size(shortage: Shortage) -> str:
    if not shortage.used:
        return "the program does not fit into device memory."
    if not shortage.limit:
        return f"an allocation of {_size(shortage.used)} did not fit into device memory."
    if shortage.at_run_time:
        return f"{_size(shortage.used)} were asked for at run time and {_size(shortage.limit)} were free."
    over = _size(shortage.used - shortage.limit)
    return f"the program needs {_size(shortage.used)} of {_size(shortage.limit)} device memory ({over} too much)."


def _said_of_largest(shortage: Shortage) -> list[str]:
    shown = shortage.allocations[:_SHOWN]
    if not shown:
        return []
    named = ", ".join(
        f"{_size(each.size)} {each.array.text.split('{')[0] if each.array else '?'}"
        + (f" for {each.operation.rsplit('/', 1)[-1]}" if each.operation else "")
        for each in shown
    )
    return [f"largest: {named}."]


def _said_of_padding(shortage: Shortage) -> list[str]:
    padded = [each for each in shortage.allocations if each.expansion >= _WORTH_NAMING and each.array]
    said = []
    for each in padded[:_SHOWN]:
        array = each.array
        assert array is not None  # filtered just above
        shape = array.text.split("{")[0]
        saved = _size(int(each.size * (1 - 1 / each.expansion)))
        changes = " and ".join(_change(padding) for padding in array.paddings) or "reorder its dimensions"
        said.append(f"padding makes {shape} {each.expansion:.1f}x larger ({saved} of it is padding): {changes}.")
    return said


def _change(padding: Padding) -> str:
    return f"bring dimension {padding.axis} from {padding.size} to a multiple of {padding.multiple} ({padding.padded})"


def _said_of_fit(shortage: Shortage) -> str:
    always = "bfloat16, rematerialisation, more sharding or a larger slice also help; the same program never fits."
    if not shortage.used or not shortage.limit or shortage.at_run_time:
        return f"reduce the batch per core (a total batch in multiples of 64); {always}"
    padding = sum(int(each.size * (1 - 1 / each.expansion)) for each in shortage.allocations if each.expansion > 1)
    if padding and shortage.used - padding <= shortage.limit:
        return f"without the padding named above it would fit; else {always}"
    share = int(100 * shortage.limit / shortage.used)
    return f"a batch of about {share} % of this one would fit if activations dominate (multiples of 64); {always}"


def _size(count: int) -> str:
    for unit, scale in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.2f}{unit}"
    return f"{count}B"
