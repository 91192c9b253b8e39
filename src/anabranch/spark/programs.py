"""A query as Spark runs it in every tick: SQL for what needs no state, and stages that are shuffled to cells.

A plan is read once, when the query is registered, into a *program*: SQL texts over views. In a tick the views are bound
to the rows that are due and the texts are run. Building the same as DataFrames, tick after tick, took a third of a
short tick's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.cells.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT
from anabranch.cells.exact_sums import BITS, MASK
from anabranch.cells.segments import INPUT
from anabranch.cql.bound import NUMBER
from anabranch.errors import QueryError
from anabranch.model.build import native
from anabranch.model.continuous import Query, Scalar, Scan
from anabranch.model.names import quoted
from anabranch.planning.reading import read
from anabranch.planning.stages import Items, Stage
from anabranch.spark.catalyst import inspect
from anabranch.spark.cell_task import INSTANT, MARKER
from anabranch.spark.expression_types import check_types
from anabranch.spark.grid import CELL, ONE_CELL, Grid, code, listed
from anabranch.spark.schemas import arrow_schema, empty_frame
from anabranch.spark.summaries import BATCH, NEWEST, OLDEST, summary_name

BEGINS = "begins"
"""The parameter of texts that says whether it is the query's first tick, in which it is told of relations."""


@dataclass(frozen=True)
class Sql:
    """A flow: a text, and the names of its columns; of what comes from a stage as it is, the stage's number."""

    text: str
    columns: tuple[str, ...]
    stage: int | None = None


@dataclass(frozen=True)
class Input:
    """A view that is bound in every tick.

    Parameters
    ----------
    view
        Its name.
    kind
        came
            Rows of a stream that are due, with `_time`.
        left
            Those that were due `ago` microseconds earlier.
        table
            Rows of a relation.
    name
        Of the stream, its summary, or the relation.
    """

    view: str
    kind: Literal["came", "left", "table"]
    name: str
    ago: int = 0


@dataclass(frozen=True)
class CellStep:
    """A stage: the text gives the rows with their cell and the number of their input."""

    view: str
    text: str
    stage: Stage
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    cells: int


@dataclass(frozen=True)
class FilterStep:
    """Conditions that run as an adaptive filter."""

    view: str
    text: str
    conditions: tuple[Scalar, ...]


@dataclass(frozen=True)
class Program:
    """What to do in a tick.

    Parameters
    ----------
    inputs
        Views to bind first.
    steps
        One after the other; each binds its view for what follows.
    answer
        The text of the answer: the plan's columns, `_time` and `_weight`.
    held
        How long rows of each stream are needed after their time.
    reads
        The columns of each stream that are read.
    summaries
        Texts that sum up a batch of a stream, by the names of the summaries.
    """

    inputs: tuple[Input, ...]
    steps: tuple[CellStep | FilterStep, ...]
    answer: Sql
    held: dict[str, int]
    reads: dict[str, list[str]]
    summaries: dict[str, str]

    @property
    def views(self) -> list[str]:
        """All views that are bound for it."""
        return [each.view for each in (*self.inputs, *self.steps)]

    @property
    def stages(self) -> list[Stage]:
        """The stages."""
        return [step.stage for step in self.steps if isinstance(step, CellStep)]


