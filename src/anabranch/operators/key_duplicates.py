"""New rows that have the key of another row which is there at the same time, in a window or on disk.

>>> window = JoinWindow({0: "city"}, (0,), [(0,)])
>>> rows = pa.table({"city": [7, 8, 7], "n": [1, 2, 3], "_start": [1, 2, 3], "_end": [9, 9, 9], "_weight": [1, 1, 1]})
>>> _ = window.append(rows)
>>> duplicates(window, ColdRows(((0,),)), (0,), (), first=2)
(1, [(7, 1), (7, 3)])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.joins.window_store import Key
from anabranch.model.arrays import Rows
from anabranch.operators.base import END, START
from anabranch.operators.cold_rows import ColdRows
from anabranch.operators.elements import ints, same
from anabranch.operators.join_window import JoinWindow

ENOUGH = 16
"""Rows that have the key of another one: then it is none, whatever the others have."""
SAMPLED_AT_ONCE = 32
"""So many new rows are looked for on disk: if two rows of a key are needed, they are found anyway."""
Pair = list[tuple[object, ...]]


def duplicates(window: JoinWindow, cold: ColdRows, key: Key, names: Sequence[str], first: int) -> tuple[int, Pair]:
    """How many pairs there are with a row from `first` on, of those that are looked at, and the first of them.

    `names` are the columns of the key, if equal codes do not say that they are equal.
    """
    store = window.store
    new = store.repeated(key, first, len(window) if names else ENOUGH)
    at, other = store.matches(key, store.codes(key)[new], store.start[new], store.end[new])
    one = new[at]
    good = other < one
    for name in names if good.any() else ():
        good &= same(window.payload.take(one, [name]).column(name), window.payload.take(other, [name]).column(name))
    one, other = one[good], other[good]
    if len(one):
        return len(one), _told(window.payload.take(np.array([other[0], one[0]])))
    if not len(cold):
        return 0, []
    step = -(-(len(window) - first) // SAMPLED_AT_ONCE) or 1
    return _on_disk(window, cold, key, names, np.arange(first, len(window), step))


def _on_disk(window: JoinWindow, cold: ColdRows, key: Key, names: Sequence[str], new: Rows) -> tuple[int, Pair]:
    codes = window.store.codes(key)[new]
    found = cold.find(key, codes)
    if found is None:
        return 0, []
    there = window.codes(found)[key]
    order = np.argsort(codes, kind="stable")
    one = new[order[np.searchsorted(codes[order], there)]]  # one new row with the code of each that was found
    store = window.store
    good = (ints(found, START) < store.end[one]) & (ints(found, END) > store.start[one])
    for name in names:
        good &= same(window.payload.take(one, [name]).column(name), found.column(name))
    if not good.any():
        return 0, []
    place, columns = int(np.flatnonzero(good)[0]), window.payload.names
    rows = pa.concat_tables([found.slice(place, 1).select(columns), window.payload.take(one[place : place + 1])])
    return int(np.count_nonzero(good)), _told(rows)


def _told(rows: pa.Table) -> Pair:
    return [tuple(row.values()) for row in rows.to_pylist()]
