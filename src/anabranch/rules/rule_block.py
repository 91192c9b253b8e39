"""A block of rules that were added together: one condition gives candidates, the others test them.

Which condition gives access is estimated from the rules, and then measured on samples of the rows: the one with the
fewest candidates per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.bucket_search import Small
from anabranch.rules.domains import plain, present, whole
from anabranch.rules.factors import PATTERNS, Condition, Factor, Op, conditions
from anabranch.rules.list_condition import ListCondition
from anabranch.rules.parameters import parameter, parameter_domain
from anabranch.rules.pattern_condition import PATTERN_COST, PatternCondition
from anabranch.rules.postings import Pairs, Tester
from anabranch.rules.range_condition import RangeCondition

CANDIDATES_AT_ONCE = 1 << 18
"""Rows are taken in chunks with about so many candidates; a single row may have more."""
TEXTS_AT_ONCE = 4096
"""Rows whose texts are searched for patterns at once."""
SAMPLED_ROWS = 256
BATCHES_PER_SAMPLE = 16
KEPT = 0.5
"""Weight of what has been measured before, against one more sample."""

AnyCondition = RangeCondition | ListCondition | PatternCondition


class RuleBlock:
    """Rules with numbers.

    Parameters
    ----------
    factors
        Of the template.
    rules
        A column per parameter.
    numbers
        Of the rules, ascending.
    shares
        Per parameter the share of the rules for which its factor holds, as far as it is known.
    """

    def __init__(
        self, factors: Sequence[Factor], rules: pa.Table, numbers: Rows, shares: Mapping[str, float] | None = None
    ) -> None:
        self.rules = rules
        self.numbers = numbers
        self.alive: Mask | None = None
        there = _without_nulls([parameter(rules, factor) for factor in factors], len(rules))
        self._able = numbers if there is None else numbers[there]
        able = rules if there is None else rules.filter(pa.array(there))
        self.conditions = [_condition(one, able) for one in _conditions(factors, able)] if len(self._able) else []
        self.expected = [_expected(one, len(self._able), shares or {}) for one in self.conditions]
        self._batches = 0
        if self.conditions and not isinstance(self.access, PatternCondition):
            _ = self.access.index  # made here, not in each worker

    def __len__(self) -> int:
        return len(self.numbers) if self.alive is None else int(np.count_nonzero(self.alive))

    @property
    def access(self) -> AnyCondition:
        """The condition with the fewest candidates per row."""
        return self.conditions[int(np.argmin(self.expected))]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        held = self.rules.nbytes + self.numbers.nbytes + (0 if self.alive is None else self.alive.nbytes)
        own = 0 if self._able is self.numbers else self._able.nbytes
        return int(held + own + sum(condition.nbytes for condition in self.conditions))

    def living(self) -> tuple[pa.Table, Rows]:
        """The rules that have not been removed, and their numbers."""
        if self.alive is None:
            return self.rules, self.numbers
        return self.rules.filter(pa.array(self.alive)), self.numbers[self.alive]

    def without(self, numbers: Rows) -> RuleBlock:
        """The same block, in which the rules with these numbers are marked as removed."""
        block = copy(self)
        alive = np.ones(len(self.numbers), np.bool_) if self.alive is None else self.alive.copy()
        alive[np.isin(self.numbers, numbers)] = False
        block.alive, block.expected = alive, list(self.expected)
        return block

    def measured(self) -> dict[str, float]:
        """Per parameter the share of the rules that were candidates by its factor, once rows have been seen."""
        if not self._batches:
            return {}
        shares: dict[str, float] = {}
        for condition, expected in zip(self.conditions, self.expected, strict=True):
            if not isinstance(condition, PatternCondition):
                shares |= {factor.parameter: expected / len(self._able) for factor in condition.condition}
        return shares

    def match(self, rows: pa.Table) -> tuple[Rows, Rows]:
        """Pairs of a row and the number of a rule that holds for it, in the order of rows."""
        columns = {one.attribute: whole(rows.column(one.attribute)) for one in self.conditions}
        for condition in self.conditions:
            condition.domain(columns[condition.attribute].type)
        valid = _without_nulls(list(columns.values()), len(rows))
        if self._batches % BATCHES_PER_SAMPLE == 0:
            self._measure(columns)
        self._batches += 1
        found = list(self._pairs(columns, valid)) if self.conditions else []
        row = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
        number = self._able[np.concatenate([np.empty(0, np.int32), *(rules for _, rules in found)])]
        if self.alive is None:
            return row, number
        kept = self.alive[np.searchsorted(self.numbers, number)]
        return row[kept], number[kept]

    def _pairs(self, columns: Mapping[str, pa.Array], valid: Mask | None) -> Iterator[Pairs]:
        access = self.access
        column = columns[access.attribute]
        if isinstance(access, PatternCondition):
            rows, chunks = _searched(access, column, valid)
        else:
            rows, chunks = _looked_up(access, column, valid)
        if rows is not None:
            columns = {name: one.take(pa.array(rows)) for name, one in columns.items()}
        others = sorted((e, i) for i, e in enumerate(self.expected) if self.conditions[i] is not access)
        ordered = [self.conditions[i] for _, i in others]
        testers = [condition.tester(columns[condition.attribute]) for condition in ordered]
        for pairs in chunks:
            found, rules = _tested(pairs, testers)
            yield (found if rows is None else rows[found]), rules

    def _measure(self, columns: Mapping[str, pa.Array]) -> None:
        """Count the candidates that conditions would give for a sample of the rows."""
        length = min((len(column) for column in columns.values()), default=0)
        if len(self.conditions) < 2 or not length:
            return
        sample = pa.array(np.arange(0, length, -(-length // SAMPLED_ROWS)))
        kept = KEPT if self._batches else 0.0
        for place, condition in enumerate(self.conditions):
            if not isinstance(condition, PatternCondition):
                column = columns[condition.attribute].take(sample)
                _, counts = condition.located(column)
                there = present(column)
                mean = float(np.where(True if there is None else there, counts, 0).mean())
                self.expected[place] = kept * self.expected[place] + (1 - kept) * mean


def _tested(pairs: Pairs, testers: Sequence[Tester]) -> Pairs:
    """The pairs for which all tests hold."""
    for tester in testers:
        held = tester(*pairs)
        if not held.all():
            pairs = pairs[0][held], pairs[1][held]
    return pairs


def _looked_up(
    access: RangeCondition | ListCondition, column: pa.Array, valid: Mask | None
) -> tuple[Rows | None, Iterator[Pairs]]:
    """The rows that have candidates, None if most have some, and the candidates, in chunks."""
    slots, counts = access.located(column)
    if valid is not None:
        counts = np.where(valid, counts, 0)
    rows = np.flatnonzero(counts)
    if len(rows) == len(counts):
        return None, _chunks(access, slots, counts)
    if 2 * len(rows) < len(counts):
        return rows, _chunks(access, slots[rows], counts[rows])
    chunks = _chunks(access, slots[rows], counts[rows])
    return None, ((rows[found], rules) for found, rules in chunks)


def _chunks(access: RangeCondition | ListCondition, slots: Rows, counts: Small) -> Iterator[Pairs]:
    total = np.cumsum(counts, dtype=np.int64)
    start = 0
    while start < len(slots):
        before = int(total[start - 1]) if start else 0
        end = max(int(np.searchsorted(total, before + CANDIDATES_AT_ONCE, side="right")), start + 1)
        rows, rules = access.candidates(slots[start:end])
        yield rows + start, rules
        start = end


def _searched(access: PatternCondition, column: pa.Array, valid: Mask | None) -> tuple[None, Iterator[Pairs]]:
    """All rows, and the candidates, in chunks."""
    rows = np.arange(len(column)) if valid is None else np.flatnonzero(valid)

    def chunks() -> Iterator[Pairs]:
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            some = rows[start : start + TEXTS_AT_ONCE]
            found, rules = access.searched(plain(column.take(pa.array(some))))
            yield some[found], rules

    return None, chunks()


def _without_nulls(columns: Sequence[pa.Array], length: int) -> Mask | None:
    """Which rows have a value in all columns; None if all have."""
    masks = [mask for mask in map(present, columns) if mask is not None]
    return np.logical_and.reduce(masks) if masks and length else None


def _conditions(factors: Sequence[Factor], rules: pa.Table) -> list[Condition]:
    def domain(factor: Factor) -> object:
        return parameter_domain(factor, parameter(rules, factor).type)

    return conditions(factors, lambda one, other: domain(one) == domain(other))


def _condition(condition: Condition, rules: pa.Table) -> AnyCondition:
    op = condition[0].op
    if op in PATTERNS:
        return PatternCondition(condition, rules)
    return ListCondition(condition, rules) if op is Op.IN else RangeCondition(condition, rules)


def _expected(condition: AnyCondition, rules: int, shares: Mapping[str, float]) -> float:
    known = [shares[factor.parameter] for factor in condition.condition if factor.parameter in shares]
    if not known:
        return condition.estimate
    return min(known) * rules + (PATTERN_COST if isinstance(condition, PatternCondition) else 0.0)
