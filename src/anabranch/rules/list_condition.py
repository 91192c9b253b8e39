"""`in` with the lists of all rules: a rule holds for each value of its list; NULLs in lists match nothing.

>>> from anabranch.rules.factors import Factor, Op
>>> condition = ListCondition((Factor("port", Op.IN, "ports"),), pa.table({"ports": [[80, 443], [22], []]}))
>>> slots, counts = condition.located(pa.array([443, 22, 21]))
>>> counts.tolist(), [part.tolist() for part in condition.candidates(slots)]
([1, 1, 0], [[0, 1], [0, 1]])
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.domains import Domain, by_value, plain, values_of
from anabranch.rules.equality_index import EqualityIndex
from anabranch.rules.factors import Condition, in_words
from anabranch.rules.parameters import parameter, parameter_domain, row_domain
from anabranch.rules.postings import Pairs, Tester
from anabranch.rules.slots import ValueSlots


class ListCondition:
    """`in`: a rule holds for each value of its list."""

    def __init__(self, condition: Condition, rules: pa.Table) -> None:
        self.condition = condition
        self.attribute = condition[0].attribute
        lists = parameter(rules, condition[0])
        domain = parameter_domain(condition[0], lists.type)
        items, owners = lists.flatten(), pc.list_parent_indices(lists)
        there = pc.is_valid(items)
        items, owners = plain(items.filter(there)), owners.filter(there).to_numpy()
        self.slots, constants = ValueSlots.of(values_of(items), domain)
        self._entries = np.unique(owners.astype(np.int64) * self.slots.size + 2 * constants.astype(np.int64) + 1)
        self.coverage: Small = np.bincount(self._entries % self.slots.size, minlength=self.slots.size).astype(np.int32)

    def __str__(self) -> str:
        return in_words(self.condition)

    @property
    def estimate(self) -> float:
        """Candidates per row: rows are taken to have one of the constants."""
        return len(self._entries) / max(self.slots.count, 1)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        made = self.index.nbytes if "index" in self.__dict__ else 0
        return self.slots.nbytes + self._entries.nbytes + self.coverage.nbytes + made

    @property
    def how(self) -> str:
        """The structure, in words."""
        return self.index.name

    @cached_property
    def index(self) -> EqualityIndex:
        """The lists of rules, made when they are first needed."""
        size = self.slots.size
        return EqualityIndex.of(self._entries % size >> 1, self._entries // size, self.slots.count)

    def domain(self, kind: pa.DataType) -> Domain:
        """How values of a type are compared; an error if they cannot be."""
        return row_domain(self.condition[0], kind, self.slots.domain)

    def located(self, column: pa.Array) -> tuple[Keys, Small]:
        """The slot of each value, and the number of candidates there."""
        slots = by_value(column, self._slots)
        return slots, self.coverage[slots]

    def candidates(self, slots: Keys) -> Pairs:
        """Places of slots and rules that hold there, in the order of places."""
        return self.index.pairs(slots)

    def tester(self, column: pa.Array) -> Tester:
        """Says which pairs of a row and a rule match."""
        slots = by_value(column, self._slots)
        entries = np.append(self._entries, -1)

        def holds(rows: Rows, rules: Small) -> Mask:
            wanted = rules.astype(np.int64) * self.slots.size + slots[rows]
            return np.asarray(entries[np.searchsorted(self._entries, wanted)] == wanted)

        return holds

    def _slots(self, array: pa.Array) -> Keys:
        return self.slots.search(self.domain(array.type)).slots(values_of(array))
