"""Signatures of operators: equal for those that do the same with the same rows, whatever their columns are called.

An operator is described by data: what makes it, of which values, and how rows reach it. Names of
columns in these are replaced by what the columns are: by what is known of the rows that come in, or by the place at
which an operator first speaks of a column that it makes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import pyarrow as pa

from anabranch.logical_plan import Aggregation
from anabranch.operators.tapped import Made
from anabranch.planning.stages import Stage
from anabranch.spark.continuous.flows import Sql, hashed


class Placed:
    """Names of columns, replaced by what they are and by the order in which they are spoken of."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known
        self.places: dict[str, str] = {}

    def spelled(self, value: Any) -> str:
        """A value written down, the same for the same operator."""
        match value:
            case str() if value in self._known:
                return self.places.setdefault(value, f"{self._known[value]}%{len(self.places)}")
            case tuple() | list():
                return f"({', '.join(map(self.spelled, value))})"
            case pa.Schema():
                return self.spelled([(field.name, str(field.type)) for field in value])
            case type() | FunctionType():
                return value.__name__
            case None | str() | int() | float():
                return repr(value)
            case _ if is_dataclass(value):
                parts = [getattr(value, each.name) for each in fields(value)]
                return f"{type(value).__name__}{self.spelled(parts)}"
            case _:
                raise TypeError(f"an operator is made of plain values, not of {value!r}")


def signature(stage: Stage, flows: Sequence[Sql]) -> tuple[str, tuple[str, ...]]:
    """The signature of an operator over flows, whatever follows on it, and the names of its columns.

    Operators of one signature have as many names, and each stands for what that of the other in its place stands for.
    """
    known: dict[str, str] = {}
    for number, flow in enumerate(flows):
        known |= {name: f"{number}:{its}" for name, its in flow.known.columns.items()}
    for name in dict.fromkeys([*_made(stage.make), *stage.made.names]):
        known.setdefault(name, "made")
    placed = Placed(known)
    read = [
        (flow.known.rows, _alike(flow, flows), placed.spelled(sorted(flow.columns, key=known.__getitem__)))
        for flow in flows
    ]
    about = placed.spelled((stage.make, stage.distributions, stage.streams, stage.instants, stage.slides, stage.made))
    return hashed(read, about), tuple(placed.places)


def _alike(flow: Sql, flows: Sequence[Sql]) -> list[tuple[str, str]]:
    """What the columns are that other inputs have under the same names: the ends of elements, and their weights."""
    others = [name for other in flows if other is not flow for name in other.known.columns]
    return sorted((name, its) for name, its in flow.known.columns.items() if name in others)


def tap_signature(stage: Stage) -> str:
    """What is wanted of the operator: equal for stages with equal signatures that want the same."""
    placed = Placed({name: f"#{place}" for place, name in enumerate(stage.made.names)})
    return hashed(placed.spelled((stage.tap, stage.asks)))


def _made(value: Callable[[], Any] | Any) -> Iterator[str]:
    """Names of the columns that an operator makes."""
    match value:
        case Made():
            yield from _made(value.values)
        case tuple():
            for each in value:
                yield from _made(each)
        case Aggregation():
            yield value.name
        case pa.Schema():
            yield from value.names
        case _:
            pass
