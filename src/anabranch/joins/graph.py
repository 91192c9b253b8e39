"""Join graphs: which windows have keys in common, and in which orders the others can be probed from one of them.

From its own input a row reaches the others along a tree. A *logical filter* asks whether there is a partner in a window
for some combination of partners on the path to it: it stands for the join along the path, and drops the row if there is
none. Filters on a path have to come in its order; otherwise they are ordered like any pipelined filters.

>>> edges = ({0, 1}, {0, 2}, {2, 3}, {2, 4}, {4, 5})                # the thesis's example, with R1 as 0
>>> tree = tree_of(0, 6, edges)
>>> [tree.path(other) for other in tree.others]
[(1,), (2,), (2, 3), (2, 4), (2, 4, 5)]
>>> order = tree.precedence.legal([2, 1, 0, 3, 4])                  # F3, F2, F1, F4, F5
>>> [tree.others[f] + 1 for f in order]
[3, 4, 2, 5, 6]

A graph with cycles has more keys than its tree: they are compared as soon as both windows are bound.

>>> tree_of(0, 3, ({0, 1}, {1, 2}, {2, 0})).path(2)
(2,)

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from anabranch.joins.window_store import Key
from anabranch.ordering.precedence import Precedence


@dataclass(frozen=True)
class ProbeTree:
    """How new rows of one input reach the others.

    Parameters
    ----------
    root
        The input.
    parents
        For each other input the one from which it is probed.
    keys
        The classes that both have in common; none where every row is a partner.
    """

    root: int
    parents: dict[int, int]
    keys: dict[int, Key]

    @property
    def others(self) -> list[int]:
        """The other inputs; filter f is about `others[f]`."""
        return sorted(self.parents)

    @cached_property
    def inner(self) -> frozenset[int]:
        """Inputs from which others are probed."""
        return frozenset(self.parents.values())

    def path(self, other: int) -> tuple[int, ...]:
        """The inputs on the way from the root to another one, and that one."""
        parent = self.parents[other]
        return (other,) if parent == self.root else (*self.path(parent), other)

    @cached_property
    def precedence(self) -> Precedence:
        """Which filters come before which."""
        place = {other: f for f, other in enumerate(self.others)}
        edges = {(place[parent], place[other]) for other, parent in self.parents.items() if parent != self.root}
        return Precedence(len(self.parents), frozenset(edges))


def tree_of(root: int, inputs: int, classes: Sequence[Collection[int]]) -> ProbeTree:
    """The shortest paths from an input to all others, over inputs that have a class in common.

    What no path leads to comes last, under the root: there every row is a partner.
    """
    return tree_among(root, range(inputs), classes)


def tree_among(root: int, inputs: Collection[int], classes: Sequence[Collection[int]]) -> ProbeTree:
    """The same for some of the inputs.

    >>> tree_among(2, (1, 2), ({0, 1}, {1, 2})).parents
    {1: 2}
    """
    parents: dict[int, int] = {}
    keys: dict[int, Key] = {}
    reached = [root]
    while len(reached) < len(inputs):
        near = next(
            (
                (one, other, shared)
                for one in reached
                for other in inputs
                if other not in reached and (shared := in_common(one, other, classes))
            ),
            None,
        )
        one, other, shared = near or (root, min(set(inputs).difference(reached)), ())
        parents[other], keys[other] = one, shared
        reached.append(other)
    return ProbeTree(root, parents, keys)


def in_common(one: int, other: int, classes: Sequence[Collection[int]]) -> Key:
    """The classes that both inputs have.

    >>> in_common(0, 2, [{0, 1}, {0, 2}, {0, 1, 2}])
    (1, 2)
    """
    return tuple(number for number, members in enumerate(classes) if one in members and other in members)
