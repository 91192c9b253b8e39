"""Joins in which rows are combined with all rows of another input, as neither a key nor a condition connects them.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"calls": ("id", "ms"), "hosts": ("id", "ms"), "days": ("ms",)})
>>> text = "Select 1 As one From calls [Now], hosts [Now], days [Now] Where calls.id = hosts.id"
>>> products(bind(text, catalog, "q").plan)
[(('calls', 'hosts'), ('days',))]
>>> products(bind(f"{text} And calls.ms < days.ms", catalog, "q").plan)
[]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.logical_plan import Aggregate, Filter, Join, Plan, Project, Scalar
from anabranch.planning.shapes import title_of

Product = tuple[tuple[str, ...], ...]
"""Groups of inputs of a join by the streams and relations that they read; nothing connects one with another."""


def products(plan: Plan) -> list[Product]:
    """The products of a plan, each once, inputs first."""
    return list(dict.fromkeys(_products(plan, ())))


def _products(plan: Plan, conditions: Sequence[Scalar]) -> list[Product]:
    found = []
    for each in plan.inputs:
        found += _products(each, plan.conditions if isinstance(plan, Filter) else ())
    if isinstance(plan, Join):
        groups = _groups(plan, conditions)
        if len(groups) > 1:
            found.append(tuple(tuple(title_of(plan.inputs[number]) for number in sorted(each)) for each in groups))
    return found


def _groups(join: Join, conditions: Sequence[Scalar]) -> list[set[int]]:
    """Inputs of many rows that are connected with one another."""
    many = [number for number, each in enumerate(join.inputs) if not _single(each)]
    keyed: list[Iterable[int]] = [[number for number, _ in key] for key in join.keys]
    compared = [[n for n in many if set(each.columns) & set(join.inputs[n].columns)] for each in conditions]
    groups = [{number} for number in many]
    for edge in (*keyed, *compared):
        touched = [group for group in groups if group & set(edge)]
        if touched:
            together: set[int] = set().union(*touched)
            groups = [group for group in groups if group not in touched] + [together]
    return sorted(groups, key=min)


def _single(plan: Plan) -> bool:
    """Whether a relation has one row at most, as a query that stands for a value."""
    match plan:
        case Filter() | Project():
            return _single(plan.input)
        case Aggregate():
            return not plan.keys
        case _:
            return False
