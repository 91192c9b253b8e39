"""Columns that nothing reads are dropped where they would be scanned or computed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from anabranch.model.continuous import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Scalar,
    Scan,
    SetOperation,
    ToStream,
    Window,
)


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
            return _project(plan, wanted)
        case Aggregate():
            return _aggregate(plan, wanted)
        case Distinct() | ToStream():
            return replace(plan, input=pruned(plan.input))
        case SetOperation():
            return replace(plan, inputs=tuple(pruned(each) for each in plan.inputs))
        case Member():
            own = pruned(plan.input, wanted | {one for one, _ in plan.pairs})
            return replace(plan, input=own, other=pruned(plan.other))
        case Join():
            keys = {name for key in plan.keys for _, name in key}
            return Join(tuple(pruned(each, (wanted | keys) & set(each.columns)) for each in plan.inputs), plan.keys)
        case _:
            assert_never(plan)


def _project(plan: Project, wanted: set[str]) -> Plan:
    items = tuple(item for item in plan.items if item[0] in wanted)
    inner = pruned(plan.input, {name for _, each in items for name in each.columns})
    changes = tuple(name for name, _ in items) != inner.columns or any(
        each != Scalar.reading(name) for name, each in items
    )
    return Project(inner, items) if items and changes else inner


def _aggregate(plan: Aggregate, wanted: set[str]) -> Plan:
    kept = tuple(each for each in plan.aggregations if each.name in wanted)
    read = {each.argument for each in kept if each.argument is not None}
    return Aggregate(pruned(plan.input, read | set(plan.keys)), plan.keys, kept)
