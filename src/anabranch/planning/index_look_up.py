"""Rows of a flow combined with those of a table, through a predicate index over the table.

A join by comparisons alone would test every row against all rows of the table. The table is small enough to be sent to
all workers; there an index of it (`rules/predicate_index.py`) finds the rows that match. It is changed by differences:
a worker that has the index before gets the rows that came and the numbers of those that went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Rows
from anabranch.operators.base import FOREVER, START
from anabranch.planning.probes import Probe
from anabranch.planning.stages import VALID, VALID_FROM, VALID_TO
from anabranch.rules.factors import Factor, Op
from anabranch.rules.pattern_bounds import like_bounds, regex_bounds
from anabranch.rules.predicate_index import PredicateIndex

CHUNK_ROWS = 8192
"""Rows that are matched at a time: what they match has to fit into memory."""
MOST_COMPARED = 20_000
"""Rows that are looked at to find those that leave; if there are more, the index is made anew."""
VALID_THEN = [Factor(START, Op.AT_LEAST, VALID_FROM), Factor(START, Op.LESS, VALID_TO)]


@dataclass(frozen=True)
class TableChange:
    """Rows that came to a table since an index was made of it, and the numbers of those that went."""

    added: pa.Table
    removed: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    def then(self, later: TableChange) -> TableChange:
        """This change, and a later one; numbers go on."""
        both = pa.concat_tables([self.added, later.added]).combine_chunks()
        return TableChange(both, np.concatenate((self.removed, later.removed)))


@dataclass(frozen=True)
class IndexLookUp:
    """Finds the rows of a table that match those of a flow; it is pickled and sent to workers.

    Parameters
    ----------
    index
        Over the rows of the table, by their numbers.
    table
        All rows that have had a number.
    probes, searches
        What parameters are made of, and the kinds of search in texts that they are made for.
    """

    index: PredicateIndex
    table: pa.Table
    probes: tuple[Probe, ...]
    searches: tuple[Op, ...]

    @classmethod
    def over(cls, table: pa.Table, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe]) -> IndexLookUp:
        """An index over a table: pairs of columns are equal, probes hold, and versions are valid at the start."""
        asked = (*(Probe(left, Op.EQUAL, (right,)) for left, right in pairs), *probes)
        ops, parameters = _parameters(table, asked)
        wanted = [replace(each.factor, op=op) for each, op in zip(asked, ops, strict=True)]
        if VALID_FROM in table.column_names:
            wanted += VALID_THEN
        return cls(PredicateIndex(wanted, parameters, _mostly_valid(wanted)), table.combine_chunks(), asked, ops)

    @property
    def schema(self) -> pa.Schema:
        """Of what is found besides the flow's own columns."""
        return pa.schema([each for each in self.table.schema if each.name not in VALID])

    def changed(self, change: TableChange) -> IndexLookUp | None:
        """The index of the changed table; None if it has to be made anew, since patterns of another kind came."""
        index, table = self.index, self.table
        if len(change.added):
            ops, parameters = _parameters(change.added, self.probes)
            if ops != self.searches:
                return None
            index = index.added(parameters)
            table = pa.concat_tables([table, change.added.cast(table.schema)]).combine_chunks()
        if len(change.removed):
            index = index.removed(change.removed)
        return replace(self, index=index, table=table)

    def difference(self, came: pa.Table, went: pa.Table) -> TableChange | None:
        """What rows that came and rows that went mean for versions of rows; None if that is not cheap to say.

        A row that went was there until then: its version ends.
        """
        if not len(went):
            return TableChange(came.cast(self.table.schema))
        columns = [name for name in self.table.column_names if name not in VALID]
        living = np.asarray(self.index.numbers)
        open_ = pc.equal(self.table[VALID_TO].take(pa.array(living)), FOREVER)
        living = living[np.asarray(open_.to_numpy(zero_copy_only=False), np.bool_)]
        try:
            near = pc.is_in(self.table[columns[0]].take(pa.array(living)), went[columns[0]].combine_chunks())
        except pa.ArrowNotImplementedError:
            return None
        living = living[np.asarray(near.to_numpy(zero_copy_only=False), np.bool_)]
        if len(living) > MOST_COMPARED or len(went) > MOST_COMPARED:
            return None
        held: dict[str, list[int]] = {}
        for number, row in zip(living, self.table.select(columns).take(pa.array(living)).to_pylist(), strict=True):
            held.setdefault(repr(row), []).append(int(number))
        ends = zip(went.select(columns).to_pylist(), went[VALID_FROM].to_pylist(), strict=True)
        gone = [(found.pop(0), end) for row, end in ends if (found := held.get(repr(row)))]
        if len(gone) != len(went):
            return None
        numbers = np.array([number for number, _ in gone], np.int64)
        closed = self.table.take(pa.array(numbers))
        place = closed.column_names.index(VALID_TO)
        closed = closed.set_column(place, closed.schema.field(place), pa.array([end for _, end in gone], pa.int64()))
        kept = closed.filter(pc.less(closed[VALID_FROM], closed[VALID_TO]))
        return TableChange(pa.concat_tables([came.cast(self.table.schema), kept]), numbers)

    def found(self, flow: pa.Table) -> pa.Table:
        """Each row of the flow with each row of the table that matches it."""
        parts = []
        shown = self.table.select(self.schema.names)
        for first in range(0, max(len(flow), 1), CHUNK_ROWS):
            some = flow.slice(first, CHUNK_ROWS)
            rows, matches = self.index.match(some)
            left, right = some.take(pa.array(rows)), shown.take(pa.array(matches))
            columns = [*left.columns, *right.columns]
            parts.append(pa.table(columns, names=[*flow.column_names, *shown.column_names]))
        return pa.concat_tables(parts)


def _mostly_valid(factors: Sequence[Factor]) -> dict[str, float]:
    """Most versions of rows are valid: that finds few of them only where nothing else does."""
    return {each.parameter: 1.0 for each in factors if each in VALID_THEN}


def _parameters(table: pa.Table, probes: Sequence[Probe]) -> tuple[tuple[Op, ...], pa.Table]:
    """The table with a column for the parameter of each probe, and what each is searched by."""
    ops = []
    for probe in probes:
        op, name = probe.op, probe.factor.parameter
        columns = [table[each].combine_chunks() for each in probe.columns]
        if probe.made == "list":
            table = table.append_column(name, _lists(columns))
        elif probe.made == "like":
            op, texts = like_bounds(columns[0])
            table = table.append_column(name, texts)
        elif probe.made == "rlike":
            table = table.append_column(name, regex_bounds(columns[0]))
        ops.append(op)
    return tuple(ops), table


def _lists(columns: Sequence[pa.Array]) -> pa.Array:
    """A list per row, of its values in some columns."""
    rows, count = len(columns[0]), len(columns)
    values = pa.chunked_array(columns, columns[0].type).combine_chunks()
    order = np.arange(rows * count).reshape(count, rows).T.ravel()
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * count, pa.int32()), values.take(pa.array(order)))
