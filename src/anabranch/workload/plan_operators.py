"""The operators with state of a query, as texts: operators of two queries can be one if their texts are equal.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> query = bind("Select dst, Count(*) As n From packets [Range 1 Minute] Group By dst", catalog, "busy")
>>> [(each.title, [window.describe() for window in each.windows]) for each in operators(query)]
[('groups', ['range 1 minute'])]

Notes
-----
As `planning/reading.py` makes stages of a plan: what gives the answer as changes is one with the operator below where
equal rows meet there already, and an operator belongs to the streams of the query that it stands in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from anabranch.logical_plan import (
    Aggregate,
    Distinct,
    Join,
    Member,
    Plan,
    Project,
    Query,
    SetOperation,
    ToStream,
    Window,
    scans,
    walk,
)
from anabranch.planning.rules import inserts_only, rewrite
from anabranch.planning.shapes import place_of, ranged, renaming, stays
from anabranch.workload.plan_identity import EXACT, Identity


@dataclass(frozen=True)
class PlanOperator:
    """An operator with state.

    Parameters
    ----------
    query
        Whose it is.
    plan
        What it computes.
    answer
        How it gives the answer of the query, if it does; else empty.
    streams
        Those of the query.
    """

    query: str
    plan: Plan
    answer: str
    streams: tuple[str, ...]

    @property
    def title(self) -> str:
        """What kind of operator it is."""
        match renaming(self.plan)[0]:
            case Aggregate():
                return "groups"
            case Join():
                return "join"
            case Member(negated=negated):
                return "anti join" if negated else "semi join"
            case Distinct():
                return "distinct"
            case SetOperation(kind=kind):
                return kind
            case Window():
                return "window"
            case _:
                return "changes"

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows over which it computes."""
        return tuple(node for node in walk(self.plan) if isinstance(node, Window))

    def identity(self, told_apart: Identity = EXACT) -> str:
        """Equal for operators that are one, if all their windows are told apart."""
        return f"{self.answer} {told_apart.of(_without_lengths(self.plan))} of {', '.join(self.streams)}"


def _without_lengths(plan: Plan) -> Plan:
    """A join without the lengths of windows that do not set operators apart: the longest ones serve all."""
    match plan:
        case Project():
            return replace(plan, input=_without_lengths(plan.input))
        case Join():
            return replace(plan, inputs=tuple(ranged(each)[0] for each in plan.inputs))
        case Member() if not isinstance(plan.input, Member):
            return replace(plan, input=ranged(plan.input)[0])
        case _:
            return plan


def operators(query: Query) -> list[PlanOperator]:
    """The operators of a query, that of the answer first."""
    return list(_answering(rewrite(query.plan), query.name))


def _answering(plan: Plan, query: str) -> Iterator[PlanOperator]:
    kind, relation = (plan.kind, plan.input) if isinstance(plan, ToStream) else ("relation", plan)
    streams = tuple(scans(plan, "stream"))
    base, names = renaming(relation)
    if kind == "istream" and inserts_only(relation):
        yield from _below(relation, query, streams)
    elif stays(base, {name for name, _ in names}):
        yield PlanOperator(query, relation, kind, streams)
        for each in base.inputs:
            yield from _below(each, query, streams)
    else:
        yield PlanOperator(query, relation, kind, streams)
        yield from _below(relation, query, streams)


def _below(plan: Plan, query: str, streams: tuple[str, ...]) -> Iterator[PlanOperator]:
    if isinstance(plan, ToStream):
        yield from _answering(plan, query)
        return
    if place_of(plan) is not None or (isinstance(plan, Window) and not plan.by_time):
        yield PlanOperator(query, plan, "", streams)
    for each in plan.inputs:
        yield from _below(each, query, streams)
