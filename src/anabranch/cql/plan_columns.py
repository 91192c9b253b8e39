"""The columns of a logical plan: those that nothing reads are dropped; a plan that is used again gets new names.

>>> packets = Scan("packets", "stream", (("src", "src_1"), ("dst", "dst_2")))
>>> pruned(packets, ["dst_2"]).columns
('dst_2',)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from anabranch.cql.scopes import Names
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
    walk,
)
from anabranch.model.names import without_number


def pruned(plan: Plan, needed: Collection[str] | None = None) -> Plan:
    """The plan without columns that do not contribute to the needed ones (all, if not given).

    A stream, a set operation or Distinct needs all its columns: its rows are compared as a whole.
    """
    wanted = set(plan.columns if needed is None else needed)
    match plan:
        case Scan():
            return replace(plan, renamed=tuple(pair for pair in plan.renamed if pair[1] in wanted))
        case Window():
            return replace(plan, input=pruned(plan.input, wanted | set(plan.partition)))
        case Filter():
            read = {name for each in plan.conditions for name in each.columns}
            return replace(plan, input=pruned(plan.input, wanted | read))
        case Project():
            return _pruned_project(plan, wanted)
        case Aggregate():
            return _pruned_aggregate(plan, wanted)
        case Distinct() | ToStream():
            return replace(plan, input=pruned(plan.input))
        case SetOperation():
            return replace(plan, inputs=tuple(pruned(each) for each in plan.inputs))
        case Member():
            own = pruned(plan.input, wanted | {one for one, _ in plan.pairs})
            return replace(plan, input=own, other=pruned(plan.other))
        case Join():
            keys = {name for key in plan.keys for _, name in key}
            inputs = tuple(pruned(each, (wanted | keys) & set(each.columns)) for each in plan.inputs)
            return replace(plan, inputs=inputs)
        case _:
            assert_never(plan)


def _pruned_project(plan: Project, wanted: set[str]) -> Plan:
    items = tuple(item for item in plan.items if item[0] in wanted)
    inner = pruned(plan.input, {name for _, each in items for name in each.columns})
    changes = tuple(name for name, _ in items) != inner.columns or any(each.column != name for name, each in items)
    return Project(inner, items) if items and changes else inner


def _pruned_aggregate(plan: Aggregate, wanted: set[str]) -> Plan:
    kept = tuple(each for each in plan.aggregations if each.name in wanted)
    read = {each.argument for each in kept if each.argument is not None}
    return Aggregate(pruned(plan.input, read | set(plan.keys)), plan.keys, kept)


def renamed(plan: Plan, names: Names) -> Plan:
    """The same plan with fresh names for all columns."""
    columns = dict.fromkeys(name for node in walk(plan) for name in node.columns)
    return _renamed(plan, {name: names.fresh(without_number(name)) for name in columns})


def _renamed(plan: Plan, new: Mapping[str, str]) -> Plan:
    match plan:
        case Scan():
            return replace(plan, renamed=tuple((name, new[unique]) for name, unique in plan.renamed))
        case Window():
            return replace(plan, input=_renamed(plan.input, new), partition=tuple(new[each] for each in plan.partition))
        case Filter():
            return Filter(_renamed(plan.input, new), tuple(each.renamed(new) for each in plan.conditions))
        case Project():
            items = tuple((new[name], each.renamed(new)) for name, each in plan.items)
            return Project(_renamed(plan.input, new), items)
        case Aggregate():
            return _renamed_aggregate(plan, new)
        case Distinct() | ToStream():
            return replace(plan, input=_renamed(plan.input, new))
        case Member():
            pairs = tuple((new[one], new[other]) for one, other in plan.pairs)
            return replace(plan, input=_renamed(plan.input, new), other=_renamed(plan.other, new), pairs=pairs)
        case Join():
            keys = tuple(tuple((number, new[name]) for number, name in key) for key in plan.keys)
            return replace(plan, inputs=tuple(_renamed(each, new) for each in plan.inputs), keys=keys)
        case SetOperation():
            return replace(plan, inputs=tuple(_renamed(each, new) for each in plan.inputs))
        case _:
            assert_never(plan)


def _renamed_aggregate(plan: Aggregate, new: Mapping[str, str]) -> Aggregate:
    aggregations = tuple(
        replace(each, name=new[each.name], argument=None if each.argument is None else new[each.argument])
        for each in plan.aggregations
    )
    return Aggregate(_renamed(plan.input, new), tuple(new[each] for each in plan.keys), aggregations)