class Compiler:
    """The backend that writes programs.

    Parameters
    ----------
    session
        Tells the types of what a text selects.
    owner
        Prefix of the names of views.
    grid
        Cells.
    orders
        Columns that order rows of the same time, per stream.
    empty
        The columns of a stream (with `_time`) or relation, without rows.
    summing
        Whether streams may be summed up as they come; else that is done when rows are due.
    """

    def __init__(
        self,
        session: SparkSession,
        owner: str,
        grid: Grid,
        orders: Callable[[str], tuple[str, ...]],
        empty: Callable[[Input], DataFrame],
        summing: bool,
    ) -> None:
        self._session = session
        self._owner = owner
        self._database = session.conf.get("spark.sql.globalTempDatabase")
        self._grid = grid
        self._orders = orders
        self._empty = empty
        self._summing = summing
        self._summaries: dict[str, str] = {}
        self._batches: dict[str, Input] = {}
        self._inputs: dict[tuple[str, str, int], Input] = {}
        self._steps: list[CellStep | FilterStep] = []
        self._held: dict[str, int] = {}
        self._reads: dict[str, set[str]] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._query: Query | None = None

    def compile(self, query: Query) -> Program:
        """The program of a query."""
        self._query = query
        try:
            answer = read(query, self)
        except BaseException:
            unbind(self._session, [each.view for each in (*self._inputs.values(), *self._steps)])
            raise
        finally:
            unbind(self._session, [each.view for each in self._batches.values()])
        reads = {name: sorted(columns) for name, columns in self._reads.items()}
        return Program(tuple(self._inputs.values()), tuple(self._steps), answer, self._held, reads, self._summaries)

    def stream(self, scan: Scan) -> Sql:
        """Rows of a stream that are due, with `_time`."""
        return self._renamed(scan, self._input("came", scan.name), {TIME: TIME})

    def arriving(self, scan: Scan) -> Sql:
        """Rows of a stream as they come, with `_time`."""
        if not self._summing:
            return self.stream(scan)
        if scan.name not in self._batches:
            self._batches[scan.name] = Input(self._view(f"batch_{scan.name}"), "came", scan.name)
            bind(self._empty(self._batches[scan.name]), self._batches[scan.name].view)
        return _selected(scan, self._batches[scan.name], {TIME: TIME})

    def expired(self, scan: Scan, span: int) -> Sql:
        """Rows of a stream that leave a window, with `_time`."""
        self._held[scan.name] = max(span + 1, self._held.get(scan.name, 0))
        return self._renamed(scan, self._input("left", scan.name, span + 1), {TIME: TIME})

    def order_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that order rows of the same time."""
        return self._orders(stream)

    def relation(self, scan: Scan) -> Sql:
        """Elements of a relation: all of them in the first tick."""
        bounds = {name: f"{value}L" for name, value in zip(ELEMENT, (EVER, FOREVER, 1), strict=True)}
        rows = self._renamed(scan, self._input("table", scan.name), bounds)
        return Sql(f"{rows.text} WHERE :{BEGINS}", rows.columns)

    def table(self, scan: Scan) -> Sql:
        """All rows of a relation, without times."""
        return self._renamed(scan, self._input("table", scan.name), {})

    def schema(self, flow: Sql) -> pa.Schema:
        """Names and types of a flow's columns."""
        return self._schema(flow.text)

    def filter(self, flow: Sql, conditions: Sequence[Scalar]) -> Sql:
        """Rows for which all conditions are true."""
        self._check_types(flow, conditions)
        if any(condition.functions for condition in conditions) or self._gains_by_order(flow, conditions):
            view = self._view("filter")
            self._steps.append(FilterStep(view, flow.text, tuple(conditions)))
            self._bind_empty(view, self._schema(flow.text))
            return Sql(f"SELECT * FROM {view}", flow.columns)
        wanted = " AND ".join(f"({condition.sql})" for condition in conditions)
        return Sql(f"SELECT * FROM ({flow.text}) AS flow WHERE {wanted}", flow.columns)  # or `WHERE (x)` names it

    def project(self, flow: Sql, items: Items) -> Sql:
        """Exactly these columns."""
        self._check_types(flow, [scalar for _, scalar in items])
        chosen = listed({name: scalar.sql for name, scalar in items})
        return Sql(f"SELECT {chosen} FROM ({flow.text})", tuple(name for name, _ in items))

    def union(self, flows: Sequence[Sql]) -> Sql:
        """All rows."""
        names = flows[0].columns
        return Sql(_union([f"SELECT {_names(names)} FROM ({flow.text})" for flow in flows]), names)

    def sum_up(self, flow: Sql, keys: Sequence[str], sums: Mapping[str, str]) -> Sql:
        """Elements of equal keys and equal ends as one."""
        same = ", ".join(map(quoted, (*keys, START, END)))
        schema = self.schema(flow)
        bundles = {new: _bundle(name, schema) for name, new in sums.items()}
        items = {name: quoted(name) for name in (*keys, START, END)} | {WEIGHT: f"sum({WEIGHT})"} | bundles
        if TIME in flow.columns and self._summing:
            items |= {OLDEST: f"min({TIME})", NEWEST: f"max({TIME})"}
        return Sql(f"SELECT {listed(items)} FROM ({flow.text}) GROUP BY {same}", tuple(items))

    def summary(self, stream: str, flow: Sql) -> Sql:
        """What is summed up of arriving rows, when it is due: at its start."""
        if not self._summing:
            return flow
        made = f"SELECT *, {START} AS {TIME} FROM ({flow.text})"
        text = made.replace(self._batches[stream].view, BATCH)
        name = summary_name(stream, text)
        self._summaries[name] = text
        source = self._inputs.setdefault(("came", name, 0), Input(self._view("summary"), "came", name))
        bind(select(self._session, made), source.view)
        kept = tuple(column for column in flow.columns if column not in (OLDEST, NEWEST))
        return Sql(f"SELECT {_names(kept)} FROM {source.view}", kept)

    def look_up(self, flow: Sql, table: Sql, pairs: Sequence[tuple[str, str]]) -> Sql:
        """Rows of the flow combined with those of the table that agree, by a join of Spark's own."""
        agree = " AND ".join(f"l.{quoted(left)} = r.{quoted(right)}" for left, right in pairs) or "true"
        text = f"SELECT * FROM ({flow.text}) AS l JOIN ({table.text}) AS r ON {agree}"
        return Sql(text, (*flow.columns, *table.columns))

    def instants(self, streams: Sequence[str]) -> Sql:
        """Times of the rows that are due."""
        times = _union([f"SELECT {TIME} FROM {self._input('came', name).view}" for name in streams])
        return Sql(f"SELECT DISTINCT {TIME} FROM ({times})", (TIME,))

    def stage(self, stage: Stage, flows: Sequence[Sql]) -> Sql:
        """What the operator makes of the flows: one shuffle, one task per cell."""
        cells = ONE_CELL if stage.single else self._grid
        columns = tuple(
            (*flow.columns, *(name for name, _ in feed.codes)) for flow, feed in zip(flows, stage.feeds, strict=True)
        )
        every = tuple(
            dict.fromkeys([*(name for each in columns for name in each), *([TIME] if stage.instants else [])])
        )
        parts = []
        for number, (flow, feed) in enumerate(zip(flows, stage.feeds, strict=True)):
            schema = self.schema(flow)
            _refuse_maps(schema, [name for _, of in feed.codes for name in of])
            own = {name: quoted(name) for name in flow.columns}
            own |= {name: code(of, schema) for name, of in feed.codes}
            parts.append(_sent(cells.cell(feed, schema), number, own, every, flow.text))
        parts.append(_sent(cells.each, MARKER, {}, every, "SELECT * FROM range(0, 1, 1, 1)"))
        if stage.instants:
            parts.append(_sent(cells.each, INSTANT, {TIME: TIME}, every, self.instants(stage.instants).text))
        text, view = _union(parts), self._view(f"stage_{stage.number}")
        schema = self._schema(text)
        arrived = schema.remove(schema.get_field_index(CELL))
        self._steps.append(CellStep(view, text, stage, columns, arrived, len(cells)))
        self._bind_empty(view, stage.output)
        return Sql(f"SELECT * FROM {view}", tuple(stage.output.names), stage.number)

    def _gains_by_order(self, flow: Sql, conditions: Sequence[Scalar]) -> bool:
        """Whether there is something to order, and the flow can be sampled: rows of streams, not changed by a step."""
        tables = [each for each in self._inputs.values() if each.kind == "table"]
        opaque = (*self._steps, *tables)
        if len(conditions) < 2 or any(each.view in flow.text for each in opaque):
            return False
        rows = select(self._session, flow.text)
        judged = [inspect(rows, native(F.expr(each.sql))) for each in conditions]
        return not all(each.trivial for each in judged)

    def _check_types(self, flow: Sql, scalars: Sequence[Scalar]) -> None:
        if self._query is not None:
            check_types(self._session, self._query, scalars, flow.text.replace(f":{BEGINS}", "true"))

    def _schema(self, text: str) -> pa.Schema:
        if text not in self._schemas:
            self._schemas[text] = arrow_schema(select(self._session, text).schema)
        return self._schemas[text]

    def _renamed(self, scan: Scan, source: Input, more: dict[str, str]) -> Sql:
        if scan.kind == "stream":
            self._reads.setdefault(scan.name, set()).update(there for there, _ in scan.renamed)
        return _selected(scan, source, more)

    def _input(self, kind: Literal["came", "left", "table"], name: str, ago: int = 0) -> Input:
        key = (kind, name, ago)
        if key not in self._inputs:
            self._inputs[key] = Input(self._view(f"{kind}_{name}"), kind, name, ago)
            bind(self._empty(self._inputs[key]), self._inputs[key].view)
        return self._inputs[key]

    def _view(self, what: str) -> str:
        return f"{self._database}.`{self._owner}_{len(self._inputs)}_{len(self._steps)}_{what}`"

    def _bind_empty(self, view: str, schema: pa.Schema) -> None:
        bind(empty_frame(self._session, from_arrow_schema(schema)), view)


