"""Where rows go: the cells of a stage, and the expression that sends a row to its cell.

Spark sends rows to partitions by the hash of a column. For every cell there is a number whose hash is the number of a
partition of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, count, product

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import Scalar, all_of
from anabranch.planning.distribution import Distribution
from anabranch.planning.placement import Along, Placement

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

    def cell(self, distribution: Distribution, schema: pa.Schema, placement: Placement, number: int = 0) -> Scalar:
        """The cell of a row of an input; where it goes to several places along a dimension, one row for each."""
        if len(self) == 1:
            return _int(self.values[0])
        along = [each for each in placement.along(distribution, number) if each.size > 1]
        hot = [place for place, each in enumerate(along) if each.copied]
        cases = []
        for copied in (set(some) for many in range(len(hot), -1, -1) for some in combinations(hot, many)):
            met = all_of([_among(along[place].columns, along[place].copied, schema) for place in sorted(copied)])
            cases.append((met, self._of_places([_places(each, schema, at in copied) for at, each in enumerate(along)])))
        *others, (_, cells) = cases  # the last one is that of rows without hot keys
        if not others and len(cells) == 1:
            return cells[0]
        ifs = [exp.If(this=met.tree, true=Scalar.call("array", *some).tree) for met, some in others]
        usual = Scalar.call("array", *cells)
        return Scalar.call("explode", Scalar(exp.Case(ifs=ifs, default=usual.tree)) if ifs else usual)

    def _of_places(self, places: Sequence[Sequence[tuple[int, Scalar]]]) -> list[Scalar]:
        """The cells at all combinations of places, which are given with the size of their dimension."""
        found = []
        for choice in product(*places):
            place = _int(0)
            for size, there in choice:
                place = _BESIDE.substituted({"p": place, "s": _int(size), "t": there})
            found.append(Scalar.call("element_at", self._cells, _NEXT.substituted({"p": place})))
        return found

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


def _places(along: Along, schema: pa.Schema, copied: bool) -> list[tuple[int, Scalar]]:
    """The places of a row along a dimension, each with how many places that has."""
    if along.columns is None or copied:
        return [(along.size, _int(at)) for at in range(along.size)]
    by_key, by_row = (
        _PLACE.substituted({"c": code(columns, schema), "s": _int(along.size)})
        for columns in (along.columns, along.rows)
    )
    if not along.spread:
        return [(along.size, by_key)]
    spread = exp.If(this=_among(along.columns, along.spread, schema).tree, true=by_row.tree)
    return [(along.size, Scalar(exp.Case(ifs=[spread], default=by_key.tree)))]


def _among(columns: Sequence[str] | None, codes: Sequence[int], schema: pa.Schema) -> Scalar:
    """Whether the key of a row is one of some."""
    own = code(columns or (), schema)
    return Scalar(exp.In(this=own.tree, expressions=[Scalar.long(each).tree for each in codes]))
