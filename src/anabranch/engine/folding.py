"""Queries that differ in constants alone, answered as one: their constants are a table that rows are looked up in.

A query without state is a select: conditions, and what is computed. Without the constants that its conditions compare
columns with, it is a *template*. Queries of one template that answer the same rows do so together: an index of their
constants (`planning/index_look_up.py`) finds for each row the queries that want it, and what is computed of it is
computed once for each of them, as by a query of its own. Which queries are folded is decided for every batch anew:
each keeps its own position, and one that is paused, dropped or has failed is just not there.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engine.index_task import IndexTask
from anabranch.expressions import Scalar
from anabranch.logical_plan import Filter, Plan, Query, Scan, walk
from anabranch.planning.constants import masked, taken_out
from anabranch.planning.index_look_up import IndexLookUp
from anabranch.planning.probes import Probe
from anabranch.spark.continuous.flows import Select, Sql, View, hashed
from anabranch.spark.continuous.programs import Program
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow

FEWEST = 8
"""Queries of one template that are worth an index."""
MEMBER = "_query"
"""The column that says for which query a row is: its place among those that are folded."""
Key = TypeVar("Key")


@dataclass(frozen=True)
class Template:
    """What queries are that differ in constants.

    Parameters
    ----------
    key
        Equal for queries of one template.
    select
        What one of them selects, without its constants.
    probes, kinds
        How columns are compared with constants, and the types of these.
    schema
        Of the columns of the source that it reads.
    """

    key: str
    select: Select
    probes: tuple[Probe, ...]
    kinds: tuple[pa.DataType, ...]
    schema: pa.Schema

    @property
    def rows(self) -> Sql:
        """The rows that some query may want: conditions that all have are tested, unless they may fail."""
        items = tuple((name, Scalar.reading(name)) for name in self.schema.names)
        return Sql((Select(self.select.source, items, self._safe),))

    @property
    def found(self) -> pa.Schema:
        """The columns of rows with the query that wants them."""
        return self.schema.append(pa.field(MEMBER, pa.int32()))

    def answers(self, view: str) -> Sql:
        """What is computed of the rows in a view, beside the query that wants them."""
        rest = tuple(each for each in self.select.conditions if each not in self._safe)
        items = (*self.select.items, (MEMBER, Scalar.reading(MEMBER)))
        return Sql((Select(View(view, self.key), items, rest),))

    @property
    def _safe(self) -> tuple[Scalar, ...]:
        return tuple(each for each in self.select.conditions if not (each.may_fail or each.functions))


@dataclass(frozen=True)
class Folded:
    """A query as a template, and its constants."""

    template: Template
    values: tuple[Any, ...]


def folded(program: Program, source: pa.Schema, output: Sequence[str]) -> Folded | None:
    """A query without state as a template and constants; None if it has none that can be taken out.

    Parameters
    ----------
    program
        Of the query.
    source
        Columns of its stream.
    output
        Names of the answer's columns.
    """
    if program.steps or len(program.answer.branches) != 1:
        return None
    (select,) = program.answer.branches
    if not isinstance(select.source, View) or select.calls:
        return None
    found = taken_out(select.conditions, {field.name: field.type for field in source})
    if not found.probes:
        return None
    scalars = [*(scalar for _, scalar in select.items), *found.rest]
    read = {name for scalar in scalars for name in scalar.columns} | {probe.attribute for probe in found.probes}
    schema = pa.schema([field for field in source if field.name in read])
    items = [scalar.sql for _, scalar in select.items]
    rest = [each.sql for each in found.rest]
    about = (select.source.name, items, rest, found.probes, [*map(str, found.kinds)], list(output))
    bare = replace(select, conditions=found.rest)
    return Folded(Template(hashed(*about), bare, found.probes, found.kinds, schema), found.values)


def unlike_constants(query: Query, types: Mapping[str, pa.DataType]) -> tuple[str, tuple[Scalar, ...]] | None:
    """What a filter over a stream is without its constants, and its conditions in the names of the stream.

    Queries for which the first is equal have programs that differ in these conditions alone. None for other queries.

    Parameters
    ----------
    query
        Bound.
    types
        Those of the stream's columns.
    """
    nodes = list(walk(query.plan))
    scan, filters = nodes[0], [node for node in nodes if isinstance(node, Filter)]
    if not isinstance(scan, Scan) or len(filters) != 1 or any(len(node.inputs) > 1 for node in nodes):
        return None
    there, conditions = {unique: name for name, unique in scan.renamed}, filters[0].conditions
    if not {name for each in conditions for name in each.columns} <= there.keys():
        return None
    bare = tuple(masked(each, lambda name: pa.types.is_string(types[there[name]])) for each in conditions)
    alone = [repr(_alone(node) if node is not filters[0] else bare) for node in nodes]
    return hashed(alone, query.output), tuple(each.renamed(there) for each in conditions)


def _alone(node: Plan) -> list[object]:
    """A node without its inputs."""
    about = [getattr(node, each.name) for each in fields(node) if each.name not in ("input", "inputs")]
    return [type(node).__name__, *about]


def with_conditions(program: Program, conditions: tuple[Scalar, ...]) -> Program:
    """The program of a filter, with other conditions."""
    (select,) = program.answer.branches
    return replace(program, answer=Sql((replace(select, conditions=conditions),)))


def is_plain(program: Program, conditions: tuple[Scalar, ...]) -> bool:
    """Whether a program is a filter with just these conditions."""
    return not program.steps and [each.conditions for each in program.answer.branches] == [conditions]


def together(queries: Iterable[tuple[Key, Folded | None]]) -> dict[str, list[Key]]:
    """The queries that are worth folding, by their template."""
    groups: dict[str, list[Key]] = defaultdict(list)
    for query, known in queries:
        if known is not None:
            groups[known.template.key].append(query)
    return {template: members for template, members in groups.items() if len(members) >= FEWEST}


class Folds:
    """The indexes of constants that are in use, and the views of what they find.

    Parameters
    ----------
    views
        What flows read from.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._made: dict[str, tuple[tuple[tuple[Any, ...], ...], Broadcast[IndexLookUp]]] = {}

    def rows(self, template: Template, values: Sequence[tuple[Any, ...]], *, begins: bool) -> Sql:
        """What queries with these constants answer to the rows of their stream, each with the place of its query."""
        view = self._view(template.key)
        task = IndexTask(self._index(template, tuple(values)), template.found)
        rows = self._views.select(template.rows.text, begins)
        self._views.bind(view, map_in_arrow(rows, task, from_arrow_schema(template.found)))
        return template.answers(view)

    def forget(self, used: Iterable[str]) -> None:
        """Drop the indexes and views of all templates but these."""
        for key in set(self._made) - set(used):
            self._made.pop(key)[1].unpersist()
            self._views.drop([self._view(key)])

    def _view(self, key: str) -> str:
        return self._views.name(f"fold_{key}")

    def _index(self, template: Template, values: tuple[tuple[Any, ...], ...]) -> Broadcast[IndexLookUp]:
        known = self._made.get(template.key)
        if known is None or known[0] != values:
            if known is not None:
                known[1].unpersist()
            made = IndexLookUp.over(_table(template, values), (), template.probes)
            known = self._made[template.key] = values, self._views.session.sparkContext.broadcast(made)
        return known[1]


def _table(template: Template, values: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns: Mapping[str, pa.Array] = {
        probe.columns[0]: pa.array([each[place] for each in values], kind)
        for place, (probe, kind) in enumerate(zip(template.probes, template.kinds, strict=True))
    }
    return pa.table({**columns, MEMBER: pa.array(np.arange(len(values)), pa.int32())})
