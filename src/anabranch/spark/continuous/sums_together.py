"""Sums of several operators over the same rows, computed in one pass: a rewrite of what a layer wants.

Operators that group rows of a window which slides want them summed up before they travel. Those that differ in their
conditions, and in what they sum up, but neither in their rows nor in their keys, share one aggregation: it sums up what
each of them would, of the rows that meet its conditions. A tick then has one aggregation for each kind of key,
and not one for each query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlglot import exp

from anabranch.expressions import Scalar, all_of, any_of
from anabranch.operators.base import END, START, WEIGHT
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.flows import Select, Sql, Summed

MOST_TOGETHER = 32
"""Operators that share an aggregation: Spark's generated code for more of them grows too large."""

Kind = tuple[object, ...]


def sums_together(wanted: Iterable[ExchangeInput]) -> dict[ExchangeInput, ExchangeInput]:
    """For each that can share an aggregation with others, what it wants instead."""
    kinds: dict[Kind, dict[Summed, list[ExchangeInput]]] = defaultdict(lambda: defaultdict(list))
    for each in wanted:
        source = each.select.source
        if isinstance(source, Summed) and (kind := _kind(source)) is not None:
            kinds[kind][source].append(each)
    found: dict[ExchangeInput, ExchangeInput] = {}
    for users in kinds.values():
        sources = list(users)
        for first in range(0, len(sources), MOST_TOGETHER):
            some = sources[first : first + MOST_TOGETHER]
            if len(some) > 1:
                shared = _shared(some)
                for number, source in enumerate(some):
                    found |= {each: _instead(each, shared, number, source) for each in users[source]}
    return found


def _kind(source: Summed) -> Kind | None:
    """What those have in common that can be summed up together; None if it cannot be shared."""
    if len(source.flow.branches) != 1 or source.timed or source.flow.branches[0].calls:
        return None
    (branch,) = source.flow.branches
    items = dict(branch.items)
    return (branch.source, *(items[name] for name in (*source.keys, START, END)))


def _shared(sources: Sequence[Summed]) -> Summed:
    branches = [source.flow.branches[0] for source in sources]
    first = dict(branches[0].items)
    items = {_key(place): first[name] for place, name in enumerate(sources[0].keys)}
    items |= {START: first[START], END: first[END]}
    sums = []
    for number, (source, branch) in enumerate(zip(sources, branches, strict=True)):
        own, conditions = dict(branch.items), all_of(branch.conditions)
        items[_weight(number)] = _if(conditions, own[WEIGHT])
        for place, (name, _, integers) in enumerate(source.sums):
            items[f"_value{number}_{place}"] = _if(conditions, own[name])
            sums.append((f"_value{number}_{place}", _sum(number, place), integers))
    some = () if any(not each.conditions for each in branches) else (any_of([all_of(b.conditions) for b in branches]),)
    flow = Sql((Select(branches[0].source, tuple(items.items()), some),))
    keys = tuple(_key(place) for place in range(len(sources[0].keys)))
    return Summed(flow, keys, tuple(sums), False, tuple(_weight(number) for number in range(len(sources))))


def _instead(wanted: ExchangeInput, shared: Summed, number: int, source: Summed) -> ExchangeInput:
    names = {name: _key(place) for place, name in enumerate(source.keys)} | {WEIGHT: _weight(number)}
    names |= {new: _sum(number, place) for place, (_, new, _) in enumerate(source.sums)}
    met = Scalar(exp.Not(this=exp.Is(this=Scalar.reading(_weight(number)).tree, expression=exp.Null())))
    items = tuple((name, scalar.renamed(names)) for name, scalar in wanted.select.items)
    conditions = (met, *(each.renamed(names) for each in wanted.select.conditions))
    columns = tuple((name, scalar.renamed(names), kind) for name, scalar, kind in wanted.columns)
    return ExchangeInput(Select(shared, items, conditions), wanted.cell.renamed(names), columns)


def _if(condition: Scalar, value: Scalar) -> Scalar:
    """A value where a condition is true: of other rows it is not computed, and may fail."""
    return Scalar(exp.Case(ifs=[exp.If(this=condition.tree.copy(), true=value.tree.copy())]))


def _key(place: int) -> str:
    return f"_key{place}"


def _weight(number: int) -> str:
    return f"_weight{number}"


def _sum(number: int, place: int) -> str:
    return f"_sum{number}_{place}"
