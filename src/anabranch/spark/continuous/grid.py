"""Where rows go: the cells of a stage, and the expression that sends a row to its cell.

Spark sends rows to partitions by the hash of a column. For every cell there is a number whose hash is the number of a
partition of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, product

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import Scalar
from anabranch.planning.stages import Distribution

_PLACE = Scalar.parsed("CAST(pmod(c, s) AS INT)")
_BESIDE = Scalar.parsed("p * s + t")
_NEXT = Scalar.parsed("p + 1")
_IS_NULL = Scalar.parsed("v IS NULL")
_ONE_ZERO = Scalar(
    exp.Case(ifs=[exp.If(this=exp.condition("v = 0"), true=exp.Literal.number("0D"))], default=exp.column("v"))
)


def _spark_hash(number: int) -> int:
    """Spark's hash of an integer: Murmur3 of its four bytes, with the seed 42.

    >>> _spark_hash(0), _spark_hash(1)
    (933211791, -559580957)
    """
    word = 0xFFFFFFFF
    mixed = (number * 0xCC9E2D51) & word
    mixed = 42 ^ (((mixed << 15 | mixed >> 17) * 0x1B873593) & word)
    mixed = 4 ^ (((mixed << 13 | mixed >> 19) * 5 + 0xE6546B64) & word)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = ((mixed ^ mixed >> shift) * factor) & word
    return mixed - (mixed >> 31 << 32)  # as a signed number


@dataclass(frozen=True)
class Grid:
    """Cells of a stage: `values[c]` is the number that stands for cell c."""

    values: tuple[int, ...]

    @classmethod
    def of(cls, cells: int) -> Grid:
        """A grid of so many cells."""
        found: dict[int, int] = {}
        numbers = count()
        while len(found) < cells:
            number = next(numbers)
            found.setdefault(_spark_hash(number) % cells, number)
        return cls(tuple(found[cell] for cell in range(cells)))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def each(self) -> Scalar:
        """A row for every cell."""
        return Scalar.call("explode", self._cells)

    @property
    def _cells(self) -> Scalar:
        return Scalar.call("array", *map(_int, self.values))

    def cell(self, distribution: Distribution, schema: pa.Schema) -> Scalar:
        """The cell of a row; where the row lacks a dimension of the grid, one row for every place along it."""
        if len(self) == 1:
            return _int(self.values[0])
        sizes = _sizes(len(distribution.routes), len(self))
        choices = [
            range(1) if columns else range(size) for size, columns in zip(sizes, distribution.routes, strict=True)
        ]
        found = []
        for choice in product(*choices):
            place = _int(0)
            for size, columns, at in zip(sizes, distribution.routes, choice, strict=True):
                there = _PLACE.substituted({"c": code(columns, schema), "s": _int(size)}) if columns else _int(at)
                place = _BESIDE.substituted({"p": place, "s": _int(size), "t": there})
            found.append(Scalar.call("element_at", self._cells, _NEXT.substituted({"p": place})))
        return found[0] if len(found) == 1 else Scalar.call("explode", Scalar.call("array", *found))

    def only(self, name: str) -> Scalar:
        """The cell of all rows of something that meet in one."""
        return _int(self.one(name))

    def one(self, name: str) -> int:
        """The cell in which all rows of something meet."""
        return self.values[zlib.crc32(name.encode()) % len(self)]


def code(columns: Sequence[str], schema: pa.Schema) -> Scalar:
    """Equal values have equal codes: also NULLs, which Spark's hash passes over, and both zeros."""
    if not columns:
        return Scalar.long(0)
    parts = []
    for name in columns:
        value = Scalar.reading(name)
        known = _ONE_ZERO.substituted({"v": value}) if pa.types.is_floating(schema.field(name).type) else value
        parts += [known, _IS_NULL.substituted({"v": value})]
    return Scalar.call("xxhash64", *parts)


def _int(number: int) -> Scalar:
    return Scalar(exp.Literal.number(number))


def _sizes(dimensions: int, cells: int) -> list[int]:
    """How many places each dimension has: a square as far as that goes.

    >>> _sizes(1, 4), _sizes(2, 4), _sizes(2, 8)
    ([4], [2, 2], [4, 2])
    """
    if dimensions == 1:
        return [cells]
    second = next(size for size in range(int(cells**0.5), 0, -1) if cells % size == 0)
    return [cells // second, second]
