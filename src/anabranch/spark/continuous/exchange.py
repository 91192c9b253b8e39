"""One exchange for many operators: every row travels once for each key by which some of them want it.

The inputs of all operators of a layer are selects over sources. Those that read one source and send its rows to cells
by the same key travel together: a row is sent if some of them want it, with a bit for each that does (the lineage of a
tuple in CACQ), and with the columns that they read, each once. Columns of all parcels share slots by type, so that the
width of the exchange does not grow with the number of operators.

References
----------
S. Madden, M. Shah, J. Hellerstein, V. Raman, *Continuously Adaptive Continuous Queries over Streams*, SIGMOD 2002.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import Scalar, all_of, in_any_order
from anabranch.model.arrays import Rows
from anabranch.model.names import quoted
from anabranch.operators.base import TIME
from anabranch.spark.continuous.flows import Instants, Select, Source, listed, where

CELL = "_cell"
PARCEL = "_parcel"
MARKER = -1
"""The parcel of a row that every cell gets, so that time goes on in all of them."""
WORD = 62
"""Bits of a column of them; a long has one more, and its sign."""

MOST_CONDITIONS = 124
"""Of a parcel: Spark's generated code for more of them grows too large to be compiled."""


@dataclass(frozen=True)
class ExchangeInput:
    """What an operator wants of one select: where its rows go, and its columns with their types."""

    select: Select
    cell: Scalar
    columns: tuple[tuple[str, Scalar, pa.DataType], ...]

    @property
    def schema(self) -> pa.Schema:
        """Names and types of its columns."""
        return pa.schema([(name, kind) for name, _, kind in self.columns])

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """Its conditions, in a form that is equal for equal ones."""
        return in_any_order(self.select.conditions, {})


@dataclass(frozen=True)
class Parcel:
    """Where a task finds the rows that are wanted: which parcel, which bit, and which slot each column is in."""

    number: int
    bit: int
    columns: tuple[tuple[str, str], ...]


@dataclass
class _Together:
    """Selects over one source that go to the same cells."""

    number: int
    source: Source
    cell: Scalar
    conditions: dict[tuple[str, ...], tuple[Scalar, ...]] = field(default_factory=dict)
    uses: dict[Scalar, tuple[pa.DataType, set[int]]] = field(default_factory=dict)

    def takes(self, wanted: ExchangeInput) -> bool:
        """Whether there is room for it."""
        return len(self.conditions) < MOST_CONDITIONS or wanted.conditions in self.conditions

    def add(self, wanted: ExchangeInput) -> int:
        """Take one more in; returns the number of its bit."""
        self.conditions.setdefault(wanted.conditions, wanted.select.conditions)
        bit = list(self.conditions).index(wanted.conditions)
        for _, scalar, kind in wanted.columns:
            self.uses.setdefault(scalar, (kind, set()))[1].add(bit)
        return bit


class Slots:
    """Columns that values of the same type share, whatever they are called where they come from.

    >>> slots = Slots()
    >>> slots.of({"host": pa.string(), "n": pa.int64()}), slots.of({"town": pa.string(), "land": pa.string()})
    ({'host': '_slot0_0', 'n': '_slot1_0'}, {'town': '_slot0_0', 'land': '_slot0_1'})
    """

    def __init__(self) -> None:
        self._kinds: list[pa.DataType] = []
        self._found: dict[str, pa.DataType] = {}

    def of(self, kinds: Mapping[str, pa.DataType]) -> dict[str, str]:
        """A slot for each of some names."""
        taken: dict[int, int] = {}
        slots = {}
        for name, kind in kinds.items():
            if kind not in self._kinds:
                self._kinds.append(kind)
            number = self._kinds.index(kind)
            slots[name] = f"_slot{number}_{taken.get(number, 0)}"
            taken[number] = taken.get(number, 0) + 1
            self._found[slots[name]] = kind
        return slots

    @property
    def fields(self) -> list[tuple[str, pa.DataType]]:
        """All slots, with their types."""
        return sorted(self._found.items(), key=lambda slot: slot[0])


