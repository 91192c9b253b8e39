"""The matrix view: the conditional drop counts that tell whether an order is still greedy.

Row r counts, among the profile tuples that no filter before place r drops, how many each filter at place r or later
drops. The order satisfies the *greedy invariant* when in every row the filter on the diagonal has the highest count per
unit of cost; then its cost is at most four times that of the best order (theorem 4.3.1).

>>> window = np.array([[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1]], dtype=bool)
>>> view = MatrixView((2, 0, 1, 3))
>>> view.insert(window)
>>> view.counts.tolist()
[[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
>>> view.violation(np.ones(4), alpha=1.0) is None
True

Notes
-----
V[i, j] -> `counts[i, j]`, places counted from 0; f(i) -> `order[i]`; a_i -> `costs`, indexed by filter; equation 4.4 ->
`violation`; figure 4.5 -> `insert` and `delete`; figure 4.7 -> `correct`; maxr -> `last`, maxc -> `best`.

Differs from the paper
----------------------
- Figure 4.5 walks tuple by tuple; here a batch is one matrix product, ``V += A^T B``: B holds the tuples' drops in the
  order's sequence, and A[t, r] is 1 while no filter before place r drops tuple t. That is the same sum: A[t, r] is 1
  exactly for the rows r <= dc of the figure, and columns below dc hold zeros in B. (A tuple that nothing drops adds
  nothing.)
- Figure 4.7 *swaps* the best filter with the one at place r. Here the best one *moves* to place r and those between
  shift right. Example 4.3.3 finds a violation at the first place, and corrects it to F4, F3, F1, F2. It does not say
  what its two new tuples are; whatever they are, swapping does not lead there, and moving does (a test enumerates).

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order
from anabranch.stats.processing_times import usable_costs


class MatrixView:
    """Upper triangular drop counts over a profile window, columns in the sequence of `order`."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order: Order = tuple(order)
        self._counts: Floats = np.zeros((len(self.order), len(self.order)))

    @property
    def counts(self) -> Counts:
        """A copy of V, rows and columns by place."""
        return self._counts.astype(np.int64)

    def insert(self, drops: BoolMatrix) -> None:
        """Count profile tuples, one row each, columns by filter as written."""
        if len(drops):
            self._counts += self._contribution(drops)

    def delete(self, drops: BoolMatrix) -> None:
        """Take away profile tuples that were inserted before."""
        if len(drops):
            self._counts -= self._contribution(drops)

    def violation(self, costs: Floats, alpha: float) -> int | None:
        """The first place whose filter is beaten there, by more than the factor `alpha`, by one behind it."""
        ranks = self._counts / usable_costs(costs).take(self.order)
        beaten = (ranks.diagonal()[:, np.newaxis] < alpha * ranks).any(axis=1)
        return int(beaten.argmax()) if beaten.any() else None

    def correct(self, position: int, rows: BoolMatrix, costs: Floats) -> Order:
        """Make the order greedy again from `position` on, as far as that reaches, and return it.

        `rows` are the tuples of the window, the same that the view counts. Ties leave the earlier filter in place.
        """
        costs, order = usable_costs(costs), list(self.order)
        alive = rows[~rows[:, order[:position]].any(axis=1)]
        place = last = position
        while place <= last:
            self._counts[place, place:] = alive[:, order[place:]].sum(axis=0)
            best = place + int((self._counts[place, place:] / costs[order[place:]]).argmax())
            if best > place:
                order.insert(place, order.pop(best))
                moved = self._counts[: place + 1, place : best + 1]
                moved[:] = np.roll(moved, 1, axis=1)
                last = max(last, best)
            alive = alive[~alive[:, order[place]]]
            place += 1
        self.order = tuple(order)
        return self.order

    def _contribution(self, drops: BoolMatrix) -> Floats:
        dropped = drops[:, self.order].astype(np.float64)
        alive = np.ones_like(dropped)
        np.multiply.accumulate(1.0 - dropped[:, :-1], axis=1, out=alive[:, 1:])
        return np.asarray(alive.T @ dropped)
