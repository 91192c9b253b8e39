"""A query as Spark runs it in every tick: SQL for what needs no state, and stages that are shuffled to cells.

A plan is read once, when the query is registered, into a *program*: SQL texts over views. In a tick the views are bound
to the rows that are due and the texts are run. Building the same as DataFrames, tick after tick, took a third of a
short tick's time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.cql.bound_query import without_number
from anabranch.errors import QueryError
from anabranch.logical_plan import Query, Scalar, Scan
from anabranch.model.build import native
from anabranch.model.names import quoted
from anabranch.operators.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT, Operator
from anabranch.operators.exact_sums import BITS, MASK
from anabranch.operators.segments import INPUT
from anabranch.planning.probes import Probe, comparable
from anabranch.planning.reading import read
from anabranch.planning.stages import VALID, VALID_FROM, VALID_TO, Items, Stage
from anabranch.spark.continuous.exchange import Wanted
from anabranch.spark.continuous.expression_types import check_types
from anabranch.spark.continuous.flows import Select, Sql, in_any_order, listed
from anabranch.spark.continuous.grid import Grid, code
from anabranch.spark.continuous.summaries import BATCH, NEWEST, OLDEST, summary_name
from anabranch.spark.continuous.views import BEGINS, Views
from anabranch.spark.native.catalyst import inspect
from anabranch.spark.schemas import arrow_schema, empty_frame

InputKind: TypeAlias = Literal["came", "left", "table", "versions", "changes"]
_NUMBERED = r"\b[A-Za-z]\w*_\d+\b"
"""Names of columns that an operator uses inside: the binder gives each a number."""


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
            Rows of a relation that does not change.
        versions
            Rows that a relation has had up to the end of the tick, with the times between which they are valid.
        changes
            Rows that enter a relation or leave it in the tick, with `_time` and `_weight`.
    name
        Of the stream, its summary, or the relation.
    """

    view: str
    kind: InputKind
    name: str
    ago: int = 0

    @property
    def is_stream(self) -> bool:
        """Whether it stands for rows of a stream, or of a summary of one."""
        return self.kind in ("came", "left")


