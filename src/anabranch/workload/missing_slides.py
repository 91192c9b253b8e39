"""Windows over which only counts, sums and averages of integers are taken: with a `Slide` they need no rows.

>>> from anabranch.cql import Catalog, bind
>>> from anabranch.workload.findings import StreamFacts
>>> catalog = Catalog(streams={"packets": ("ts", "dst", "size")})
>>> busy = bind("Select dst, Count(*) As n From packets [Range 10 Minutes] Group By dst", catalog, "busy")
>>> facts = StreamFacts({"ts": "timestamp", "dst": "string", "size": "bigint"}, "ts")
>>> [found] = missing_slides(Workload([busy], {"packets": facts}))
>>> found.change
'in busy, write packets [Range 10 Minutes Slide 1 Minute], before the stream starts'

See decision 012, sums instead of rows. The answer then changes at multiples of the slide only, which people decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from anabranch.cql.window_parser import in_cql
from anabranch.logical_plan import Aggregate, Query, Scan, Window, scans, walk
from anabranch.model.time_units import SECOND, in_words
from anabranch.planning.rules import rewrite
from anabranch.workload.findings import Finding, Workload, listed
from anabranch.workload.plan_identity import EXACT
from anabranch.workload.query_features import ColumnNames
from anabranch.workload.summed_streams import Types, row_scans, would_suffice

MILLISECOND, MINUTE, HOUR, DAY = SECOND // 1_000, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
SLIDES = (
    *(each * MILLISECOND for each in (1, 10, 100)),
    *(each * SECOND for each in (1, 5, 10, 30)),
    *(each * MINUTE for each in (1, 5, 10, 30)),
    *(each * HOUR for each in (1, 6, 12)),
    DAY,
)
STEPS = 10
"""A window moves in about so many steps through its length."""


def missing_slides(workload: Workload) -> list[Finding]:
    """A finding for each window with groups of this kind, and all queries that have it."""
    types = {name: facts.columns for name, facts in workload.streams.items()}
    found: dict[str, list[tuple[Query, Aggregate]]] = defaultdict(list)
    for query in workload.queries:
        for groups in dict.fromkeys(walk(rewrite(query.plan))):
            if isinstance(groups, Aggregate) and would_suffice(groups, types):
                found[EXACT.of(groups)].append((query, groups))
    return [_finding([query for query, _ in each], *each[0], workload, types) for each in found.values()]


def _finding(queries: Sequence[Query], query: Query, groups: Aggregate, workload: Workload, types: Types) -> Finding:
    whose = listed([each.name for each in queries])
    [window] = [node for node in walk(groups) if isinstance(node, Window)]
    [scan] = [node for node in walk(groups) if isinstance(node, Scan)]
    slide = _slide(window, scan.name, workload)
    names = ColumnNames(query.plan)
    aggregates = listed(list(dict.fromkeys(map(names.aggregation, groups.aggregations))) or ["groups"])
    by = f" and {', '.join(names.shown[key] for key in groups.keys)}" if groups.keys else ""
    return Finding(
        "slide",
        tuple(each.name for each in queries),
        f"{aggregates} of {whose} can be summed up as rows of {scan.name} come, if the window slides",
        f"{_kept(queries, scan, window, workload, types)}; with a slide, one row for each {in_words(slide)}{by}",
        f"in {whose}, write {scan.name} {in_cql(replace(window, slide=slide))}, before the stream starts",
    )


def _kept(queries: Sequence[Query], scan: Scan, window: Window, workload: Workload, types: Types) -> str:
    """What becomes of rows without a slide."""
    needing, could = [], []
    for each in workload.queries:
        plan = rewrite(each.plan)
        if any(found.name == scan.name for found in row_scans(plan, types, sliding=True)):
            needing.append(each.name)
        elif each not in queries and any(found.name == scan.name for found in row_scans(plan, types)):
            could.append(each.name)
    facts = workload.streams.get(scan.name)
    needing += ["later queries"] if facts is not None and facts.retain else []
    if needing:
        return f"each row is sent twice, as it comes and as it leaves (it is kept for {listed(needing)} anyway)"
    columns = len(scan.columns)
    kept = f"{columns} column{'s' if columns > 1 else ''} and the time" if columns else "the time"
    also = f", unless {listed(could)} {'slide' if len(could) > 1 else 'slides'}, too" if could else ""
    return f"{kept} of each row are kept for {in_words(window.span or 0)}{also}"


def _slide(window: Window, stream: str, workload: Workload) -> int:
    """A slide that other windows over the stream have, if it fits, else the longest that makes enough steps."""
    span = window.span or 0
    used = [
        node.slide
        for query in workload.queries
        if stream in scans(query.plan, "stream")
        for node in walk(query.plan)
        if isinstance(node, Window) and node.slide
    ]
    fits = [each for each in (*used, *SLIDES) if span % each == 0 and each * STEPS <= span]
    return max((each for each in fits if each in used), default=max(fits, default=max(1, span // STEPS)))
