"""SysQueries: the registered queries as rows: what each reads and does, what it shares, and what it has cost.

`Select name From SysQueries Where array_contains(columns, 'packets.dst')` names the queries that read a column.

Notes
-----
After Aurora's queries over its own queries, with the structural features of S. Papadomanolakis, M. Shao,
*Characterizing Change in SQL Workloads*, HotDB 2002, Table 1.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StringType, StructType

from anabranch.engine.manifest import Manifest
from anabranch.engine.network import sharing
from anabranch.engine.registry import Registry
from anabranch.spark.continuous.cell_task import Reports
from anabranch.workload.query_features import features

NAME = "SysQueries"
TEXTS = ArrayType(StringType())
SCHEMA = (
    StructType()
    .add("name", "string")
    .add("status", "string")
    .add("streams", TEXTS)
    .add("windows", TEXTS)
    .add("columns", TEXTS)
    .add("conditions", TEXTS)
    .add("aggregates", TEXTS)
    .add("shared_nodes", TEXTS)
    .add("rows", "long")
    .add("state_bytes", "long")
    .add("seconds", "double")
    .add("text", "string")
)

Texts = list[str]
Row = tuple[str, str, Texts, Texts, Texts, Texts, Texts, Texts, int, int, float, str]


def sys_queries(registry: Registry, manifest: Manifest, reports: Reports) -> list[Row]:
    """A row per registered query, in the order of `SCHEMA`.

    `rows` counts the rows of its answer so far. `state_bytes` and `seconds` are those of its operators, shared ones
    included, as of the last tick in which each has run; `seconds` adds up the cells.
    """
    shared = sharing(manifest)
    rows: list[Row] = []
    for name, query in registry.queries.items():
        state, found = manifest.queries[name], features(query.query)
        nodes = set(state.nodes.values())
        held = [report for (node, _), report in reports.items() if node in nodes]
        lists = (found.streams, found.windows, found.columns, found.conditions, found.aggregates)
        streams, windows, columns, conditions, aggregates = map(list, lists)
        rows.append(
            (
                name,
                query.status,
                streams,
                windows,
                columns,
                conditions,
                aggregates,
                sorted(nodes & set(shared)),
                state.rows,
                sum(each.held_bytes for each in held),
                float(sum(each.seconds for each in held)),
                found.text,
            )
        )
    return rows