def select(session: SparkSession, text: str, begins: bool = True) -> DataFrame:
    """What a text selects, with the views as they are bound now."""
    return session.sql(text, {BEGINS: begins}) if f":{BEGINS}" in text else session.sql(text)


def bind(df: DataFrame, view: str) -> None:
    """Let a view of all sessions stand for a DataFrame: those of sources and of the user's live in others than ours."""
    df.createOrReplaceGlobalTempView(_bare(view))


def unbind(session: SparkSession, views: Iterable[str]) -> None:
    """Let go of views, which keep the plans of what they stand for."""
    catalog = session._jsparkSession.sessionState().catalog()  # the public one unpersists what a view stands for
    for view in views:
        catalog.dropGlobalTempView(_bare(view))


def _refuse_maps(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if _has_map(schema.field(name).type):
            hint = "take values out of it, as in m['x'], or make a text of it, as in to_json(m)"
            raise QueryError(f"column {NUMBER.sub('', name)!r} is a map, and maps do not compare", hint=hint)


def _has_map(kind: pa.DataType) -> bool:
    parts = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return bool(pa.types.is_map(kind)) or any(map(_has_map, parts))


def _bare(view: str) -> str:
    return view.split(".", 1)[1].strip("`")


def _bundle(name: str, schema: pa.Schema) -> str:
    """SQL: values as a bundle; of what is not a number only the count is of interest."""
    value, low, high = quoted(name), "0L", "0L"
    if pa.types.is_integer(schema.field(name).type):
        long = f"CAST({value} AS BIGINT)"
        low, high = f"coalesce(sum({long} & {MASK}L), 0L)", f"coalesce(sum(shiftright({long}, {BITS})), 0L)"
    return f"named_struct('_count', count({value}), '_low', {low}, '_high', {high})"


def _selected(scan: Scan, source: Input, more: dict[str, str]) -> Sql:
    items = {name: quoted(there) for there, name in scan.renamed} | more
    return Sql(f"SELECT {listed(items) or 'NULL AS _none'} FROM {source.view}", tuple(items) or ("_none",))


def _sent(cell: str, number: int, own: dict[str, str], every: Sequence[str], text: str) -> str:
    """Rows on their way to a cell, with all columns that some input of the stage has."""
    items = {CELL: cell, INPUT: str(number)} | {name: own.get(name, "NULL") for name in every}
    return f"SELECT {listed(items)} FROM ({text})"


def _union(texts: Sequence[str]) -> str:
    return " UNION ALL ".join(texts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
