"""Statements of a script, carried out on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, SparkSession

from anabranch.constraints.config import Mode
from anabranch.cql import statements as cql
from anabranch.cql.catalog import folded
from anabranch.cql.dialect import parse
from anabranch.cql.rendering import mermaid, render
from anabranch.engine.durations import refuse_renamed
from anabranch.engine.failures import SPARKS, summarize
from anabranch.engine.query import ContinuousQuery
from anabranch.errors import QueryError, UnknownColumn, suggest
from anabranch.formats import DESCRIBES_ITSELF, REPLAY, SOURCE_FORMATS
from anabranch.model.names import quoted
from anabranch.model.stream_times import ARRIVAL, Arrival
from anabranch.spark.continuous.replay import ReplaySource

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine


def execute(engine: Engine, spark: SparkSession, script: str | Sequence[cql.Statement], *, bounded: bool) -> list[str]:
    """Carry out a script; the output of its statements, such as the table of `Show`."""
    said = []
    for statement in parse(script) if isinstance(script, str) else script:
        answer = _execute(engine, spark, statement, bounded)
        said += [answer] if answer else []
    return said


def _execute(engine: Engine, spark: SparkSession, statement: cql.Statement, bounded: bool) -> str | None:
    match statement:
        case cql.CreateStream():
            _create_stream(engine, spark, statement, bounded)
        case cql.CreateRelation():
            engine.relation(statement.name, _load(spark, statement, streaming=False))
        case cql.RelationFromStream():
            engine.view(statement.name, statement.text)
        case cql.InsertStatement():
            engine.insert(statement.name, _values(engine, spark, statement))
        case cql.DeleteStatement():
            engine.delete(statement.name, statement.condition)
        case cql.CreateView():
            engine.view(statement.name, statement.ast)
        case cql.CreateQuery():
            query = _create_query(engine, statement)
            if statement.sink is not None:
                query.use_sink(statement.sink.format, **{_option(key): value for key, value in statement.sink.options})
        case cql.SelectStatement():
            engine.query(statement.ast, _free_name(engine))
        case cql.DropStatement():
            _drop(engine, statement)
        case cql.Pause():
            _query(engine, statement.name).pause()
        case cql.Resume():
            _query(engine, statement.name).resume()
        case cql.Show():
            return engine.describe(statement.kind, like=statement.like)
        case cql.Explain():
            return _explain(engine, statement)
    return None


def _create_query(engine: Engine, statement: cql.CreateQuery) -> ContinuousQuery:
    if statement.for_each is None:
        constraints = cast("Mode", statement.constraints)
        return engine.query(
            statement.ast,
            statement.name,
            history=statement.from_history,
            constraints=constraints,
            memory=statement.memory,
        )
    key, relation = statement.for_each
    return engine.rules(statement.name, statement.ast, key=key, over=relation, history=statement.from_history).query


def _values(engine: Engine, spark: SparkSession, statement: cql.InsertStatement) -> DataFrame:
    """The rows of an Insert, with the types of the relation's columns."""
    schema = engine.schema_of(statement.name)
    names = [folded(name, schema.names) for name in statement.columns] or schema.names
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(name, schema.names, where=f"Insert Into {statement.name}")
    given = len(statement.rows[0])
    if given != len(names):
        raise QueryError(
            f"a row of {given} values for {len(names)} columns of relation {statement.name!r}",
            hint=f"its columns are {', '.join(schema.names)}",
        )
    rows = ", ".join(f"({', '.join(values)})" for values in statement.rows)
    columns = [
        f"CAST({f'col{names.index(each.name) + 1}' if each.name in names else 'NULL'} AS "
        f"{each.dataType.simpleString()}) AS {quoted(each.name)}"
        for each in schema
    ]
    try:
        return spark.sql(f"SELECT {', '.join(columns)} FROM VALUES {rows}").coalesce(1)
    except SPARKS as error:
        raise QueryError(
            f"the values for relation {statement.name!r} are invalid: {summarize(error)}", hint="give constants"
        ) from None


def _free_name(engine: Engine) -> str:
    """A name for a query that has none: the same whenever the same script is carried out anew."""
    taken = {name.lower() for name in engine.catalog.names()}
    return next(name for n in count(len(engine.queries) + 1) if (name := f"query_{n}") not in taken)


def _create_stream(engine: Engine, spark: SparkSession, statement: cql.CreateStream, bounded: bool) -> None:
    statement, retain = _retained(statement)
    df = _load(spark, statement, streaming=not bounded)
    engine.stream(
        statement.name,
        df,
        timestamp=_timestamp(statement, df.columns),
        skew="auto" if statement.skew_us is None else _micros(statement.skew_us),
        sequence=None if statement.sequence is None else folded(statement.sequence, df.columns),
        idle=None if statement.idle_us is None else _micros(statement.idle_us),
        retain=retain,
        key=[folded(each, df.columns) for each in statement.key],
    )


