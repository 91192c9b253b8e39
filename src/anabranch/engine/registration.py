"""Registering: names, queries that begin or go on from a checkpoint, and what they need of streams."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import get_args

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot import exp

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, FunctionInfo, folded
from anabranch.engine.batch_writer import IngestSpec
from anabranch.engine.fold_nodes import is_folded
from anabranch.engine.inputs import RelationInput, StreamInput
from anabranch.engine.loop import Loop
from anabranch.engine.manifest import MATERIALISE, SUMMED, QueryState, StreamState
from anabranch.engine.network import change_nodes, has_own_nodes, new_nodes
from anabranch.engine.parts import EngineParts
from anabranch.engine.query import ContinuousQuery
from anabranch.errors import QueryError, suggest
from anabranch.logical_plan import Query, scans
from anabranch.operators.base import EVER
from anabranch.planning.products import products
from anabranch.planning.reading import JoinPlan
from anabranch.spark.continuous.expression_types import said
from anabranch.spark.quiet_errors import quiet_errors

log = logging.getLogger("anabranch")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


class Registration:
    """Adds streams, relations and queries to an engine.

    Parameters
    ----------
    parts
        Of the engine; its checkpoint knows queries of earlier runs.
    loop
        Runs ticks: streams and queries are added between them.
    """

    def __init__(self, parts: EngineParts, loop: Loop) -> None:
        self._spark, self._checkpoint, self._registry = parts.spark, parts.checkpoint, parts.registry
        self._ingest, self._runtime, self._results = parts.ingest, parts.runtime, parts.results
        self._loop = loop

    # -- names

    @property
    def catalog(self) -> Catalog:
        """What queries may name."""
        registry = self._registry
        return Catalog(
            {name: tuple(stream.df.columns) for name, stream in registry.streams.items()},
            {name: tuple(relation.df.columns) for name, relation in registry.relations.items()},
            {name: query.query for name, query in registry.queries.items()},
            dict(registry.views),
            {name: FunctionInfo(name) for name in self._runtime.functions.names},
            [name for name, relation in registry.relations.items() if relation.changing],
            self._functions_of_spark,
        )

    def _functions_of_spark(self) -> list[str]:
        return [row[0].split(".")[-1] for row in self._spark.sql("SHOW FUNCTIONS").collect()]

    def require_free(self, name: str) -> None:
        """Refuse a name that is not valid, or taken."""
        if not _NAME.match(name):
            raise QueryError(f"{name!r} is not a valid name", hint="letters, digits and _, not beginning with a digit")
        taken = [*self.catalog.names(), *self._runtime.functions.names]
        if name.lower() in (each.lower() for each in taken):
            raise QueryError(f"the name {name!r} is taken", hint="drop it first, or choose another name")

    def schemas(self, tree: exp.Query) -> list[StructType]:
        """The columns of the streams and relations that a query names."""
        streams, relations = self._registry.streams, self._registry.relations
        known = {name: stream.df.schema for name, stream in streams.items()}
        known |= {name: relation.df.schema for name, relation in relations.items()}
        named = (folded(table.name, list(known)) for table in tree.find_all(exp.Table))
        return [known[name] for name in named if name in known]

    # -- streams and relations

    def add_stream(self, stream: StreamInput) -> None:
        """Register a stream."""
        with self._loop.between_ticks():
            self._registry.streams[stream.name] = stream
            self._checkpoint.manifest.streams.setdefault(stream.name, StreamState())
            self.update_ingest()

    def add_relation(self, name: str, df: DataFrame, *, changing: bool) -> None:
        """Register a relation; one that the checkpoint holds may change, and must have the same columns."""
        known = self._checkpoint.manifest.relations.get(name)
        if known is not None and known.columns != df.schema.simpleString():
            raise QueryError(
                f"the checkpoint holds a relation {name!r} with the columns {known.columns}",
                hint="register it with the same columns, give this one another name, or start with a new folder",
            )
        self._registry.relations[name] = RelationInput(name, df.persist(), changing or known is not None)

    # -- queries

    def add_query(self, query: ContinuousQuery, *, history: bool, materialise: str) -> None:
        """Compile a query and let it begin, or go on where the checkpoint says."""
        summing = self._may_sum(query.query)
        self._compile(query, summing=summing)
        with self._loop.between_ticks(), self._ingest.standing_still():
            if summing and not self._may_sum(query.query):  # its first rows came meanwhile
                self._runtime.compile(query, summing=False)
            self._restore(query, history, materialise)
            self._registry.queries[query.name] = query
            self.update_ingest()
        warn_of_products(query.query)

    def share(self, query: ContinuousQuery, *, share: bool) -> None:
        """Let a query use operators together with others from the next tick on, or its own."""
        with self._loop.between_ticks(), self._ingest.standing_still():
            query.share = share
            self._name_nodes(query)

    def _name_nodes(self, query: ContinuousQuery) -> None:
        """Let the nodes of a query be its own, or such as others may use, as it says."""
        manifest = self._checkpoint.manifest
        state = manifest.queries[query.name]
        if has_own_nodes(state) == query.share:
            signatures = self._runtime.signatures(query.name, folded=is_folded(state))
            change_nodes(manifest, query.name, signatures, _owner(query))

    def add_again(self, query: ContinuousQuery) -> None:
        """Compile a query that has not begun once more, since what it reads may change from now on."""
        queries = self._checkpoint.manifest.queries
        before = queries.pop(query.name)
        query.query = bind(query.written, self.catalog, query.name)
        self._compile(query, summing=self._may_sum(query.query))
        self._restore(query, history=False, materialise=before.materialise)
        queries[query.name].position = queries[query.name].since = before.since

    def update_ingest(self) -> None:
        """Say what of streams is needed: columns that queries read, or all where history is kept, and summaries."""
        manifest = self._checkpoint.manifest
        for name, stream in self._registry.streams.items():
            readers, summaries = manifest.readers(name), manifest.summaries(name)
            read = {column for state in readers for column in state.reads.get(name, [])}
            columns = tuple(each for each in stream.df.columns if stream.retain or each in read)
            rows = bool(stream.retain or readers or not summaries)
            self._ingest.want(name, IngestSpec(columns, rows, tuple(summaries.items())))

    def _may_sum(self, query: Query) -> bool:
        """Whether a query's streams may be summed up as they come: not if something has come before."""
        known = self._checkpoint.manifest.queries.get(query.name)
        return bool(known.summaries) if known else not any(map(self._ingest.begun, scans(query.plan, "stream")))

    def _compile(self, query: ContinuousQuery, *, summing: bool) -> None:
        try:
            with quiet_errors():
                self._results.expect(query.name, self._runtime.compile(query, summing=summing))
        except AnalysisException as error:
            raise QueryError(
                f"query {query.name!r} is invalid: {said(error, query.query)}", hint="check its functions and types"
            ) from None

    def _restore(self, query: ContinuousQuery, history: bool, materialise: str) -> None:
        """A query that the checkpoint knows goes on; another under its name is refused."""
        queries = self._checkpoint.manifest.queries
        print_ = self._registry.fingerprint(query.query) + (" xjoin" if query.join == "xjoin" else "")
        print_ += "" if query.constraints == "off" else f" constraints={query.constraints}"
        known = queries.get(query.name)
        _require_same_case(query.name, folded(query.name, list(queries)))
        if known is None:
            queries[query.name] = self._begin(query, print_, history, materialise)
            return
        if known.fingerprint != print_ or known.summaries != self._runtime.requirements(query.name).summaries:
            raise QueryError(
                f"the checkpoint holds another query, or other inputs, under the name {query.name!r}",
                hint="drop it first, give this one another name, or start with a new folder",
            )
        if known.materialise != materialise and not (known.summed and materialise in SUMMED):
            raise QueryError(
                f"the checkpoint holds query {query.name!r} with materialise={known.materialise!r}",
                hint="register it as it was, or drop it first",
            )
        queries[query.name] = replace(known, materialise=materialise)
        self._name_nodes(query)

    def _begin(self, query: ContinuousQuery, print_: str, history: bool, materialise: str) -> QueryState:
        """The state of a query that is new: it begins where all its streams can be read."""
        manifest, required = self._checkpoint.manifest, self._runtime.requirements(query.name)
        names, states, reads = scans(query.query.plan, "stream"), manifest.streams, required.reads
        begins = [self._ingest.since(name, reads.get(name, []), states[name], history=history) for name in names]
        since = max(begins, default=EVER)
        return QueryState(
            print_,
            position=since,
            since=since,
            tick=0 if since == EVER else manifest.tick,
            needs=required.needs,
            reads=required.reads,
            summaries=required.summaries,
            direct=required.direct,
            registered=manifest.tick,
            nodes=new_nodes(self._runtime.signatures(query.name), manifest, _owner(query)),
            number=manifest.new_number(),
            materialise=materialise,
        )


def _owner(query: ContinuousQuery) -> str:
    """Whose its nodes are, if not everybody's."""
    return "" if query.share else query.name


def require_join_plan(join: str) -> None:
    """Refuse a plan of joins that there is not."""
    if join not in get_args(JoinPlan):
        raise QueryError(f"unknown plan of joins {join!r}", hint=suggest(join, list(get_args(JoinPlan)), "plans"))


def warn_of_products(query: Query) -> None:
    """Say that rows are combined with all rows of another input."""
    for groups in products(query.plan):
        parts = " and ".join(" with ".join(group) for group in groups)
        what = "every row of one is combined with every row of the others, as no condition connects them"
        log.warning("query %s joins %s: %s", query.name, parts, what)


def require_materialise(given: str) -> None:
    """Refuse a way to keep answers that there is not."""
    if given not in MATERIALISE:
        raise QueryError(f"materialise is {given!r}", hint=suggest(given, MATERIALISE, "ways to materialise"))


def _require_same_case(name: str, own: str) -> None:
    if own != name:
        raise QueryError(
            f"the checkpoint holds a query {own!r}; {name!r} differs from it by case alone",
            hint="write its name as it is, drop it first, or give this one another name",
        )
