"""How the TPU pads an array: the last two dimensions of the layout grow to whole tiles.

Facts: the tile of 32-bit data is 8 x 128, of bfloat16 16 x 128, of 8-bit data 32 x 128 (google-cloud.md 9.7); good
shapes are multiples of those (training-on-tpu.md C1). Pure arithmetic on what the compiler printed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_SHAPE = re.compile(
    r"(?P<type>[a-z]+\d+|pred)\[(?P<dims>[\d,<=]*)\](?:\{(?P<order>[\d,]+)(?::T\((?P<tile>\d+,\d+)\))?)?"
)
_BYTES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s8": 1, "u8": 1, "pred": 1, "f64": 8, "s64": 8, "u64": 8}
LANES = 128


@dataclass(frozen=True, slots=True)
class Padding:
    """One dimension that is padded: its place in the shape, its size, what it grows to, and the multiple it wants."""

    axis: int
    size: int
    padded: int
    multiple: int


@dataclass(frozen=True, slots=True)
class Array:
    """A shape as the compiler prints it, e.g. `f32[32,4096,3]{2,1,0:T(8,128)}`."""

    text: str
    type: str
    dims: tuple[int, ...]
    order: tuple[int, ...]
    tile: tuple[int, int]

    @property
    def bytes_unpadded(self) -> int:
        """Bytes without padding."""
        return math.prod(self.dims) * _BYTES.get(self.type, 4)

    @property
    def paddings(self) -> tuple[Padding, ...]:
        """The dimensions that grow, the worst first."""
        wanted = zip(self.order[:2], (self.tile[1], self.tile[0]), strict=False)
        found = [
            Padding(axis, self.dims[axis], math.ceil(self.dims[axis] / multiple) * multiple, multiple)
            for axis, multiple in wanted
            if self.dims[axis] % multiple
        ]
        return tuple(sorted(found, key=lambda each: each.size / each.padded))

    @property
    def expansion(self) -> float:
        """How many times larger the array is in device memory than its numbers are."""
        return math.prod(each.padded / max(each.size, 1) for each in self.paddings)


def array_of(text: str) -> Array | None:
    """The first shape in a text, or None."""
    found = _SHAPE.search(text)
    if found is None:
        return None
    dims = tuple(int(each.strip("<=")) for each in found["dims"].split(",") if each.strip("<="))
    order = tuple(int(each) for each in (found["order"] or "").split(",") if each)
    if sorted(order) != list(range(len(dims))):
        order = tuple(reversed(range(len(dims))))
    width = _BYTES.get(found["type"], 4)
    rows, lanes = (found["tile"] or f"{max(8, 8 * 4 // width)},{LANES}").split(",")
    return Array(found.group(), found["type"], dims, order, (int(rows), int(lanes)))