class Exchange:
    """The selects of a layer, as one text, and where each is found again.

    Parameters
    ----------
    every
        A row for every cell.
    """

    def __init__(self, every: Scalar) -> None:
        self._every = every.sql
        self._parcels: dict[tuple[Source, Scalar, int], _Together] = {}
        self._instants: dict[Instants, int] = {}
        self._columns = Slots()

    def send(self, wanted: ExchangeInput) -> None:
        """Let rows travel."""
        self._parcel(wanted).add(wanted)

    def _parcel(self, wanted: ExchangeInput) -> _Together:
        """The parcel that has its conditions already, or has room for them."""
        source, cell = wanted.select.source, wanted.cell
        chunks = (
            self._parcels.setdefault((source, cell, chunk), _Together(len(self._parcels), source, cell))
            for chunk in count()
        )
        return next(each for each in chunks if each.takes(wanted))

    def instants(self, times: Instants) -> int:
        """Let times go to every cell; returns the number of the parcel."""
        return self._instants.setdefault(times, MARKER - 1 - len(self._instants))

    def found(self, wanted: ExchangeInput) -> Parcel:
        """Where the rows of a select are found."""
        parcel = self._parcel(wanted)
        slots = self._slots(parcel)
        return Parcel(
            parcel.number, parcel.add(wanted), tuple((name, slots[each.sql]) for name, each, _ in wanted.columns)
        )

    @property
    def text(self) -> str:
        """The rows on their way to cells."""
        parcels = self._parcels.values()
        slots = sorted({slot for parcel in parcels for slot in self._slots(parcel).values()})
        names = [*slots, *([TIME] if self._instants else [])]
        width = max((len(_words(parcel)) for parcel in parcels), default=0)
        parts = [self._sent(parcel, names, width) for parcel in parcels]
        nothing = dict.fromkeys([*_bits(width), *names], "NULL")
        parts.append(_row({CELL: self._every, PARCEL: str(MARKER)} | nothing, "range(0, 1, 1, 1)"))
        for times, number in self._instants.items():
            parts.append(_row({CELL: self._every, PARCEL: str(number)} | nothing | {TIME: TIME}, times.text))
        return " UNION ALL ".join(parts)

    def _slots(self, parcel: _Together) -> dict[str, str]:
        """A column for each expression."""
        return self._columns.of({scalar.sql: kind for scalar, (kind, _) in parcel.uses.items()})

    def _sent(self, parcel: _Together, names: Sequence[str], width: int) -> str:
        alone = len(parcel.conditions) == 1
        slots = self._slots(parcel)
        own = {
            slots[scalar.sql]: scalar.sql if alone else _guarded(scalar, bits, parcel)
            for scalar, (_, bits) in parcel.uses.items()
        }
        words = dict(zip(_bits(width), [*(_words(parcel) or ["1L"]), *["0L"] * width], strict=False))
        cell = {CELL: parcel.cell.sql, PARCEL: str(parcel.number)}
        items = cell | words | {name: own.get(name, "NULL") for name in names}
        source, conditions = parcel.source.text, list(parcel.conditions.values())
        if alone:
            return _row(items, f"{source} AS flow{where(conditions[0])}")
        flags = {_flag(bit): all_of(each) for bit, each in enumerate(conditions)}
        some = "" if () in conditions else f" WHERE {' OR '.join(map(_flag, range(len(flags))))}"
        return _row(items, f"(SELECT *, {listed(flags)} FROM {source} AS flow){some}")


def _guarded(scalar: Scalar, bits: set[int], parcel: _Together) -> str:
    """An expression, computed of rows alone that somebody wants it of: of others it may fail."""
    if not scalar.may_fail or _moves(scalar) or len(bits) == len(parcel.conditions):
        return scalar.sql
    return f"CASE WHEN {' OR '.join(map(_flag, sorted(bits)))} THEN {scalar.sql} END"


def _moves(scalar: Scalar) -> bool:
    """Whether it is a time that is moved by a constant."""
    tree = scalar.tree
    return isinstance(tree, exp.Add) and tree.this.name == TIME and isinstance(tree.expression, exp.Literal)


def _words(parcel: _Together) -> list[str]:
    """SQL: the bits of a row, in numbers."""
    count = len(parcel.conditions)
    if count == 1:
        return []
    flags = [f"if({_flag(bit)}, {1 << bit % WORD}L, 0L)" for bit in range(count)]
    return [" | ".join(flags[first : first + WORD]) for first in range(0, count, WORD)]


def _flag(bit: int) -> str:
    return f"_wanted{bit}"


def _bits(width: int) -> list[str]:
    return [f"_bits{word}" for word in range(width)]


def _row(items: Mapping[str, str], source: str) -> str:
    return f"SELECT {', '.join(f'{sql} AS {quoted(name)}' for name, sql in items.items())} FROM {source}"


class Arrived:
    """The rows of one cell, taken apart again."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        parcels = table[PARCEL].to_numpy()
        self._order = np.argsort(parcels, kind="stable")
        numbers, firsts = np.unique(parcels[self._order], return_index=True)
        ends = [*firsts[1:].tolist(), len(parcels)]
        self._spans = dict(zip(numbers.tolist(), zip(firsts.tolist(), ends, strict=True), strict=True))
        self._parcels: dict[int, pa.Table] = {}

    def times(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The instants in a parcel of times."""
        return np.unique(self._parcel(number)[TIME].to_numpy())

    def rows(self, parcel: Parcel) -> pa.Table:
        """The wanted columns of the rows that are wanted."""
        table = self._parcel(parcel.number)
        chosen = pa.table({name: table[slot] for name, slot in parcel.columns})
        word = f"_bits{parcel.bit // WORD}"
        if word not in table.schema.names:
            return chosen
        bits = table[word].to_numpy()
        rows: Rows = np.flatnonzero(bits & (1 << parcel.bit % WORD))
        return chosen if len(rows) == len(bits) else chosen.take(pa.array(rows))

    def _parcel(self, number: int) -> pa.Table:
        if number not in self._parcels:
            first, end = self._spans.get(number, (0, 0))
            self._parcels[number] = self._table.take(pa.array(self._order[first:end])).combine_chunks()
        return self._parcels[number]


def cell_of(table: pa.Table) -> int:
    """The number of the cell whose rows these are."""
    return int(pc.max(table[CELL]).as_py())
