"""Queries with state that differ in constants, run as one: the templates of those that are registered.

A query is compiled by itself, as others are. It is known to be of a template (`planning/query_templates.py`), too; once
enough queries are, the template is compiled, and those that begin then run as one: their rows are looked up in an
index of constants, and operators keep each of them apart (`fold_nodes.py` says which go on together).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from anabranch.engine.fold_nodes import Foldable, is_folded
from anabranch.engine.index_task import IndexTask
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.query import ContinuousQuery
from anabranch.expressions import all_of
from anabranch.logical_plan import Query
from anabranch.model.names import quoted
from anabranch.planning.index_look_up import IndexLookUp
from anabranch.planning.query_templates import QueryTemplate, query_template
from anabranch.spark.continuous.programs import Program
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow

FEWEST = 16
"""Queries of one template that are worth an index: their rows pass through Python once more, coming and going."""
Members: TypeAlias = tuple[tuple[int, int, tuple[Any, ...]], ...]
"""Queries: the number of each, the time from which on it sees rows, and its constants."""


class QueryTemplates:
    """The templates of queries with state.

    Parameters
    ----------
    views
        What flows read from.
    compile_
        Makes the program of a template.
    """

    def __init__(self, views: Views, compile_: Callable[[QueryTemplate], Program]) -> None:
        self._views = views
        self._compile = compile_
        self._templates: dict[str, QueryTemplate] = {}
        self._values: dict[str, tuple[str, tuple[Any, ...]]] = {}
        self._programs: dict[str, Program] = {}
        self._indexes: dict[str, tuple[Members, Broadcast[IndexLookUp]]] = {}

    def __contains__(self, matches: str) -> bool:
        """Whether there is a template with matches of this name."""
        return matches in self._templates

    def columns(self, matches: str) -> StructType:
        """The columns of the matches of a template."""
        return from_arrow_schema(self._templates[matches].matched)

    def add(self, query: Query, schema: pa.Schema, program: Program) -> None:
        """Take in a query, given the columns of its stream and its program, if it is one that may be folded."""
        found = query_template(query, {field.name: field.type for field in schema})
        if found is not None and len(program.operators) == len(program.steps):
            template, values = found
            self._templates.setdefault(template.matches, template)
            self._values[query.name] = template.matches, values

    def known(self, name: str) -> tuple[QueryTemplate, Program]:
        """The template of a query, and what it does."""
        matches, _ = self._values[name]
        template = self._templates[matches]
        if matches not in self._programs:
            self._programs[matches] = self._compile(template)
        return template, self._programs[matches]

    def members(self, states: Mapping[str, QueryState]) -> Members:
        """Some queries, as an index of their constants knows them."""
        return tuple((state.number, state.since, self._values[name][1]) for name, state in states.items())

    def folds(self, manifest: Manifest) -> dict[str, list[str]]:
        """The queries that run as one, by what they have in common; any thread may ask."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, (matches, _) in list(self._values.items()):
            state = manifest.queries.get(name)
            if state is not None and is_folded(state):
                found[matches].append(name)
        return dict(found)

    def foldable(
        self, queries: Iterable[ContinuousQuery], all_: Iterable[ContinuousQuery], manifest: Manifest
    ) -> dict[str, Foldable]:
        """Those of some queries that run as one with others, or begin to: those of which there are enough."""
        counts = Counter(self._values[each.name][0] for each in all_ if each.share and each.name in self._values)
        found = {}
        for query in queries:
            state = manifest.queries[query.name]
            if query.name not in self._values:
                continue
            begins = state.position == state.since and query.share and query.memory is None
            if is_folded(state) or (begins and counts[self._values[query.name][0]] >= FEWEST):
                found[query.name] = self._foldable(query)
        return found

    def _foldable(self, query: ContinuousQuery) -> Foldable:
        template, _ = self.known(query.name)
        return Foldable(template.matches, self.signatures(query.name), "" if query.share else query.name)

    def signatures(self, name: str) -> dict[int, str]:
        """What the operators do that run for a query and those that differ from it in constants, by stage."""
        _, program = self.known(name)
        return {step.stage.number: step.signature for step in program.operators}

    def matches(self, template: QueryTemplate, members: Members, rows: DataFrame) -> DataFrame:
        """The matches of rows of the stream, for some queries."""
        wanted = rows.where(all_of(template.safe).sql) if template.safe else rows
        task = IndexTask(self._index(template, members), template.matched)
        read = wanted.select(*map(quoted, template.read))
        return map_in_arrow(read, task, from_arrow_schema(template.matched))

    def _index(self, template: QueryTemplate, members: Members) -> Broadcast[IndexLookUp]:
        known = self._indexes.get(template.matches)
        if known is None or known[0] != members:
            if known is not None:
                known[1].unpersist()
            made = self._views.session.sparkContext.broadcast(template.index(members))
            known = self._indexes[template.matches] = members, made
        return known[1]

    def forget(self, name: str) -> None:
        """A query is gone; with the last one of a template, the template is."""
        matches, _ = self._values.pop(name, ("", ()))
        if matches and all(matches != other for other, _ in self._values.values()):
            self._forget(matches)

    def forget_stream(self, name: str) -> None:
        """A stream is gone."""
        for matches in [each.matches for each in self._templates.values() if each.stream == name]:
            self._forget(matches)

    def _forget(self, matches: str) -> None:
        self._templates.pop(matches, None)
        program, index = self._programs.pop(matches, None), self._indexes.pop(matches, None)
        if program is not None:
            self._views.drop([*program.views, *(each.view for each in program.inputs)])
        if index is not None:
            index[1].unpersist()
