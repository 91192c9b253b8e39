"""Content-Knows: the bound for content-based routing, which is told what Content-Learns must find out.

>>> router = ContentKnows([[0, 1], [1, 0]], classifier=0)           # the best order of class 0 and of class 1
>>> router.orders([np.array([1, 0, 1])], rows=3)
array([[1, 0],
       [0, 1],
       [1, 0]])

`best_orders` finds them from the selectivities of each class.

>>> best_orders([[0.1, 0.9], [0.9, 0.1]])
array([[0, 1],
       [1, 0]])

Differs from the paper
----------------------
Nothing; the paper says no more than that it is told the classifier and the best order of each class.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from anabranch.model.arrays import Floats
from anabranch.routing.partitioning import Column
from anabranch.routing.sbr import Orders, Seen, urgency


def best_orders(selectivities: ArrayLike, costs: Floats | None = None) -> Orders:
    """The best order of each class of tuples whose operators are independent, from the selectivities class by class."""
    return np.argsort(urgency(np.asarray(selectivities, dtype=np.float64), costs), axis=1, kind="stable")


class ContentKnows:
    """Routes each row by the best order of its class.

    Parameters
    ----------
    orders
        One order per class.
    classifier
        Index of the attribute that holds the class: integers from 0.
    """

    name = "content_knows"

    def __init__(self, orders: ArrayLike, *, classifier: int = 0) -> None:
        self.best: Orders = np.asarray(orders, dtype=np.int64)
        self.classifier = classifier
        self.classifiers = np.full(self.best.shape[1], classifier, dtype=np.int64)

    def orders(self, columns: Sequence[Column], rows: int) -> Orders:
        """The best order for each row of a batch."""
        found: Orders = self.best[columns[self.classifier]]
        return found

    def observe(self, seen: Seen) -> None:
        """Learn nothing."""
