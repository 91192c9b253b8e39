"""What profiling costs where calls have a price, weighed against what it can earn.

Trying a dropped row on further filters costs what they cost. It can earn that a better order is found: at most the
difference between the present order and the best rival, as far as the profiles so far leave that open, on all rows to
come. How many come nobody knows; as many again as there were is a fair guess that grows while rows come.

>>> price = ProfilePrice()
>>> undecided = np.array([[True, False], [False, True], [True, True]] * 20)
>>> costs = np.array([0.01, 0.01])
>>> price.worthwhile((0, 1), undecided, costs, rows=100)
3
>>> price.worthwhile((0, 1), undecided, costs, rows=10_000)
256
>>> price.worthwhile((0, 1), np.array([[True, False]] * 60), costs, rows=100)  # nothing can be better
0

Notes
-----
The rivals are the orders in which one filter stands elsewhere. What one can save is bounded by the mean of the
differences over the profiles plus two standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from anabranch.calls.reply import Bill
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering.greedy import row_costs

FIRST_PROFILES = 48
"""Without these nothing can be said: as many rows as the first chunk has, so that an order is found behind it."""
MOST_AT_ONCE = 256
SPENT_SHARE = 0.1
"""Of what the profiles could earn, as much is paid for them."""
STANDARD_ERRORS = 2.0
SECOND_PRICE = 1e-5
"""Money that a second of a machine costs, so that filters which call nobody are ordered, too: four cents an hour."""


class ProfilePrice:
    """Prices of filters, and how many profiles are worth theirs."""

    def of(self, bill: Bill | None, seconds: float) -> float:
        """What some rows have cost."""
        return seconds * SECOND_PRICE + (0.0 if bill is None else bill.money)

    def worthwhile(self, order: Order, profiles: BoolMatrix, costs: Floats, rows: int) -> int:
        """How many more dropped rows to profile in the next chunk.

        Parameters
        ----------
        order
            The present one.
        profiles
            Profile tuples so far.
        costs
            Of every filter, per row.
        rows
            Rows so far.
        """
        if len(profiles) < FIRST_PROFILES:
            return FIRST_PROFILES - len(profiles)
        known = np.nan_to_num(costs)
        present = row_costs(order, profiles, known)
        gain = max((_at_best(present - row_costs(rival, profiles, known)) for rival in _rivals(order)), default=0.0)
        whole = float(known.sum())
        price = float((whole - present).mean())
        if price <= 0:
            return MOST_AT_ONCE if gain > 0 else 0
        return int(min(SPENT_SHARE * gain * rows / price, MOST_AT_ONCE))


def _at_best(savings: Floats) -> float:
    """What an order may save per row, at best."""
    error = float(savings.std()) / math.sqrt(len(savings))
    mean = float(savings.mean())
    return max(0.0, mean + STANDARD_ERRORS * error)


def _rivals(order: Order) -> Iterator[Order]:
    """The orders in which one filter stands elsewhere."""
    for place, f in enumerate(order):
        rest = order[:place] + order[place + 1 :]
        yield from ((*rest[:at], f, *rest[at:]) for at in range(len(order)) if at != place)
