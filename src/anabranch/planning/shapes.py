"""Shapes of plans that are read in a way of their own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from anabranch.logical_plan import (
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
    Window,
    scans,
)
from anabranch.planning.keys import linked
from anabranch.planning.rules import constant, instantaneous, is_table
from anabranch.planning.scalars import calls, is_column


def slides(plan: Plan) -> bool:
    """Whether a plan is a sliding window over a stream, with conditions and computed columns that call no functions."""
    match plan:
        case Window():
            conditions, stream = filtered(plan.input)
            return plan.slide is not None and plan.by_time and isinstance(stream, Scan) and not calls(conditions)
        case Filter():
            return not calls(plan.conditions) and slides(plan.input)
        case Project():
            return not calls([scalar for _, scalar in plan.items]) and slides(plan.input)
        case _:
            return False


def renaming(plan: Plan) -> tuple[Plan, tuple[tuple[str, str], ...]]:
    """A plan below the projections that only rename, and its columns: there, and here."""
    if not isinstance(plan, Project) or not all(map(is_column, plan.items)):
        return plan, tuple((name, name) for name in plan.columns)
    below, names = renaming(plan.input)
    there = {new: old for old, new in names}
    return below, tuple((there[scalar.columns[0]], name) for name, scalar in plan.items)


def place_of(plan: Plan) -> tuple[str, ...] | None:
    """The columns that decide in which cell a row of a stage is; None for plans that need no stage.

    Of a join these are its keys, of each class the first one, and all other columns, as hot keys may be spread by rows.
    """
    match plan:
        case Aggregate():
            return plan.keys
        case Window() if not plan.by_time and plan.slide is None:
            return plan.partition
        case Distinct():
            return plan.columns
        case SetOperation() if plan.kind != "union" or not plan.all:
            return plan.columns
        case Member():
            return plan.columns
        case Join() if looking_up(plan) is None:
            keyed = {name for key in plan.keys for _, name in key}
            return (*(min(key)[1] for key in plan.keys), *(name for name in plan.columns if name not in keyed))
        case _:
            return None


def stays(plan: Plan, names: Collection[str]) -> bool:
    """Whether equal rows of what a stage makes are in the same cell, if these columns are left of them."""
    place = place_of(plan)
    return place is not None and set(place) <= set(names)


def tested(plan: Member) -> tuple[Plan, list[Member]]:
    """Rows that are tested, and the tests that can be made together: all that ask for partners by some key."""
    tests, below = [plan], plan.input
    while not plan.negated and plan.pairs and isinstance(below, Member) and not below.negated and below.pairs:
        tests.append(below)
        below = below.input
    return below, tests[::-1]


def title_of(plan: Plan) -> str:
    """The streams and relations of an input of a join, as people call it."""
    return " ".join([*scans(plan, "stream"), *scans(plan, "relation")])


def looking_up(plan: Join) -> list[int] | None:
    """The inputs that vary, if the others can be looked up for them.

    Relations that change can be looked up for elements of one instant: what they hold then is all that matters.
    """
    for is_known in (is_table, constant):
        moving = [number for number, each in enumerate(plan.inputs) if not is_known(each)]
        momentary = any(instantaneous(plan.inputs[number]) for number in moving)
        steady = all(constant(each) for number, each in enumerate(plan.inputs) if number not in moving)
        if len(moving) < len(plan.inputs) and linked(moving, plan.keys) and (momentary or steady):
            return moving
    return None


def ranged(plan: Plan) -> tuple[Plan, int | None]:
    """A window over time that holds rows as they come, behind filters and projections: without its end, and its length.

    Any other plan is left as it is, without a length.
    """
    match plan:
        case Window() if plan.by_time and plan.slide is None and plan.span is not None:
            return replace(plan, span=None), plan.span
        case Filter() | Project():
            below, span = ranged(plan.input)
            return replace(plan, input=below), span
        case _:
            return plan, None


def filtered(plan: Plan) -> tuple[tuple[Scalar, ...], Plan]:
    """The conditions on a stream, and the stream."""
    if not isinstance(plan, Filter):
        return (), plan
    conditions, stream = filtered(plan.input)
    return (*conditions, *plan.conditions), stream
