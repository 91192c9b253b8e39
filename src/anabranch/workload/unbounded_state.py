"""Operators whose state grows for ever: they hold every row, or every value, of a window without an end.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"calls": ("id", "host"), "answers": ("id", "ms")})
>>> slow = bind("Select host From calls, answers [Now] Where calls.id = answers.id", catalog, "slow")
>>> [found] = unbounded_state(Workload([slow]))
>>> found.why
'the join holds all rows of calls, for ever'
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.logical_plan import Aggregate, Filter, Join, Member, Plan, Project, Query, Window, walk
from anabranch.operators.aggregate_functions import FUNCTIONS, Needs
from anabranch.planning.rules import constant
from anabranch.workload.findings import Finding, Workload, megabytes
from anabranch.workload.query_features import ColumnNames, windowed_stream


def unbounded_state(workload: Workload) -> list[Finding]:
    """A finding for each query and stream with such an operator."""
    found = []
    for query in workload.queries:
        reasons: dict[str, str] = {}
        for stream, reason in _growing(query):
            reasons.setdefault(stream, reason)
        found += [_finding(query.name, stream, reason, workload) for stream, reason in reasons.items()]
    return found


def _growing(query: Query) -> Iterator[tuple[str, str]]:
    """Streams of which an operator holds ever more, and why."""
    for node in walk(query.plan):
        match node:
            case Join() if len([each for each in node.inputs if not constant(each)]) > 1:
                for stream in (stream for each in node.inputs for stream in _endless(each)):
                    yield stream, f"the join holds all rows of {stream}, for ever"
            case Member():
                for stream in _endless(node.input):
                    yield stream, f"the {'anti' if node.negated else 'semi'} join holds all rows of {stream}, for ever"
            case Aggregate():
                names = ColumnNames(query.plan)
                valued = [a for a in node.aggregations if a.distinct or FUNCTIONS[a.function].needs is Needs.VALUES]
                for stream in _endless(node.input) if valued else ():
                    yield stream, f"{names.aggregation(valued[0])} holds all values of {stream}, for ever"
            case _:
                pass


def _endless(plan: Plan) -> Iterator[str]:
    """The stream whose rows a relation holds for ever, if it does."""
    match plan:
        case Window():
            if plan.unbounded:
                yield windowed_stream(plan)
        case Filter() | Project():
            yield from _endless(plan.input)
        case _:
            pass


def _finding(query: str, stream: str, reason: str, workload: Workload) -> Finding:
    costs = workload.costs.get(query)
    held = f": {costs.state_rows:,} rows, {megabytes(costs.state_bytes)} by now" if costs and costs.state_rows else ""
    return Finding(
        "unbounded state",
        (query,),
        f"the state of {query} grows with every row of {stream}",
        reason + held,
        f"in {query}, write {stream} [Range ...], as long as a row matters",
    )
