"""Advice about the queries of an engine, with what they have cost so far."""

from __future__ import annotations

from anabranch.engine import sysstream
from anabranch.engine.manifest import Manifest
from anabranch.engine.registry import Registry
from anabranch.spark.continuous.cell_task import Reports
from anabranch.workload.advice import AdviceReport, advise
from anabranch.workload.findings import QueryCosts, StreamFacts, Workload


def advice(registry: Registry, manifest: Manifest, reports: Reports) -> AdviceReport:
    """What a change of queries or streams would save."""
    queries = list(registry.queries.values())
    apart = {each.name for each in queries if not each.share}
    costs = _costs(registry, manifest, reports)
    return advise(Workload([each.query for each in queries], _streams(registry), costs, apart))


def _streams(registry: Registry) -> dict[str, StreamFacts]:
    return {
        name: StreamFacts(
            {field.name: field.dataType.simpleString() for field in stream.df.schema.fields},
            stream.timestamp,
            stream.sequence,
            stream.retain,
        )
        for name, stream in registry.streams.items()
        if name != sysstream.NAME
    }


def _costs(registry: Registry, manifest: Manifest, reports: Reports) -> dict[str, QueryCosts]:
    costs = {}
    for name in registry.queries:
        state = manifest.queries[name]
        held = [report for (node, _), report in reports.items() if node in state.nodes.values()]
        costs[name] = QueryCosts(
            state.rows, sum(each.held_rows for each in held), sum(each.held_bytes for each in held)
        )
    return costs
