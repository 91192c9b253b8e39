"""What joins have reported from all cells: counts and orders by node, and what new workers begin with."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.engine.join_report import CacheLine, ConstraintLines, JoinedRow, JoinReport, PipelineReport
from anabranch.engine.manifest import Manifest
from anabranch.events import CacheAdded, CacheDropped, ConstraintAdopted, ConstraintViolated, ProbesReordered
from anabranch.joins.join_trace import JoinTrace
from anabranch.joins.probe_report import ProbeReport
from anabranch.ordering.base import Seed
from anabranch.spark.continuous.cell_task import Reports

AS_WRITTEN = "the order as written"
RECENT_TRACES = 200


class JoinLedger:
    """Merges what cells report, tick after tick."""

    def __init__(self) -> None:
        self._probes: dict[str, dict[int, ProbeReport]] = {}
        self._reasons: dict[tuple[str, int], str] = {}
        self._constraints: dict[str, dict[int, ConstraintReport]] = {}
        self._traces: defaultdict[str, deque[JoinTrace]] = defaultdict(lambda: deque(maxlen=RECENT_TRACES))

    def enter(self, reports: Reports) -> None:
        """Take in the reports of a tick."""
        for node in dict.fromkeys(node for node, _ in reports):
            for probes in of_node(reports, node):
                known = self._probes.setdefault(node, {})
                before = known.get(probes.input)
                known[probes.input] = before.merged(probes) if before else probes
                if probes.changes:
                    self._reasons[node, probes.input] = probes.changes[-1].why

        for (node, cell), report in reports.items():
            if report.traces:
                self._traces[node].extend(report.traces)
            if report.constraints is not None:
                self._constraints.setdefault(node, {})[cell] = report.constraints

    def seeds(self, node: str) -> Mapping[int, Seed]:
        """What a join has learned, by input."""
        return {number: probes.seed for number, probes in self._probes.get(node, {}).items() if probes.seed}

    def traced(self, nodes: Mapping[str, tuple[str, ...]]) -> list[JoinedRow]:
        """The rows that joins have traced lately, given the names of their inputs by node."""
        found = [
            JoinedRow.of(each, names) for node, names in nodes.items() for each in list(self._traces.get(node, ()))
        ]
        return sorted(found, key=lambda each: each.time)

    def report(self, plan: str, nodes: Mapping[str, tuple[str, ...]]) -> JoinReport:
        """What the joins of a query have done, given the names of their inputs by node."""
        found, caches, constraints = [], [], []
        for node, names in nodes.items():
            for number, probes in self._probes.get(node, {}).items():
                why = self._reasons.get((node, number), AS_WRITTEN).format(*names)
                found.append(PipelineReport.of(probes, names, why))
                caches += [CacheLine.of(names[number], each, names) for each in probes.caches]
            cells = self._constraints.get(node, {}).values()
            constraints += [ConstraintLines(reduce(ConstraintReport.together, cells), names)] if cells else []
        return JoinReport(plan, found, caches, constraints)


def of_node(reports: Reports, node: str) -> list[ProbeReport]:
    """What the cells of a node report together, by input; the order is that of the cell with most rows."""
    found: dict[int, ProbeReport] = {}
    cells = [report.probes for (each, _), report in reports.items() if each == node]
    for probes in sorted((each for cell in cells for each in cell), key=lambda each: each.rows):
        known = found.get(probes.input)
        found[probes.input] = known.merged(probes, elsewhere=True) if known else probes
    return [found[number] for number in sorted(found)]


def reordered(
    manifest: Manifest, reports: Reports, joined: Mapping[str, Mapping[int, tuple[str, ...]]]
) -> Iterator[ProbesReordered]:
    """The changes of order in a tick, as events of the queries that use the join."""
    for query, stages in joined.items():
        for stage, names in stages.items():
            node = manifest.queries[query].nodes[stage]
            for (each, cell), report in reports.items():
                for probes in report.probes if each == node else ():
                    for change in probes.changes:
                        before, after = ([names[i] for i in order] for order in (change.before, change.after))
                        why = change.why.format(*names)
                        yield ProbesReordered(query, names[probes.input], tuple(before), tuple(after), why, cell)


def cache_events(
    manifest: Manifest, reports: Reports, joined: Mapping[str, Mapping[int, tuple[str, ...]]]
) -> Iterator[CacheAdded | CacheDropped]:
    """The caches that came and went in a tick, as events of the queries that use the join."""
    for query, stages in joined.items():
        for stage, names in stages.items():
            node = manifest.queries[query].nodes[stage]
            for (each, cell), report in reports.items():
                for probes in report.probes if each == node else ():
                    for change in probes.cache_changes:
                        kind = CacheAdded if change.added else CacheDropped
                        windows = tuple(names[window] for window in change.candidate.windows)
                        yield kind(query, names[probes.input], windows, change.why, cell)


def constraint_events(
    manifest: Manifest, reports: Reports, joined: Mapping[str, Mapping[int, tuple[str, ...]]]
) -> Iterator[ConstraintAdopted | ConstraintViolated]:
    """The keys and constraints that joins have found in a tick, or that do not hold any more."""
    for query, stages in joined.items():
        for stage, names in stages.items():
            node = manifest.queries[query].nodes[stage]
            for (each, cell), report in reports.items():
                if each == node and report.constraints is not None:
                    for change in report.constraints.changes:
                        kind = ConstraintAdopted if change.adopted else ConstraintViolated
                        yield kind(query, change.found.words(names), cell)


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that tell inputs apart, also where a stream is read twice.

    >>> distinct_names(["calls", "hosts", "calls"])
    ('calls', 'hosts', 'calls 2')
    """
    return tuple(
        name if name not in names[:place] else f"{name} {names[:place].count(name) + 1}"
        for place, name in enumerate(names)
    )
