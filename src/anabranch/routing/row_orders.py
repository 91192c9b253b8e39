"""Rows that each have an order of their own go through filters, in few calls.

Every row waits for the next filter of its order. The filter for which most rows wait is called on all of them at once;
what it passes waits for the filter after it.

>>> passes = np.array([[0, 1], [1, 1], [1, 0]], dtype=bool)
>>> calls = []
>>> def judge(f, rows):
...     calls.append((f, rows.tolist()))
...     return passes[rows, f]
>>> survivors, entered, passed = run(np.array([[0, 1], [1, 0], [0, 1]]), judge)
>>> survivors.tolist(), calls
([1], [(0, [0, 2]), (1, [1, 2]), (0, [1])])
>>> entered.astype(int).tolist()
[[1, 0], [1, 1], [1, 1]]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anabranch.model.arrays import BoolMatrix, Mask, Rows, all_rows
from anabranch.ordering.precedence import Precedence
from anabranch.routing.sbr import Orders


def run(orders: Orders, judge: Callable[[int, Rows], Mask]) -> tuple[Rows, BoolMatrix, BoolMatrix]:
    """The rows that pass every filter, and which filters each row entered and passed."""
    count, filters = orders.shape
    entered, passed = (np.zeros((count, filters), dtype=np.bool_) for _ in range(2))
    place, alive, waiting = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_), all_rows(count)
    while len(waiting):
        following = orders[waiting, place[waiting]]
        sizes = np.bincount(following, minlength=filters)
        f = int(sizes.argmax())
        rows = waiting if sizes[f] == len(waiting) else waiting[following == f]
        mask = judge(f, rows)
        entered[rows, f], passed[rows, f] = True, mask
        alive[rows] = mask
        place[rows] += 1
        waiting = np.flatnonzero(alive & (place < filters))
    return np.flatnonzero(alive), entered, passed


def legal_orders(orders: Orders, precedence: Precedence) -> Orders:
    """The orders that are nearest to those wished, and respect every constraint.

    >>> legal_orders(np.array([[1, 0], [0, 1]]), Precedence(2, frozenset({(0, 1)}))).tolist()
    [[0, 1], [0, 1]]
    """
    if not precedence or not len(orders):
        return orders
    wishes, group = np.unique(orders, axis=0, return_inverse=True)
    found: Orders = np.array([precedence.legal(wish.tolist()) for wish in wishes], dtype=np.int64)
    return found[group.reshape(-1)]