def _timestamp(statement: cql.CreateStream, columns: Sequence[str]) -> str | Arrival:
    """The column of times, if there is one; refuse a word that could also be that of a column."""
    if not isinstance(statement.timestamp, Arrival):
        return folded(statement.timestamp, columns)
    named = folded(ARRIVAL.value, columns)
    if named in columns:
        raise QueryError(
            f"stream {statement.name!r} has a column {named!r}: Timestamp Arrival may mean two things",
            hint=f"write Timestamp `{named}` for the column; if the time of arrival is meant, rename the column first",
        )
    return ARRIVAL


def _retained(statement: cql.CreateStream) -> tuple[cql.CreateStream, str]:
    """The statement without the option `retain`, which is not Spark's, and for how long rows stay."""
    refuse_renamed(dict(statement.options))
    given = [value for key, value in statement.options if key.lower() == "retain"]
    if given and statement.retain_us is not None:
        raise QueryError(f"retain of stream {statement.name!r} is given twice", hint="leave one of them out")
    options = tuple(each for each in statement.options if each[0].lower() != "retain")
    return replace(statement, options=options), given[0] if given else _micros(statement.retain_us or 0)


def _micros(count: int) -> str:
    return f"{count} microseconds"


def _option(name: str) -> str:
    """Options of our own are found however they are written; others are Spark's."""
    return name.lower() if name.lower() in ("path", "retain") else name


def _load(spark: SparkSession, statement: cql.CreateStream | cql.CreateRelation, *, streaming: bool) -> DataFrame:
    """The rows that a statement names, by Spark's own readers."""
    options = {_option(key): value for key, value in statement.options}
    if statement.format == REPLAY and not streaming:  # all at once
        kind = str(options.get("format", "parquet"))
        return _load(spark, replace(statement, format=kind, options=(("path", options["path"]),)), streaming=False)
    try:
        return _read(spark, statement, options, streaming)
    except SPARKS as error:
        unknown = "[DATA_SOURCE_NOT_FOUND]" in str(error)
        hint = (
            suggest(statement.format, SOURCE_FORMATS, "formats")
            if unknown
            else "check the format, the path, the options"
        )
        raise QueryError(f"{statement.name!r} cannot be read: {summarize(error)}", hint=hint) from None


def _read(
    spark: SparkSession, statement: cql.CreateStream | cql.CreateRelation, options: dict[str, str], streaming: bool
) -> DataFrame:
    if statement.format == REPLAY:
        spark.dataSource.register(ReplaySource)
        options |= _replayed_by(spark, statement) if isinstance(statement, cql.CreateStream) else {}
    path = options.pop("path", None)
    reader = spark.readStream if streaming else spark.read
    reader = reader.format(statement.format).options(**options)
    if statement.columns:
        reader = reader.schema(", ".join(f"{quoted(name)} {kind}" for name, kind in statement.columns))
    elif streaming and statement.format.lower() not in DESCRIBES_ITSELF and path:
        reader = reader.schema(spark.read.format(statement.format).options(**options).load(path).schema)
    load: Callable[..., DataFrame] = reader.load
    return load(path) if path else load()


def _replayed_by(spark: SparkSession, statement: cql.CreateStream) -> dict[str, str]:
    """The option that names the column of times as the files spell it."""
    if isinstance(statement.timestamp, Arrival):
        raise QueryError(
            f"stream {statement.name!r} is replayed by times that its rows do not have",
            hint="name their column of times, or read the files as they are, as in From 'parquet'",
        )
    names = [name for name, _ in statement.columns]
    names = names or _load(spark, statement, streaming=False).columns
    return {"timestamp": folded(statement.timestamp, names)}


def _drop(engine: Engine, statement: cql.DropStatement) -> None:
    name, catalog = statement.name, engine.catalog
    left_behind = statement.kind == "query" and folded(name, catalog.names()) not in catalog.names()
    engine.drop(name if left_behind else catalog.own_name(statement.kind, name))  # or the checkpoint knows the query


def _query(engine: Engine, name: str) -> ContinuousQuery:
    return engine.queries[engine.catalog.own_name("query", name)]


def _explain(engine: Engine, statement: cql.Explain) -> str:
    if isinstance(statement.target, str):
        handle = _query(engine, statement.target)
        return f"{handle.explain()}\n\n{mermaid(handle.query)}"
    query = engine.bind(statement.target.ast)
    return f"{render(query.plan)}\n\n{mermaid(query)}"
