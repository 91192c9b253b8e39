"""What a join holds of one input: its elements in a window store, and their columns.

Elements that have ended are dropped. Elements that take others back are *settled* when they have become many: the
element that was taken back ends where it was, and both together are one element again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from anabranch.joins.codes import mixed
from anabranch.joins.window_store import Key, WindowStore
from anabranch.model.arrays import Counts
from anabranch.operators.base import ELEMENT, END, START, WEIGHT, Micros
from anabranch.operators.elements import Flags, Rows, ints, settle, suspects, with_ints, without
from anabranch.operators.payload import Payload, whole_numbers

SETTLE_SHARE = 0.25


class JoinWindow:
    """The elements of one input that can still matter.

    Parameters
    ----------
    columns
        Its column in each class of equal columns that it takes part in.
    exact
        Classes of whole numbers, which are their own codes; codes of others come in columns `_key{class}`.
    probed
        Keys by which its elements are looked for.
    """

    def __init__(self, columns: Mapping[int, str], exact: Collection[int], probed: Collection[Key]) -> None:
        self._columns, self._exact = columns, exact
        self._coded = tuple(code_name(each) for each in columns if each not in exact)
        self._probed = tuple(sorted(probed))
        kept = dict.fromkeys([*((each,) for each in columns), *self._probed])
        self.store = WindowStore(tuple(kept), self._probed)
        self.payload = Payload()
        self._negative = 0

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, with indexes."""
        return self.store.nbytes + self.payload.nbytes

    def append(self, table: pa.Table, *, for_now: bool = False) -> tuple[int, int]:
        """Add elements; returns the number of the first, and that after the last.

        `for_now` if `shorten` takes them away again.
        """
        first = len(self)
        every = [code_name(each) for each in self._columns]
        if len(table) or not self.payload.seen:
            self.payload.append(without(table, [*ELEMENT, *every]), for_now=for_now)
        if len(table):
            start, end, weight = (ints(table, name) for name in ELEMENT)
            self.store.append(start, end, weight, self.codes(table))
            self._negative += 0 if for_now else int(np.count_nonzero(weight < 0))
        return first, len(self)

    def shorten(self, length: int) -> None:
        """Drop what was added for now, so that so many elements are left."""
        self.store.shorten(length)
        self.payload.shorten(length)

    def take_oldest(self, count: int) -> pa.Table:
        """Hand over the oldest elements: what `append` takes."""
        taken = self.table(0, count)
        self._negative = max(0, self._negative - int(np.count_nonzero(self.store.weight[:count] < 0)))
        self.payload.keep(slice(count, None))
        self.store.drop(count)
        return taken

    def fit(self) -> None:
        """Take no more memory than the elements need; indexes are made anew when they are asked."""
        self.store.fit()
        self.payload.fit()

    def codes(self, table: pa.Table) -> dict[Key, Micros]:
        """The codes of rows, by all keys."""
        found: dict[Key, Micros] = {}
        for each, name in self._columns.items():
            column = table.column(name if each in self._exact else code_name(each))
            found[each,] = whole_numbers(column)
        for key in self._probed:
            found.setdefault(key, mixed([found[each,] for each in key]) if key else np.zeros(len(table), np.int64))
        return found

    def table(self, first: int = 0, until: int | None = None) -> pa.Table:
        """Elements in order, all or from one number to before another: what `append` takes."""
        # Arrow would share the memory, which goes on changing.
        copies = {name: values[first:until].copy() for name, values in self._numbers.items()}
        return with_ints(self.payload.table(first, until), copies)

    def settle(self) -> None:
        """Put elements together with those that take them back, if there are such."""
        if self._negative:
            self._settle(np.arange(len(self)))

    def take(self, rows: Rows) -> pa.Table:
        """Some elements: what `append` takes."""
        return with_ints(self.payload.take(rows), {name: values[rows] for name, values in self._numbers.items()})

    @property
    def _numbers(self) -> dict[str, Counts]:
        """What the store has of the rows, as columns."""
        codes = {code_name(each): self.store.codes((each,)) for each in self._columns if each not in self._exact}
        return codes | {START: self.store.start, END: self.store.end, WEIGHT: self.store.weight}

    def tidy(self, now: int) -> tuple[bool, int | Flags | None]:
        """Drop what does not matter from `now` on, if it is worth while.

        Returns whether ends have changed, and which rows are gone: so many at the front, or the marked ones.
        """
        settling = self._negative > SETTLE_SHARE * (len(self) - self._negative)
        if settling:
            self._settle(np.flatnonzero(self.store.end > now))
        gone = self.store.expired(now)
        if gone is not None:
            self.drop(gone)
        return settling, gone

    def drop(self, gone: int | Flags) -> None:
        """Drop rows, whether they matter or not: so many at the front, or the marked ones."""
        self.payload.keep(slice(gone, None) if isinstance(gone, int) else ~gone)
        self.store.drop(gone)

    def _settle(self, rows: Rows) -> None:
        """Put elements together with those that take them back, all of which are among the rows."""
        store = self.store
        whole = with_ints(self.payload.table(), {END: store.end})
        rows, groups = suspects(whole, rows, store.weight[rows] < 0)
        order, ends, weights = settle(groups, store.start[rows], store.end[rows], store.weight[rows])
        store.settle(rows[order], ends, weights)
        self._negative = 0


def code_name(number: int) -> str:
    """The column with the codes of a class of equal columns."""
    return f"_key{number}"