@dataclass(frozen=True)
class CellStep:
    """A stage: an operator of the network.

    Parameters
    ----------
    view
        What later texts call its output.
    stage
        The operator.
    signature
        Equal for operators that do the same with the same rows, in whichever query.
    depth
        How many exchanges rows pass on their way through it.
    inputs
        Per input what it wants of each source.
    columns
        Per input the columns that the operator wants.
    schema
        Of the table in which all inputs are logged.
    names
        Its columns, in an order in which all operators of its signature have them.
    """

    view: str
    stage: Stage
    signature: str
    depth: int
    inputs: tuple[tuple[Wanted, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    names: tuple[str, ...]
    instants: str = ""


@dataclass(frozen=True)
class FilterStep:
    """Conditions that run as an adaptive filter over what a text selects, behind so many exchanges."""

    view: str
    text: str
    conditions: tuple[Scalar, ...]
    depth: int


@dataclass(frozen=True)
class LookUpStep:
    """Rows that a text selects, combined with those of a table through an index; see `planning/index_look_up.py`.

    Parameters
    ----------
    view
        What later texts call the combinations.
    text
        The rows, behind so many exchanges.
    table
        A text that selects the table, from these `relations`.
    pairs, probes
        What has to hold.
    schema
        Of the combinations.
    """

    view: str
    text: str
    table: str
    relations: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    probes: tuple[Probe, ...]
    schema: pa.Schema
    depth: int


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
        The answer: the plan's columns, `_time` and `_weight`.
    schema
        Of the answer.
    held
        How long rows of each stream are needed after their time.
    reads
        The columns of each stream that are read.
    summaries
        Texts that sum up a batch of a stream, by the names of the summaries.
    """

    inputs: tuple[Input, ...]
    steps: tuple[CellStep | FilterStep | LookUpStep, ...]
    answer: Sql
    schema: pa.Schema
    held: dict[str, int]
    reads: dict[str, list[str]]
    summaries: dict[str, str]

    @property
    def constants(self) -> set[str]:
        """The relations that must not change: it has read their rows once and for all."""
        return {each.name for each in self.inputs if each.kind == "table"}

    @property
    def views(self) -> list[str]:
        """The views that are bound for it alone."""
        return [each.view for each in self.steps]

    @property
    def operators(self) -> list[CellStep]:
        """The steps with state."""
        return [step for step in self.steps if isinstance(step, CellStep)]


class Compiler:
    """The backend that writes programs.

    Parameters
    ----------
    views
        Tell the types of what a text selects.
    owner
        Prefix of the names of views that are the query's own.
    grid
        Cells.
    orders
        Columns that order rows of the same time, per stream.
    empty
        The columns of a stream (with `_time`) or relation, without rows.
    summing
        Whether streams may be summed up as they come; else that is done when rows are due.
    salt
        Part of all signatures: operators with different salts are never the same.
    """

    def __init__(
        self,
        views: Views,
        owner: str,
        grid: Grid,
        orders: Callable[[str], tuple[str, ...]],
        empty: Callable[[Input], DataFrame],
        summing: bool,
        salt: str = "",
    ) -> None:
        self._views = views
        self._session = views.session
        self._owner = owner
        self._grid = grid
        self._orders = orders
        self._empty = empty
        self._summing = summing
        self._salt = salt
        self._summaries: dict[str, str] = {}
        self._batches: dict[str, Input] = {}
        self._inputs: dict[tuple[str, str, int], Input] = {}
        self._steps: list[CellStep | FilterStep | LookUpStep] = []
        self._held: dict[str, int] = {}
        self._reads: dict[str, set[str]] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._identities: dict[str, str] = {}
        self._depths: dict[str, int] = {}
        self._query: Query | None = None

    def compile(self, query: Query) -> Program:
        """The program of a query."""
        self._query = query
        try:
            answer = read(query, self)
        except BaseException:
            self._views.drop(each.view for each in self._steps)
            raise
        finally:
            self._views.drop(each.view for each in self._batches.values())
        reads = {name: sorted(columns) for name, columns in self._reads.items()}
        inputs, steps = tuple(self._inputs.values()), tuple(self._steps)
        return Program(inputs, steps, answer, self.schema(answer), self._held, reads, self._summaries)

    def stream(self, scan: Scan) -> Sql:
        """Rows of a stream that are due, with `_time`."""
        return self._renamed(scan, self._input("came", scan.name), {TIME: TIME})

    def arriving(self, scan: Scan) -> Sql:
        """Rows of a stream as they come, with `_time`."""
        if not self._summing:
            return self.stream(scan)
        if scan.name not in self._batches:
            self._batches[scan.name] = Input(self._view(f"batch_{scan.name}"), "came", scan.name)
            self._views.bind(self._batches[scan.name].view, self._empty(self._batches[scan.name]))
        return _selected(scan, self._batches[scan.name], {TIME: TIME})

    def expired(self, scan: Scan, span: int) -> Sql:
        """Rows of a stream that leave a window, with `_time`."""
        self._held[scan.name] = max(span + 1, self._held.get(scan.name, 0))
        return self._renamed(scan, self._input("left", scan.name, span + 1), {TIME: TIME})

    def order_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that order rows of the same time."""
        return self._orders(stream)

    def relation(self, scan: Scan) -> Sql:
        """Elements of a relation: all of them in the first tick, or those that change."""
        if scan.changing:
            times = {START: TIME, END: f"{FOREVER}L", WEIGHT: WEIGHT}
            return self._renamed(scan, self._input("changes", scan.name), times)
        bounds = {name: f"{value}L" for name, value in zip(ELEMENT, (EVER, FOREVER, 1), strict=True)}
        rows = self._renamed(scan, self._input("table", scan.name), bounds)
        return rows.where([Scalar(f":{BEGINS}")])

    def table(self, scan: Scan) -> Sql:
        """All rows of a relation that does not change, without times."""
        return self._renamed(scan, self._input("table", scan.name), {})

    def versions(self, scan: Scan) -> Sql:
        """All rows that a relation has had, with the times between which they are valid."""
        return self._renamed(scan, self._input("versions", scan.name), {name: name for name in VALID})

    def schema(self, flow: Sql) -> pa.Schema:
        """Names and types of a flow's columns."""
        return self._schema(flow.text)

    def filter(self, flow: Sql, conditions: Sequence[Scalar]) -> Sql:
        """Rows for which all conditions are true."""
        self._check_types(flow, conditions)
        if any(condition.functions for condition in conditions) or self._gains_by_order(flow, conditions):
            view = self._view("filter")
            self._identities[view] = self._identity(repr((flow.text, conditions)))
            self._depths[view] = self._depth(flow.text)
            self._steps.append(FilterStep(view, flow.text, tuple(conditions), self._depths[view]))
            self._bind_empty(view, self._schema(flow.text))
            return _whole(view, flow.columns)
        return flow.where(conditions)

    def project(self, flow: Sql, items: Items) -> Sql:
        """Exactly these columns."""
        self._check_types(flow, [scalar for _, scalar in items])
        return flow.select(items)

    def union(self, flows: Sequence[Sql]) -> Sql:
        """All rows."""
        return Sql(tuple(branch for flow in flows for branch in flow.only(flows[0].columns).branches))

    def sum_up(self, flow: Sql, keys: Sequence[str], sums: Mapping[str, str]) -> Sql:
        """Elements of equal keys and equal ends as one."""
        same = ", ".join(map(quoted, (*keys, START, END)))
        schema = self.schema(flow)
        bundles = {new: _bundle(name, schema) for name, new in sums.items()}
        items = {name: quoted(name) for name in (*keys, START, END)} | {WEIGHT: f"sum({WEIGHT})"} | bundles
        if TIME in flow.columns and self._summing:
            items |= {OLDEST: f"min({TIME})", NEWEST: f"max({TIME})"}
        return _whole(f"(SELECT {listed(items)} FROM ({flow.text}) GROUP BY {same})", items)

    def summary(self, stream: str, flow: Sql) -> Sql:
        """What is summed up of arriving rows, when it is due: at its start."""
        if not self._summing:
            return flow
        made = f"SELECT *, {START} AS {TIME} FROM ({flow.text})"
        text = made.replace(self._batches[stream].view, BATCH)
        name = summary_name(stream, text)
        self._summaries[name] = text
        source = self._inputs.setdefault(("came", name, 0), Input(self._views.of_source("came", name), "came", name))
        self._views.ensure(source.view, lambda: self._views.select(made))
        self._identities[source.view] = name
        return _whole(source.view, [column for column in flow.columns if column not in (OLDEST, NEWEST)])

    def look_up(self, flow: Sql, table: Sql, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe] = ()) -> Sql:
        """Rows of the flow combined with those of the table that agree: by a join of Spark's own, or an index."""
        if probes or (VALID_FROM in table.columns and pairs and self._has_order(table, [right for _, right in pairs])):
            return self._indexed(flow, table, pairs, probes)
        agree = [f"l.{quoted(left)} = r.{quoted(right)}" for left, right in pairs]
        if VALID_FROM in table.columns:
            agree += [f"l.{START} >= r.{VALID_FROM}", f"l.{START} < r.{VALID_TO}"]
        both = f"(SELECT * FROM ({flow.text}) AS l JOIN ({table.text}) AS r ON {' AND '.join(agree) or 'true'})"
        return _whole(both, (*flow.columns, *(name for name in table.columns if name not in VALID)))

    def _has_order(self, table: Sql, names: Sequence[str]) -> bool:
        return all(comparable(self.schema(table).field(name).type) for name in names)

    def _indexed(self, flow: Sql, table: Sql, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe]) -> Sql:
        view, there, here = self._view("look_up"), self.schema(flow), self.schema(table)
        schema = pa.schema([*there, *(field for field in here if field.name not in VALID)])
        read = tuple(sorted(each.name for each in self._inputs.values() if each.view in table.text))
        self._identities[view] = self._identity(repr((flow.text, table.text, pairs, probes)))
        self._depths[view] = self._depth(flow.text)
        about = (tuple(pairs), tuple(probes), schema, self._depths[view])
        self._steps.append(LookUpStep(view, flow.text, table.text, read, *about))
        self._bind_empty(view, schema)
        return _whole(view, schema.names)

    def instants(self, streams: Sequence[str]) -> Sql:
        """Times of the rows that are due."""
        times = _union([f"SELECT {TIME} FROM {self._input('came', name).view}" for name in streams])
        return _whole(f"(SELECT DISTINCT {TIME} FROM ({times}))", (TIME,))

    def stage(self, stage: Stage, flows: Sequence[Sql]) -> Sql:
        """What the operator makes of the flows, in every cell."""
        signature, names = self._signature(stage, flows)
        inputs, columns, fields = [], [], {INPUT: pa.int32()}
        for flow, feed in zip(flows, stage.feeds, strict=True):
            schema = self.schema(flow)
            _refuse_maps(schema, [name for _, of in feed.codes for name in of])
            codes = {name: code(of, schema) for name, of in feed.codes}
            kinds = {name: schema.field(name).type for name in flow.columns} | dict.fromkeys(codes, pa.int64())
            cell = str(self._grid.one(signature)) if stage.single else self._grid.cell(feed, schema)
            inputs.append(tuple(_wanted(branch, cell, codes, kinds) for branch in flow.branches))
            columns.append((*flow.columns, *codes))
            fields |= {name: kind for name, kind in kinds.items() if name not in fields}
        view, instants = self._view(f"stage_{stage.number}"), ""
        if stage.instants:
            instants = self.instants(stage.instants).text
        self._identities[view] = signature
        self._depths[view] = 1 + max(self._depth(flow.text) for flow in flows)
        made = (stage, signature, self._depths[view], tuple(inputs), tuple(columns), pa.schema(list(fields.items())))
        self._steps.append(CellStep(view, *made, names, instants))
        self._bind_empty(view, stage.output)
        return replace(_whole(view, stage.output.names), stage=stage.number)

    def _signature(self, stage: Stage, flows: Sequence[Sql]) -> tuple[str, tuple[str, ...]]:
        """Equal for stages that do the same with the same rows, whatever their columns are called; and those names.

        Stages of one signature have as many names, and each stands for what that of the other in its place stands for.
        """
        known: dict[str, str] = {}
        read = []
        for number, flow in enumerate(flows):
            branches = sorted(
                (
                    self._identity(branch.source),
                    in_any_order([self._identity(each) for each in branch.conditions]),
                    branch.items,
                )
                for branch in flow.branches
            )
            for place, name in enumerate(flow.columns):
                parts = [(source, where, self._identity(items[place][1])) for source, where, items in branches]
                known[name] = f"{number}:{_hash(repr(parts))}"
            read.append([(source, where) for source, where, _ in branches])
        for place, name in enumerate(stage.output.names):
            known.setdefault(name, f"#{place}")
        columns = [sorted(flow.columns, key=known.__getitem__) for flow in flows]
        about = repr((spelled(stage.make), stage.feeds, stage.streams, stage.instants, stage.slides, columns))
        longest_first = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
        places: dict[str, str] = {}

        def in_place(found: re.Match[str]) -> str:
            return places.setdefault(found[0], f"{known.get(found[0], '')}%{len(places)}")

        named = re.sub(rf"(?<!\w)(?:{longest_first})(?!\w)|{_NUMBERED}", in_place, about)
        produced = [
            (places.get(name, known[name]), str(kind))
            for name, kind in zip(stage.output.names, stage.output.types, strict=True)
        ]
        return _hash(repr((self._salt, read, named, produced))), tuple(places)

    def _identity(self, text: str) -> str:
        """A text in which views are called after what they stand for, so that it is the same in other queries."""
        for view, identity in self._identities.items():
            text = text.replace(view, identity)
        return text

    def _depth(self, text: str) -> int:
        return max((depth for view, depth in self._depths.items() if view in text), default=0)

    def _gains_by_order(self, flow: Sql, conditions: Sequence[Scalar]) -> bool:
        """Whether there is something to order, and the flow can be sampled: rows of streams, not changed by a step."""
        tables = [each for each in self._inputs.values() if not each.is_stream]
        opaque = (*self._steps, *tables)
        if len(conditions) < 2 or any(each.view in flow.text for each in opaque):
            return False
        rows = self._views.select(flow.text)
        judged = [inspect(rows, native(F.expr(each.sql))) for each in conditions]
        return not all(each.trivial for each in judged)

    def _check_types(self, flow: Sql, scalars: Sequence[Scalar]) -> None:
        if self._query is not None:
            check_types(self._session, self._query, scalars, flow.text.replace(f":{BEGINS}", "true"))

    def _schema(self, text: str) -> pa.Schema:
        if text not in self._schemas:
            self._schemas[text] = arrow_schema(self._views.select(text).schema)
        return self._schemas[text]

    def _renamed(self, scan: Scan, source: Input, more: dict[str, str]) -> Sql:
        if scan.kind == "stream":
            self._reads.setdefault(scan.name, set()).update(there for there, _ in scan.renamed)
        return _selected(scan, source, more)

    def _input(self, kind: InputKind, name: str, ago: int = 0) -> Input:
        key = (kind, name, ago)
        if key not in self._inputs:
            made = self._inputs[key] = Input(self._views.of_source(kind, name, ago), kind, name, ago)
            self._identities[made.view] = f"{kind} {name} {ago}"
            self._views.ensure(made.view, lambda: self._empty(made))
        return self._inputs[key]

    def _view(self, what: str) -> str:
        return self._views.name(f"{self._owner}_{len(self._inputs)}_{len(self._steps)}_{what}")

    def _bind_empty(self, view: str, schema: pa.Schema) -> None:
        self._views.bind(view, empty_frame(self._session, from_arrow_schema(schema)))


