"""How the state of a query grows: bounded, with the keys, or without bound; and what would bound it.

What an operator keeps is bounded if what it reads is: rows leave windows over time and over rows. Groups and distinct
rows over what never leaves are as many as there are different ones; a join over it keeps every row.

>>> calls = Scan("calls", "stream", (("host", "host_1"),))
>>> hosts = Window(Scan("hosts", "stream", (("id", "id_2"),)), span=3_600_000_000)
>>> growth_of(hosts), growth_of(Window(calls)), growth_of(Aggregate(Window(calls), ("host_1",)))
('bounded', 'without bound', 'with the keys')
>>> found = state_of(Join((Window(calls), hosts), (((0, "host_1"), (1, "id_2")),)), "join")
>>> found.keeps
'the rows of calls (unbounded), hosts (range 1 hour)'
>>> found.growth, found.hint
('without bound', 'give calls a window, as in [Range 1 Hour]')

References
----------
S. Babu, J. Widom, *Continuous Queries over Data Streams*, SIGMOD Record 2001: Store and Scratch, bounded or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from anabranch.logical_plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Scan,
    SetOperation,
    ToStream,
    Window,
    scans,
    walk,
)
from anabranch.model.names import without_number
from anabranch.planning.shapes import title_of

Growth: TypeAlias = Literal["bounded", "with the keys", "without bound"]
ORDER: tuple[Growth, ...] = ("bounded", "with the keys", "without bound")


@dataclass(frozen=True)
class StateOf:
    """What an operator keeps, how that grows, and what would bound it."""

    keeps: str
    growth: Growth
    hint: str = ""


def growth_of(plan: Plan) -> Growth:
    """How the rows of a relation grow, that are there at an instant."""
    match plan:
        case Scan():
            return "bounded" if plan.kind == "relation" else "without bound"
        case Window(unbounded=True):
            return "without bound"
        case Window(span=None, partition=(_, *_)):
            return "with the keys"
        case Window():
            return "bounded"
        case Aggregate(keys=()):
            return "bounded"
        case Aggregate() | Distinct():
            return min(growth_of(plan.input), "with the keys", key=ORDER.index)
        case SetOperation(kind="union", all=True) | Join():
            return _worst(plan.inputs)
        case SetOperation():
            return min(_worst(plan.inputs), "with the keys", key=ORDER.index)
        case Filter() | Project() | Member() | ToStream():
            return growth_of(plan.input)


def state_of(plan: Plan, title: str) -> StateOf:
    """What the operators of a query with some title keep, given the query's plan: what grows most among them counts."""
    found = [each for each in map(_state, _nodes(plan, title.split(",")[0])) if each is not None]
    relation = plan.input if isinstance(plan, ToStream) else plan
    other = StateOf(
        "the rows of the answer that are there", growth_of(relation), _hint([relation], growth_of(relation))
    )
    return max(found, key=lambda each: ORDER.index(each.growth), default=other)


def states(plan: Plan) -> Iterator[tuple[str, StateOf]]:
    """What the operators of a query that is not run keep, by what they do."""
    yield from ((title, state_of(plan, title)) for title in OPERATORS if _nodes(plan, title))


def _nodes(plan: Plan, title: str) -> list[Plan]:
    every = list(walk(plan))
    if title.startswith("join"):
        return [each for each in every if isinstance(each, Join)]
    if title == "groups":
        return [each for each in every if isinstance(each, Aggregate)]
    if title == "window of rows":
        return [each for each in every if isinstance(each, Window) and each.rows is not None]
    if title.startswith(("distinct", "except", "intersect")):
        return [each for each in every if isinstance(each, Distinct | SetOperation | Member)]
    return [each for each in every if isinstance(each, Member)] if title not in CHANGES else []


LEAVING = "let rows leave after a time, as in [Partition By k Rows 5 Range 1 Day]"
OPERATORS = ("window of rows", "join", "groups", "distinct")
CHANGES = ("relation", "istream", "dstream", "Rstream")


def _state(node: Plan) -> StateOf | None:
    match node:
        case Join() | Member():
            growth = _worst(node.inputs)
            windows = ", ".join(f"{title_of(each)} ({_window(each)})" for each in node.inputs)
            return StateOf(f"the rows of {windows}", growth, _hint(node.inputs, growth))
        case Aggregate():
            growth = growth_of(node)
            by = " and ".join(map(without_number, node.keys))
            return StateOf(f"a row per {by}" if by else "one row", growth, _hint([node.input], growth))
        case Window():
            growth = growth_of(node)
            by = f" of each {' and '.join(map(without_number, node.partition))}" if node.partition else ""
            rows = f"the last {node.rows:,} rows{by} of {title_of(node)}"
            return StateOf(rows, growth, LEAVING if growth != "bounded" else "")
        case Distinct() | SetOperation():
            growth = growth_of(node)
            return StateOf("each different row once", growth, _hint(node.inputs, growth))
        case _:
            return None


def _worst(plans: Sequence[Plan]) -> Growth:
    return max(map(growth_of, plans), key=ORDER.index)


def _window(plan: Plan) -> str:
    found = [each for each in walk(plan) if isinstance(each, Window)]
    if not found:
        return "all rows"
    return replace(found[-1], partition=tuple(map(without_number, found[-1].partition))).describe()


def _hint(inputs: Sequence[Plan], growth: Growth) -> str:
    """What bounds it: windows for the streams that have none."""
    if growth == "bounded":
        return ""
    endless = [each for plan in inputs for each in walk(plan) if isinstance(each, Window) and each.unbounded]
    names = dict.fromkeys(name for each in endless for name in scans(each, "stream"))
    return f"give {' and '.join(names)} a window, as in [Range 1 Hour]" if names else LEAVING
