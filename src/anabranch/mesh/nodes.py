"""The parts of a decision tree: tests, branches and leaves, as plain values.

A test answers *no* for NULL and NaN, always.

>>> node = Branch(AtMost("u", 0.5), Leaf(0), Branch(Among("zone", ("north",)), Leaf(0), Leaf(1)))
>>> node_from_dict(node_to_dict(node)) == node
True
>>> [(leaf.label, path_texts(path)) for leaf, path in walk(node)]
[(0, ('u <= 0.5',)), (0, ('u > 0.5', "zone in ('north')")), (1, ('u > 0.5', "zone not in ('north')"))]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from anabranch.routing.json_values import from_json, to_json

Value = str | bool | int


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
    """A value is one of those listed: texts, true or false, or whole numbers."""

    attribute: str
    values: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether it lists numbers."""
        return not any(isinstance(value, str | bool) for value in self.values)

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
Path = tuple[tuple[Test, bool], ...]


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Leaf, Path]]:
    """Every leaf with the tests that lead to it and their answers, yes before no."""
    if isinstance(node, Leaf):
        yield node, path
        return
    yield from walk(node.yes, (*path, (node.test, True)))
    yield from walk(node.no, (*path, (node.test, False)))


def path_texts(path: Path) -> tuple[str, ...]:
    """The tests of a path as people read them, those that say the same of one attribute in one.

    >>> near, far, low = Among("zone", ("city", "coast")), Among("zone", ("coast", "hills")), AtMost("u", 2.0)
    >>> path_texts(((near, True), (low, True), (far, False), (AtMost("u", 1.0), True)))
    ("zone in ('city')", 'u <= 1')
    """
    return tuple(test.text(answer) for test, answer in joined(path))


def joined(path: Path) -> Path:
    """The tests of a path, those that say the same of one attribute in one."""
    found: dict[tuple[type[Test], str, bool], tuple[Test, bool]] = {}
    for test, answer in path:
        kind = (type(test), test.attribute, answer or isinstance(test, Among))
        before = found.get(kind)
        found[kind] = _both(*before, test, answer) if before else (test, answer)
    return tuple(found.values())


def _both(one: Test, said: bool, other: Test, says: bool) -> tuple[Test, bool]:
    """One test for two of the same attribute and their answers; for numbers, the answers are the same."""
    if isinstance(one, AtMost) and isinstance(other, AtMost):
        bound = min if said else max
        return AtMost(one.attribute, bound(one.threshold, other.threshold)), said
    assert isinstance(one, Among)
    assert isinstance(other, Among)
    here, there = set(one.values), set(other.values)
    if not said and not says:
        left = here | there
    elif said:
        left = here & there if says else here - there
    else:
        left = there - here
    return Among(one.attribute, in_sequence(left)), said or says


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
