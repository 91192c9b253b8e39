"""The constants of a condition cut the domain of its attribute into slots.

Constant number i has slot 2i + 1, and the gap before it slot 2i. A row's value lies in one slot, found once; then every
comparison with a constant is one of small integers, whatever the type.

>>> slots = ValueSlots.of(values_of(pa.array([7, 3, 7])), Domain("number", "integer"))[0]
>>> slots.size, slots.located(pa.array([1, 3, 5, 7, 9])).tolist()
(5, [0, 1, 2, 3, 4])
>>> slots.located(pa.array([2.9, 3.0, 6.5])).tolist()  # against doubles, without rounding
[0, 1, 2]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Mask
from anabranch.rules.bucket_search import BucketSearch, Keys, Small
from anabranch.rules.domains import Domain, Numbers, Values, comparable, floats_of, values_of
from anabranch.rules.exact_bounds import FIRST, LAST, Bounds, bounds_of
from anabranch.rules.text_search import TextSearch
from anabranch.rules.texts import Texts


class ValueSlots:
    """Sorted constants, and where values lie between them.

    Parameters
    ----------
    constants
        Distinct and ascending.
    domain
        Of the constants.
    """

    def __init__(self, constants: Values, domain: Domain) -> None:
        self.domain = domain
        self.constants = constants
        self.count = len(constants.keys) if isinstance(constants, Numbers) else len(constants)
        self._searches: dict[Domain, Search] = {}

    @classmethod
    def of(cls, values: Values, domain: Domain) -> tuple[ValueSlots, Small]:
        """The slots that some values make, and the number of each value among the constants."""
        if isinstance(values, Texts):
            coded = values.array().dictionary_encode()
            order = pc.sort_indices(coded.dictionary).to_numpy()
            ranks = np.empty(len(order), np.int32)
            ranks[order] = np.arange(len(order), dtype=np.int32)
            constants: Values = Texts.of(coded.dictionary.take(order))
            return cls(constants, domain), ranks[coded.indices.to_numpy()]
        keys, numbers = np.unique(values.keys, return_inverse=True)
        return cls(Numbers(keys), domain), numbers.astype(np.int32)

    @property
    def size(self) -> int:
        """Number of slots."""
        return 2 * self.count + 1

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        held = self.constants.keys if isinstance(self.constants, Numbers) else self.constants
        return held.nbytes + sum(search.nbytes for search in self._searches.values())

    def __getstate__(self) -> dict[str, Any]:
        """What is found again from the constants does not travel."""
        return self.__dict__ | {"_searches": {}}

    def search(self, rows: Domain) -> Search:
        """How values of a domain are found."""
        if rows not in self._searches:
            self._searches[rows] = Search.of(bounds_of(self.constants, self.domain, rows), rows)
        return self._searches[rows]

    def located(self, array: pa.Array) -> Keys:
        """The slot of each value; a NULL has any."""
        return self.search(comparable(array.type, "an array")).slots(values_of(array))


@dataclass(frozen=True)
class Search:
    """Where values of one domain lie between constants of any.

    Parameters
    ----------
    bounds
        Of the constants, in the rows' domain.
    finder
        For these bounds.
    """

    bounds: Bounds
    finder: BucketSearch | TextSearch

    @classmethod
    def of(cls, bounds: Bounds, rows: Domain) -> Search:
        """The search for some bounds of the rows' domain."""
        values = bounds.values
        if isinstance(values, Texts):
            return cls(bounds, TextSearch.of(values))
        hints = floats_of(values.keys) if rows.form == "float" else None  # rows of floats are put into buckets by them
        return cls(bounds, BucketSearch.of(values.keys, hints))

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the bounds where these are the constants."""
        exact = self.bounds.exact
        return self.finder.nbytes + (0 if exact is None else exact.nbytes)

    def slots(self, values: Values) -> Keys:
        """The slot of each value."""
        if isinstance(values, Texts):
            assert isinstance(self.finder, TextSearch)
            right, equal = self.finder.right(values)
        else:
            assert isinstance(self.finder, BucketSearch)
            right = self.finder.right(values.keys, values.hints)
            equal = (self.finder.keys[right - 1] == values.keys) & (right > 0)
        if self.bounds.exact is not None and len(self.bounds.exact):
            equal &= self.bounds.exact[right - 1]
        return 2 * right - equal

    def least_keys(self, slots: Small) -> tuple[Keys, Mask]:
        """For numbers: the least key from a slot on, and where there is none since all keys are smaller."""
        assert isinstance(self.bounds.values, Numbers)
        keys = self.bounds.values.keys
        exact = np.ones(len(keys), np.bool_) if self.bounds.exact is None else self.bounds.exact
        constant = (slots.astype(np.int64) - 1) >> 1
        beyond = constant >= len(keys)
        held = np.append(keys, FIRST)[np.where(beyond, -1, constant)]
        past = (slots % 2 == 0) & (constant >= 0) & ~beyond & np.append(exact, False)[np.where(beyond, -1, constant)]
        beyond |= past & (held == LAST)
        return held + (past & ~beyond), beyond