def _refuse_maps(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if _has_map(schema.field(name).type):
            hint = "take values out of it, as in m['x'], or make a text of it, as in to_json(m)"
            raise QueryError(f"column {without_number(name)!r} is a map, and maps do not compare", hint=hint)


def _has_map(kind: pa.DataType) -> bool:
    parts = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return bool(pa.types.is_map(kind)) or any(map(_has_map, parts))


def _bundle(name: str, schema: pa.Schema) -> str:
    """SQL: values as a bundle; of what is not a number only the count is of interest."""
    value, low, high = quoted(name), "0L", "0L"
    if pa.types.is_integer(schema.field(name).type):
        long = f"CAST({value} AS BIGINT)"
        low, high = f"coalesce(sum({long} & {MASK}L), 0L)", f"coalesce(sum(shiftright({long}, {BITS})), 0L)"
    return f"named_struct('_count', count({value}), '_low', {low}, '_high', {high})"


def _selected(scan: Scan, source: Input, more: dict[str, str]) -> Sql:
    items = {name: quoted(there) for there, name in scan.renamed} | more
    return Sql.over(source.view, items or {"_none": "NULL"})


def _whole(source: str, names: Iterable[str]) -> Sql:
    """All rows of a source."""
    return Sql.over(source, {name: quoted(name) for name in names})


def _wanted(branch: Select, cell: str, codes: Mapping[str, str], kinds: Mapping[str, pa.DataType]) -> Wanted:
    """What an input of a stage wants of a select."""
    below = branch.nested() if branch.calls else branch
    items = dict(below.items) | {name: below.inlined(sql) for name, sql in codes.items()}
    return Wanted(below, below.inlined(cell), tuple((name, sql, kinds[name]) for name, sql in items.items()))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spelled(make: Callable[[], Operator]) -> str:
    """What starts an operator, written down: the same for the same operator."""
    if isinstance(make, partial):
        given = ", ".join(spelled(each) if callable(each) else repr(each) for each in make.args)
        return f"{make.func.__name__}({given}{', ' if make.keywords else ''}{make.keywords or ''})"
    return make.__name__ if isinstance(make, type) else repr(make)


def _union(texts: Sequence[str]) -> str:
    return " UNION ALL ".join(texts)
