"""The parts of a decision tree: tests, branches and leaves, as plain values.

A test answers *no* for NULL and NaN, always.

>>> node = Branch(AtMost("u", 0.5), Leaf(0), Branch(Among("zone", ("north",)), Leaf(0), Leaf(1)))
>>> node_from_dict(node_to_dict(node)) == node
True
>>> [(leaf.label, path) for leaf, path in walk(node)]
[(0, ('u <= 0.5',)), (0, ('u > 0.5', "zone in ('north')")), (1, ('u > 0.5', "zone not in ('north')"))]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from anabranch.routing.json_values import from_json, to_json

Value = str | bool


@dataclass(frozen=True)
class AtMost:
    """A number is at most the threshold; with the threshold infinity, it is known at all."""

    attribute: str
    threshold: float

    def text(self, answer: bool) -> str:
        """The test as people read it, for one of its two answers."""
        if self.threshold == inf:
            return f"{self.attribute} is {'known' if answer else 'NULL'}"
        return f"{self.attribute} {'<=' if answer else '>'} {self.threshold:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"attribute": self.attribute, "at_most": to_json(self.threshold)}


@dataclass(frozen=True)
class Among:
    """A value is one of those listed."""

    attribute: str
    values: tuple[Value, ...]

    def text(self, answer: bool) -> str:
        """The test as people read it, for one of its two answers."""
        return f"{self.attribute} {'in' if answer else 'not in'} ({', '.join(map(repr, self.values))})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"attribute": self.attribute, "among": [to_json(v) for v in self.values]}


Test = AtMost | Among


@dataclass(frozen=True)
class Leaf:
    """Where a path ends: the number of a route."""

    label: int


@dataclass(frozen=True)
class Branch:
    """A test, and where to go on for each answer."""

    test: Test
    yes: Node
    no: Node


Node = Leaf | Branch


def walk(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[Leaf, tuple[str, ...]]]:
    """Every leaf with the tests that lead to it, yes before no."""
    if isinstance(node, Leaf):
        yield node, path
        return
    yield from walk(node.yes, (*path, node.test.text(True)))
    yield from walk(node.no, (*path, node.test.text(False)))


def renumbered(node: Node, label: Callable[[int], int]) -> Node:
    """The same tree with other labels."""
    if isinstance(node, Leaf):
        return Leaf(label(node.label))
    return Branch(node.test, renumbered(node.yes, label), renumbered(node.no, label))


def simplified(node: Node) -> Node:
    """Without tests whose two sides are alike; memberships of one attribute in a row become one.

    >>> south = Branch(Among("zone", ("south",)), Leaf(1), Leaf(0))
    >>> simplified(Branch(Among("zone", ("north",)), Leaf(1), Branch(AtMost("u", 3.0), south, south)))
    Branch(test=Among(attribute='zone', values=('north', 'south')), yes=Leaf(label=1), no=Leaf(label=0))
    """
    if isinstance(node, Leaf):
        return node
    yes, no, test = simplified(node.yes), simplified(node.no), node.test
    if yes == no:
        return yes
    if isinstance(no, Branch) and no.yes == yes and (both := _either(test, no.test)):
        return Branch(both, yes, no.no)
    return Branch(test, yes, no)


def _either(one: Test, other: Test) -> Among | None:
    """The membership that holds where one of two holds, if both ask for the same attribute."""
    if isinstance(one, Among) and isinstance(other, Among) and one.attribute == other.attribute:
        return Among(one.attribute, in_sequence({*one.values, *other.values}))
    return None


def in_sequence(values: set[Any]) -> tuple[Any, ...]:
    """Values in an order that does not depend on hashing, whatever their types."""
    return tuple(sorted(values, key=lambda v: (type(v).__name__, v)))


def node_to_dict(node: Node) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    if isinstance(node, Leaf):
        return {"route": node.label}
    return {**node.test.to_dict(), "yes": node_to_dict(node.yes), "no": node_to_dict(node.no)}


def node_from_dict(data: Mapping[str, Any]) -> Node:
    """What `node_to_dict` wrote."""
    if "route" in data:
        return Leaf(int(data["route"]))
    yes, no = node_from_dict(data["yes"]), node_from_dict(data["no"])
    if "among" in data:
        return Branch(Among(data["attribute"], tuple(map(from_json, data["among"]))), yes, no)
    return Branch(AtMost(data["attribute"], float(from_json(data["at_most"]))), yes, no)
