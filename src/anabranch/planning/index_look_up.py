"""Rows of a flow combined with those of a table, through a predicate index over the table.

A join by comparisons alone would test every row against all rows of the table. The table is small enough to be sent to
all workers; there an index of it (`rules/predicate_index.py`) finds the rows that match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from anabranch.operators.base import START
from anabranch.planning.stages import VALID, VALID_FROM, VALID_TO
from anabranch.rules.factors import Factor, Op
from anabranch.rules.predicate_index import PredicateIndex

CHUNK_ROWS = 8192
"""Rows that are matched at a time: what they match has to fit into memory."""


@dataclass(frozen=True)
class IndexLookUp:
    """Finds the rows of a table that match those of a flow; it is pickled and sent to workers."""

    index: PredicateIndex
    table: pa.Table

    @classmethod
    def over(cls, table: pa.Table, pairs: Sequence[tuple[str, str]], factors: Sequence[Factor]) -> IndexLookUp:
        """An index over a table: pairs of columns are equal, factors hold, and versions are valid at the start."""
        wanted = [*(Factor(left, Op.EQUAL, right) for left, right in pairs), *factors]
        if VALID_FROM in table.column_names:
            wanted += [Factor(START, Op.AT_LEAST, VALID_FROM), Factor(START, Op.LESS, VALID_TO)]
        kept = [name for name in table.column_names if name not in VALID]
        return cls(PredicateIndex(wanted, table), table.select(kept).combine_chunks())

    def found(self, flow: pa.Table) -> pa.Table:
        """Each row of the flow with each row of the table that matches it."""
        parts = []
        for first in range(0, max(len(flow), 1), CHUNK_ROWS):
            some = flow.slice(first, CHUNK_ROWS)
            rows, matches = self.index.match(some)
            left, right = some.take(pa.array(rows)), self.table.take(pa.array(matches))
            columns = [*left.columns, *right.columns]
            parts.append(pa.table(columns, names=[*flow.column_names, *self.table.column_names]))
        return pa.concat_tables(parts)
