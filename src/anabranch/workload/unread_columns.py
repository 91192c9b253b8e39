"""Columns of a stream that no query reads, where that costs something.

Rows in the buffer have those columns alone that some query reads, so that others cost nothing, unless rows are retained
for later queries, or a batch is held in Spark's cache because it goes several ways: as rows, and as sums.

>>> from anabranch.cql import Catalog, bind
>>> from anabranch.workload.findings import StreamFacts
>>> columns = {"ts": "timestamp", "src": "string", "dst": "string", "size": "bigint"}
>>> busy = bind("Select dst From packets [Now]", Catalog(streams={"packets": tuple(columns)}), "busy")
>>> [found] = unread_columns(Workload([busy], {"packets": StreamFacts(columns, "ts", retain=3_600_000_000)}))
>>> found.what, found.change
('no query reads src and size of packets', "register packets without them: df.drop('src', 'size')")

Notes
-----
The workload report found that the number of columns which queries read drives their cost, and selectivity hardly does
(S. Papadomanolakis, M. Shao, *Characterizing Change in SQL Workloads*, HotDB 2002, section 5).
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.logical_plan import Aggregate, Filter, Plan, Scan, Window, scans, walk
from anabranch.model.time_units import in_words
from anabranch.planning.rules import rewrite
from anabranch.workload.findings import Finding, StreamFacts, Workload, listed
from anabranch.workload.plan_identity import EXACT
from anabranch.workload.summed_streams import Types, row_scans, sums_suffice

BY_NAME = ("json", "parquet", "orc")
"""Files whose columns are found by name: one may be left out."""
BY_PLACE = ("csv",)
"""Files whose columns are found by place: the last ones may be left out."""


def unread_columns(workload: Workload) -> list[Finding]:
    """A finding for each stream that some query reads, and that has columns which none reads."""
    types = {name: facts.columns for name, facts in workload.streams.items()}
    plans = [rewrite(query.plan) for query in workload.queries]
    found = []
    for name, facts in workload.streams.items():
        if not any(name in scans(plan, "stream") for plan in plans):
            continue
        why = _cost(name, facts, plans, types)
        read = {column for plan in plans for column in _read(plan, name, facts)}
        unread = _removable(facts, read)
        if why is not None and unread:
            found.append(_finding(name, facts, unread, why, workload))
    return found


def _read(plan: Plan, stream: str, facts: StreamFacts) -> set[str]:
    """The columns that a plan reads; where rows of one time have no sequence, all columns give their order."""
    found = {each for each in (facts.timestamp, facts.sequence) if each}
    for node in walk(plan):
        if isinstance(node, Scan) and node.name == stream:
            found |= {there for there, _ in node.renamed}
        if isinstance(node, Window) and not node.by_time and facts.sequence is None and _is_over(node, stream):
            found |= set(facts.columns)
    return found


def _is_over(window: Window, stream: str) -> bool:
    plan = window.input
    while isinstance(plan, Filter):
        plan = plan.input
    return isinstance(plan, Scan) and plan.name == stream


def _cost(stream: str, facts: StreamFacts, plans: Collection[Plan], types: Types) -> str | None:
    """Why columns that no query reads are not free; None if they are."""
    if facts.retain:
        return f"retained with every row for {in_words(facts.retain)}"
    sums = {
        EXACT.of(node)
        for plan in plans
        for node in walk(plan)
        if isinstance(node, Aggregate) and stream in scans(node, "stream") and sums_suffice(node, types)
    }
    rows = any(scan.name == stream for plan in plans for scan in row_scans(plan, types))
    ways = len(sums) + rows
    return f"cached with every batch, which goes {ways} ways" if ways > 1 else None


def _removable(facts: StreamFacts, read: Collection[str]) -> list[str]:
    """The columns that can be left out where the stream is declared."""
    unread = [name for name in facts.columns if name not in read]
    if facts.format is None or (facts.declared and facts.format.lower() in BY_NAME):
        return unread
    if not facts.declared or facts.format.lower() not in BY_PLACE:
        return []
    names = list(facts.columns)
    last = max((place for place, name in enumerate(names) if name in read), default=-1)
    return names[last + 1 :]


def _finding(name: str, facts: StreamFacts, unread: list[str], why: str, workload: Workload) -> Finding:
    readers = tuple(query.name for query in workload.queries if name in scans(query.plan, "stream"))
    drop = ", ".join(map(repr, unread))
    return Finding(
        "unread columns",
        readers,
        f"no query reads {listed(unread)} of {name}",
        f"{len(unread)} of {len(facts.columns)} columns, {why}",
        f"leave {listed(unread)} out of Create Stream {name}"
        if facts.format is not None
        else f"register {name} without them: df.drop({drop})",
    )
