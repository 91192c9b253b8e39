"""Candidate caches: which segments of probe pipelines can be kept, and what keeps them right.

A *segment* is a run of two or more windows that a pipeline probes one after the other. A cache keeps their join, by the
key with which the segment is probed. It stays right without probes of its own if the *prefix invariant* holds: rows of
each window in the segment probe the others in it first, so that what changes is found on the way.

>>> orders = [(1, 2), (2, 0), (1, 0)]                          # R1: R2, R3; R2: R3, R1; R3: R2, R1
>>> [each.windows for each in prefix_candidates(orders)]       # R2, R3 for rows of R1; not R2, R1 for those of R3
[(1, 2)]

A segment for which it does not hold can be kept together with more windows for which it does: as X semijoined with Y,
those parts of X that have a partner in Y. Y may always be all others.

>>> [(each.windows, sorted(each.support)) for each in global_candidates(orders)]
[((2, 0), [1]), ((1, 0), [2])]

Notes
-----
C_ijk -> `Candidate`: i -> `pipeline`; the operators j to k, or X -> `windows`; K_ijk -> `key`; Y -> `support`.

Differs from the paper
----------------------
What the paper prints as X joined with Y is a semijoin: only the columns of X are kept. Among globally-consistent caches
of the same length those of earlier pipelines come first, where the paper chooses arbitrarily. Y is the smallest set
that does, not always all others.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 5.4, 5.5.4 and 5.7.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from anabranch.joins.window_store import Key
from anabranch.model.arrays import Order

MOST_CANDIDATES = 6

Identity = tuple[frozenset[int], Key, frozenset[int]]
"""What shared caches agree in: their windows, their key, and whose partners they need."""


@dataclass(frozen=True)
class Candidate:
    """A segment of the pipeline of an input.

    Parameters
    ----------
    pipeline
        The input whose rows would look it up.
    place
        The place in the pipeline at which it begins.
    windows
        What is joined in it, in the pipeline's order.
    key
        The classes by which it is looked up.
    support
        Windows in which a kept combination needs a partner; none if the prefix invariant holds.
    """

    pipeline: int
    place: int
    windows: Order
    key: Key = ()
    support: frozenset[int] = frozenset()

    @property
    def identity(self) -> Identity:
        """The same for caches that can be shared."""
        return frozenset(self.windows), self.key, self.support

    @property
    def operators(self) -> frozenset[tuple[int, int]]:
        """The operators that it stands for: pipelines and places."""
        return frozenset((self.pipeline, self.place + step) for step in range(len(self.windows)))

    def overlaps(self, other: Candidate) -> bool:
        """Whether both stand for the same operator somewhere."""
        return bool(self.operators & other.operators)


KeyOf = Callable[[int, Order, Order], Key | None]
"""The key of a segment, given the pipeline, the windows before and those in it; None if it cannot be kept."""


def one_key(pipeline: int, before: Order, windows: Order) -> Key:
    """The key where all windows are joined by one column."""
    return (0,)


def keeps_itself_right(windows: Collection[int], orders: Sequence[Order]) -> bool:
    """Whether the prefix invariant holds for a set of windows.

    >>> keeps_itself_right({1, 2}, [(1, 2), (2, 0), (1, 0)]), keeps_itself_right({0, 1}, [(1, 2), (2, 0), (1, 0)])
    (True, False)
    """
    return all({each, *orders[each][: len(windows) - 1]} == set(windows) for each in windows)


def prefix_candidates(orders: Sequence[Order], key_of: KeyOf = one_key) -> list[Candidate]:
    """All candidates that keep themselves right, pipeline by pipeline."""
    return [each for each in segments(orders, key_of) if keeps_itself_right(each.windows, orders)]


def global_candidates(orders: Sequence[Order], key_of: KeyOf = one_key) -> list[Candidate]:
    """Those that need the support of others: of each segment the one with the fewest, longest segments first."""
    found = []
    for each in sorted(segments(orders, key_of), key=lambda each: -len(each.windows)):
        support = _support(each.windows, orders)
        if support:
            found.append(Candidate(each.pipeline, each.place, each.windows, each.key, support))
    return found


def candidates(orders: Sequence[Order], key_of: KeyOf = one_key, most: int = MOST_CANDIDATES) -> list[Candidate]:
    """All that keep themselves right, and as many others as there is room for.

    >>> [len(candidates([(1, 2), (2, 0), (1, 0)], most=most)) for most in (0, 2, 6)]
    [1, 2, 3]
    """
    found = prefix_candidates(orders, key_of)
    known = {each.operators for each in found}
    others = [each for each in global_candidates(orders, key_of) if each.operators not in known]
    return [*found, *others[: max(0, most - len(found))]]


def segments(orders: Sequence[Order], key_of: KeyOf) -> Iterator[Candidate]:
    """All segments that have a key, pipeline by pipeline."""
    for pipeline, order in enumerate(orders):
        for first, end in combinations(range(len(order) + 1), 2):
            if end - first > 1:
                windows = order[first:end]
                key = key_of(pipeline, order[:first], windows)
                if key is not None:
                    yield Candidate(pipeline, first, windows, key)


def _support(windows: Order, orders: Sequence[Order]) -> frozenset[int]:
    """The fewest windows with which these keep themselves right; none if they do so alone."""
    others = sorted(set(range(len(orders))).difference(windows))
    more = (each for count in range(len(others) + 1) for each in combinations(others, count))
    return next(frozenset(each) for each in more if keeps_itself_right((*windows, *each), orders))
