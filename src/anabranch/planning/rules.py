"""Rewrites of logical plans, each one a function `plan -> plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
)


def merge_filters(plan: Plan) -> Plan:
    """Conditions of neighbouring filters stand in one, where they can be ordered together."""
    if isinstance(plan, Filter) and isinstance(plan.input, Filter):
        return Filter(plan.input.input, (*plan.input.conditions, *plan.conditions))
    return plan


def filters_below_time_windows(plan: Plan) -> Plan:
    """A window over time holds the same rows whether they are tested before or after; a window over rows does not.

    The thesis has it in section 2.2.4. Below the window a filter meets every row once, on one stream: there it adapts.
    """
    if isinstance(plan, Filter) and isinstance(plan.input, Window) and plan.input.by_time:
        return replace(plan.input, input=merge_filters(Filter(plan.input.input, plan.conditions)))
    return plan


def distinct_once(plan: Plan) -> Plan:
    """What is distinct already needs no second look."""
    if isinstance(plan, Distinct):
        below = plan.input
        if isinstance(below, Distinct) or (isinstance(below, SetOperation) and not below.all):
            return below
    return plan


# Filters are merged first, so that all conditions on a stream go below its window together.
RULES: tuple[Callable[[Plan], Plan], ...] = (merge_filters, filters_below_time_windows, distinct_once)


def rewrite(plan: Plan) -> Plan:
    """All rules, from the leaves up."""
    plan = with_inputs(plan, tuple(rewrite(each) for each in plan.inputs))
    for rule in RULES:
        plan = rule(plan)
    return plan


def with_inputs(plan: Plan, inputs: tuple[Plan, ...]) -> Plan:
    """The same node over other inputs."""
    match plan:
        case Scan():
            return plan
        case Window() | Filter() | Project() | Aggregate() | Distinct() | ToStream():
            return replace(plan, input=inputs[0])
        case Join() | SetOperation():
            return replace(plan, inputs=inputs)
        case Member():
            return replace(plan, input=inputs[0], other=inputs[1])


def inserts_only(plan: Plan) -> bool:
    """Whether rows only ever enter a relation, each at the time of a row of some stream: nothing is left to net out."""
    match plan:
        case Window():
            return plan.unbounded and plan.slide is None
        case Filter() | Project():
            return inserts_only(plan.input)
        case Join():
            varying = [each for each in plan.inputs if not constant(each)]
            return bool(varying) and all(inserts_only(each) for each in varying)
        case SetOperation():
            return plan.kind == "union" and plan.all and all(inserts_only(each) for each in plan.inputs)
        case _:
            return False


def both_ends_known(plan: Plan) -> bool:
    """Whether every element says at once when it ends: nothing is taken back later."""
    match plan:
        case Window():
            return plan.by_time and not isinstance(plan.input, ToStream)
        case Filter() | Project():
            return both_ends_known(plan.input)
        case Join():
            return all(map(both_ends_known, plan.inputs))
        case SetOperation():
            return plan.kind == "union" and plan.all and all(map(both_ends_known, plan.inputs))
        case _:
            return constant(plan)


def constant(plan: Plan) -> bool:
    """Whether a relation is the same at all times."""
    match plan:
        case Scan():
            return plan.kind == "relation" and not plan.changing
        case Filter() | Project():
            return constant(plan.input)
        case _:
            return False


def is_table(plan: Plan) -> bool:
    """Whether a plan is a relation, with conditions and computed columns at most: its rows at any time are known."""
    match plan:
        case Scan():
            return plan.kind == "relation"
        case Filter() | Project():
            return is_table(plan.input)
        case _:
            return False


def instantaneous(plan: Plan) -> bool:
    """Whether every element counts at one instant alone, as those of `[Now]` do."""
    match plan:
        case Window():
            return plan.span == 0 and plan.rows is None and plan.slide is None
        case Filter() | Project():
            return instantaneous(plan.input)
        case Join():
            return any(instantaneous(each) for each in plan.inputs)
        case SetOperation():
            return plan.kind == "union" and plan.all and all(instantaneous(each) for each in plan.inputs)
        case _:
            return False
