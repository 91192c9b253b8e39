"""Comparisons with the constants of all rules: a rule holds from one slot on and before another.

As access, a condition gives the rules that hold in a row's slot. Otherwise it tests pairs of a row and a rule: numbers
by their keys, which need no search, texts and addresses by their slots.

>>> rules = pa.table({"low": [1.0, 2.0], "high": [3.0, 9.0]})
>>> factors = Factor("value", Op.AT_LEAST, "low"), Factor("value", Op.LESS, "high")
>>> condition = RangeCondition(factors, rules)
>>> slots, counts = condition.located(pa.array([0, 2, 3]))
>>> counts.tolist(), [part.tolist() for part in condition.candidates(slots)]
([0, 2, 1], [[1, 1, 2], [0, 1, 1]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.addresses import addresses_of, networks_of
from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.domains import Domain, Numbers, Values, by_value, values_of
from anabranch.rules.equality_index import EqualityIndex
from anabranch.rules.exact_bounds import FIRST, LAST
from anabranch.rules.factors import LOWER, Condition, Factor, Op, in_words
from anabranch.rules.interval_index import IntervalIndex
from anabranch.rules.order_index import OrderIndex
from anabranch.rules.parameters import ADDRESSES, parameter, parameter_domain, row_domain
from anabranch.rules.postings import Pairs, Tester
from anabranch.rules.prefix_index import PrefixIndex
from anabranch.rules.slots import ValueSlots
from anabranch.rules.texts import Texts


@dataclass(frozen=True)
class _Window:
    """Per rule the first and last position at which it holds, and which rules never do."""

    lows: Keys | Small | None
    highs: Keys | Small | None
    never: Mask | None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.lows, self.highs, self.never) if array is not None)


class RangeCondition:
    """Comparisons: `=`, `<`, `<=`, `>`, `>=`, both ends of an interval, prefixes, networks.

    Parameters
    ----------
    condition
        One factor, or two ends.
    rules
        Parameters of rules, without NULLs.
    """

    def __init__(self, condition: Condition, rules: pa.Table) -> None:
        self.condition = condition
        self.attribute = condition[0].attribute
        self.slots, self.starts, self.stops = _intervals(condition, rules)
        held = np.flatnonzero(self.starts < self.stops)
        size = self.slots.size
        opened = np.bincount(self.starts[held], minlength=size + 1)
        opened -= np.bincount(self.stops[held], minlength=size + 1)
        self.coverage: Small = np.cumsum(opened)[:size].astype(np.int32)
        self._windows: dict[Domain, _Window] = {}

    def __str__(self) -> str:
        return in_words(self.condition)

    @property
    def estimate(self) -> float:
        """Candidates per row, as far as the rules tell: rows are taken to be spread like the constants."""
        if self.condition[0].op is Op.EQUAL:
            return len(self.starts) / max(self.slots.count, 1)
        return float(self.coverage.mean())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        made = self.index.nbytes if "index" in self.__dict__ else 0
        windows = sum(window.nbytes for window in self._windows.values())
        own = self.starts.nbytes + self.stops.nbytes + self.coverage.nbytes
        return self.slots.nbytes + own + made + windows

    @cached_property
    def index(self) -> EqualityIndex | OrderIndex | PrefixIndex | IntervalIndex:
        """The structure that gives candidates, made when it is first needed."""
        op, size = self.condition[0].op, self.slots.size
        rules = np.arange(len(self.starts), dtype=np.int32)
        if len(self.condition) == 2:
            return IntervalIndex.of(self.starts, self.stops, rules, size)
        if op is Op.EQUAL:
            return EqualityIndex.of(self.starts >> 1, rules, self.slots.count)
        if op in (Op.PREFIX, Op.NETWORK):
            return PrefixIndex.of(self.starts, self.stops, rules, size)
        lower = op in LOWER
        return OrderIndex.of(self.starts if lower else self.stops, rules, size, lower=lower)

    @property
    def how(self) -> str:
        """The structure, in words."""
        return self.index.name

    def domain(self, kind: pa.DataType) -> Domain:
        """How values of a type are compared; an error if they cannot be."""
        return row_domain(self.condition[0], kind, self.slots.domain)

    def located(self, column: pa.Array) -> tuple[Keys, Small]:
        """The slot of each value, and the number of candidates there."""
        slots = by_value(column, self._slots)
        counts = self.coverage[slots]
        if self.slots.domain == ADDRESSES:
            counts = np.where(slots < 0, 0, counts)
        return slots, counts

    def candidates(self, slots: Keys) -> Pairs:
        """Places of slots and rules that hold there, in the order of places."""
        return self.index.pairs(slots)

    def tester(self, column: pa.Array) -> Tester:
        """Says which pairs of a row and a rule match."""
        window = self.window(column.type)
        positions = by_value(column, self._positions)

        def holds(rows: Rows, rules: Small) -> Mask:
            here = positions[rows]
            held = np.ones(len(rows), np.bool_) if window.lows is None else here >= window.lows[rules]
            if window.highs is not None:
                held &= here <= window.highs[rules]
            if window.never is not None:
                held &= ~window.never[rules]
            return held

        return holds

    def _slots(self, array: pa.Array) -> Keys:
        """The slot of each value; -1 for what is no address."""
        if self.slots.domain == ADDRESSES:
            self.domain(array.type)
            keys, there = addresses_of(array)
            return np.where(there, self.slots.search(ADDRESSES).slots(keys), -1)
        return self.slots.search(self.domain(array.type)).slots(values_of(array))

    def _positions(self, array: pa.Array) -> Keys:
        """What rows are tested by: keys of numbers, slots of others."""
        if self.domain(array.type).form in ("integer", "float"):
            values = values_of(array)
            assert isinstance(values, Numbers)
            return values.keys
        return self._slots(array)

    def window(self, kind: pa.DataType) -> _Window:
        """The positions at which rules hold, for rows of a type."""
        domain = self.domain(kind)
        if domain not in self._windows:
            self._windows[domain] = self._window(domain)
        return self._windows[domain]

    def _window(self, domain: Domain) -> _Window:
        ops = {factor.op for factor in self.condition}
        search = self.slots.search(domain)
        if isinstance(search.bounds.values, Texts):
            lows: Keys | Small = self.starts
            highs: Keys | Small = self.stops - 1
            never = np.zeros(0, np.bool_)
        else:
            lows, beyond = search.least_keys(self.starts)
            after, open_end = search.least_keys(self.stops)
            never = beyond | (~open_end & (after == FIRST))
            highs = np.where(open_end, LAST, after - ~(open_end | never))
        one_sided = len(ops) == 1 and not ops & {Op.EQUAL, Op.PREFIX, Op.NETWORK}
        lower_only, upper_only = one_sided and ops <= {*LOWER}, one_sided and not ops <= {*LOWER}
        return _Window(None if upper_only else lows, None if lower_only else highs, never if never.any() else None)


def _intervals(condition: Condition, rules: pa.Table) -> tuple[ValueSlots, Small, Small]:
    """The slots of a condition's constants, and for each rule the first slot and the one after the last."""
    factor = condition[0]
    column = parameter(rules, factor)
    domain = parameter_domain(factor, column.type)
    if factor.op is Op.NETWORK:
        first, last = networks_of(column)
        slots, number = ValueSlots.of(first.followed_by(last), domain)
        return slots, 2 * number[: len(column)] + 1, 2 * number[len(column) :] + 2
    if factor.op is Op.PREFIX:
        texts = Texts.of(column)
        slots, number = ValueSlots.of(texts.followed_by(texts.successors()), domain)
        stops = 2 * number[len(column) :] + 1
        return slots, 2 * number[: len(column)] + 1, np.where(texts.ends == texts.begins, slots.size, stops)
    columns = [values_of(parameter(rules, factor)) for factor in condition]
    slots, number = ValueSlots.of(columns[0] if len(columns) == 1 else _both(*columns), domain)
    if len(condition) == 2:
        low, high = number[: len(column)], number[len(column) :]
        return slots, _ends(condition[0], low, slots)[0], _ends(condition[1], high, slots)[1]
    return slots, *_ends(factor, number, slots)


def _ends(factor: Factor, constants: Small, slots: ValueSlots) -> tuple[Small, Small]:
    """The first slot and the one after the last in which a comparison holds."""
    at = 2 * constants + 1
    first, last = np.zeros_like(at), np.full_like(at, slots.size)
    match factor.op:
        case Op.LESS:
            return first, at
        case Op.AT_MOST:
            return first, at + 1
        case Op.GREATER:
            return at + 1, last
        case Op.AT_LEAST:
            return at, last
        case _:
            return at, at + 1


def _both(one: Values, other: Values) -> Values:
    if isinstance(one, Texts) and isinstance(other, Texts):
        return one.followed_by(other)
    assert isinstance(one, Numbers)
    assert isinstance(other, Numbers)
    return Numbers(np.concatenate((one.keys, other.keys)))
