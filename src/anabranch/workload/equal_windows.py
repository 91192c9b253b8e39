"""Operators of several queries that would be one if their windows were equal.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> text = "Select dst, Count(*) As n From packets [Range {} Minutes] Group By dst"
>>> queries = [bind(text.format(minutes), catalog, f"q{minutes}") for minutes in (10, 8, 1)]
>>> [found] = equal_windows(Workload(queries))
>>> found.change
'in q8, write packets [Range 10 Minutes] instead of [Range 8 Minutes]'

Notes
-----
QPipe lets equal sub-plans share (S. Harizopoulos, V. Shkapenyuk, *Multi-query optimization opportunities in QPIPE*,
HotDB 2002); this finds those that are almost equal. A longer window is another answer: people decide on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from anabranch.cql.window_parser import in_cql
from anabranch.workload.findings import Finding, Workload, listed, megabytes
from anabranch.workload.plan_identity import Identity
from anabranch.workload.plan_operators import PlanOperator, operators
from anabranch.workload.query_features import windowed_stream

NEAR = 0.5
"""The shorter window has at least this part of the longer one: others are different questions."""
_ANY_WINDOWS = Identity(windows=False)

Group = tuple[PlanOperator, ...]
"""Operators that would be one, the one with the longest windows first."""


def equal_windows(workload: Workload) -> list[Finding]:
    """A finding for each set of queries whose operators would be one."""
    found: dict[tuple[tuple[str, tuple[str, ...]], ...], list[Group]] = defaultdict(list)
    for group in _groups(workload):
        found[tuple((each.query, tuple(map(in_cql, each.windows))) for each in group)].append(group)
    return [_finding(groups, workload) for groups in found.values()]


def _groups(workload: Workload) -> Iterator[Group]:
    alike: dict[str, list[PlanOperator]] = defaultdict(list)
    for query in workload.sharing:
        for each in operators(query):
            alike[each.identity(_ANY_WINDOWS)].append(each)
    for members in alike.values():
        rest = sorted(members, key=_lengths, reverse=True)
        while rest:
            group = tuple(each for each in rest if _inside(each, rest[0]))
            if len({each.query for each in group}) > 1 and len({each.identity() for each in group}) > 1:
                yield group
            rest = [each for each in rest if each not in group]


def _lengths(operator: PlanOperator) -> list[tuple[int, ...]]:
    return [tuple(each or 0 for each in window.limits) for window in operator.windows]


def _inside(operator: PlanOperator, longest: PlanOperator) -> bool:
    """Whether each window of an operator is as long as that of the longest, or a bit shorter."""
    for own, its in zip(operator.windows, longest.windows, strict=True):
        pairs = [(one or 0, other or 0) for one, other in zip(own.limits, its.limits, strict=True)]
        (span, its_span), (rows, its_rows), *_ = pairs
        if span > its_span or rows > its_rows or any(min(pair) < NEAR * max(pair) for pair in pairs):
            return False
    return True


def _finding(groups: Sequence[Group], workload: Workload) -> Finding:
    longest, group = groups[0][0], groups[0]
    others = [each for each in group if each.identity() != longest.identity()]
    names = tuple(dict.fromkeys(each.query for each in group))
    titles = listed(list(dict.fromkeys(each[0].title for each in groups)))
    return Finding(
        "equal windows",
        names,
        f"{titles} of {listed(names)} would be shared if their windows were equal",
        _saving(group, len(groups), workload),
        "; ".join(dict.fromkeys(_change(each, longest) for each in others)),
    )


def _saving(group: Group, count: int, workload: Workload) -> str:
    distinct = list({each.identity(): each for each in group}.values())
    longest, *shorter = map(_length, distinct)
    saved = count * len(shorter)
    text = f"{listed(shorter)} inside {longest}: {saved} fewer operator{'s' if saved > 1 else ''}"
    state = sum(workload.costs[each.query].state_bytes for each in distinct[1:] if each.query in workload.costs)
    return f"{text}, of {megabytes(state)}" if state else text


def _length(operator: PlanOperator) -> str:
    return " with ".join(window.describe().removeprefix("range ") for window in operator.windows)


def _change(operator: PlanOperator, longest: PlanOperator) -> str:
    pairs = [(in_cql(own), in_cql(its), own) for own, its in zip(operator.windows, longest.windows, strict=True)]
    written = [f"{windowed_stream(w)} {its} instead of {own}" for own, its, w in pairs if own != its]
    return f"in {operator.query}, write {listed(list(dict.fromkeys(written)))}"
