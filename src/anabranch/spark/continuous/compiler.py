"""The backend that turns a plan into a program: flows over views, and steps with state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from sqlglot import exp

from anabranch.constraints.config import Mode
from anabranch.errors import QueryError
from anabranch.expressions import Scalar, in_any_order
from anabranch.logical_plan import Query, Scan
from anabranch.model.build import native
from anabranch.model.names import without_number
from anabranch.operators.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT
from anabranch.operators.segments import INPUT
from anabranch.planning.constants import masked
from anabranch.planning.keys import has_map
from anabranch.planning.placement import NOWHERE, chosen
from anabranch.planning.probes import Probe, comparable
from anabranch.planning.reading import JoinPlan, read
from anabranch.planning.stages import VALID, VALID_FROM, Items, Stage
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.expression_types import check_types
from anabranch.spark.continuous.flows import Instants, Known, Matched, Select, Sql, Summed, View, hashed, matched
from anabranch.spark.continuous.grid import Grid, code
from anabranch.spark.continuous.known_types import KnownTypes, without_constants
from anabranch.spark.continuous.programs import CellStep, FilterStep, Input, InputKind, LookUpStep, Program, Step
from anabranch.spark.continuous.signatures import signature, tap_signature
from anabranch.spark.continuous.summaries import BATCH, NEWEST, OLDEST, summary_name
from anabranch.spark.continuous.views import BEGINS, Views
from anabranch.spark.native.catalyst import inspect
from anabranch.spark.schemas import arrow_schema, empty_frame


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
    types
        What Spark has said for other queries.
    join
        How joins go about it.
    constraints
        What becomes of rows that joins do not need.
    keys
        Columns that are declared to be a key, per stream.
    """

    def __init__(
        self,
        views: Views,
        owner: str,
        grid: Grid,
        orders: Callable[[str], tuple[str, ...]],
        empty: Callable[[Input], DataFrame],
        summing: bool,
        types: KnownTypes | None = None,
        join: JoinPlan = "auto",
        constraints: Mode = "off",
        keys: Callable[[str], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self._views = views
        self._session = views.session
        self._owner = owner
        self._grid = grid
        self._orders = orders
        self._empty = empty
        self._summing = summing
        self._types = types or KnownTypes()
        self._join, self._constraints, self._keys = join, constraints, keys
        self._summaries: dict[str, str] = {}
        self._batches: dict[str, Input] = {}
        self._inputs: dict[tuple[str, str, int], Input] = {}
        self._steps: list[Step] = []
        self._held: dict[str, int] = {}
        self._reads: dict[str, set[str]] = {}
        self._schemas: dict[Sql, pa.Schema] = {}
        self._query: Query | None = None

    def compile(self, query: Query) -> Program:
        """The program of a query."""
        self._query = query
        try:
            answer = read(query, self, self._join, self._constraints)
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
        return self._renamed(scan, self._input("came", scan.name), (TIME,))

    def arriving(self, scan: Scan) -> Sql:
        """Rows of a stream as they come, with `_time`."""
        if not self._summing:
            return self.stream(scan)
        if scan.name not in self._batches:
            self._batches[scan.name] = Input(self._view(f"batch_{scan.name}"), "came", scan.name)
            self._views.bind(self._batches[scan.name].view, self._empty(self._batches[scan.name]))
        return _selected(scan, self._batches[scan.name], (TIME,))

    def expired(self, scan: Scan, span: int) -> Sql:
        """Rows of a stream that leave a window, with `_time`."""
        self._held[scan.name] = max(span + 1, self._held.get(scan.name, 0))
        return self._renamed(scan, self._input("left", scan.name, span + 1), (TIME,))

    def order_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that order rows of the same time."""
        return self._orders(stream)

    def key_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that are declared to be a key."""
        return self._keys(stream)

    def relation(self, scan: Scan) -> Sql:
        """Elements of a relation: all of them in the first tick, or those that change."""
        if scan.changing:
            rows = self._renamed(scan, self._input("changes", scan.name), (TIME, WEIGHT))
            bounds = [(START, Scalar.reading(TIME)), (END, Scalar.long(FOREVER)), (WEIGHT, Scalar.reading(WEIGHT))]
            return rows.select([*((name, Scalar.reading(name)) for name in scan.columns), *bounds])
        rows = self._renamed(scan, self._input("table", scan.name))
        bounds = [(name, Scalar.long(value)) for name, value in zip(ELEMENT, (EVER, FOREVER, 1), strict=True)]
        items = [*((name, Scalar.reading(name)) for name in scan.columns), *bounds]
        return rows.select(items).where([Scalar(exp.Placeholder(this=BEGINS))])

    def table(self, scan: Scan) -> Sql:
        """All rows of a relation that does not change, without times."""
        return self._renamed(scan, self._input("table", scan.name))

    def versions(self, scan: Scan) -> Sql:
        """All rows that a relation has had, with the times between which they are valid."""
        return self._renamed(scan, self._input("versions", scan.name), VALID)

    def schema(self, flow: Sql) -> pa.Schema:
        """Names and types of a flow's columns."""
        if flow not in self._schemas:
            question = ("schema", without_constants(flow))
            self._schemas[flow] = self._types.ask(question, lambda: self._schema(flow.text))
        return self._schemas[flow]

    def filter(self, flow: Sql, conditions: Sequence[Scalar]) -> Sql:
        """Rows for which all conditions are true."""
        self._check_types(flow, conditions)
        if any(condition.functions for condition in conditions) or self._gains_by_order(flow, conditions):
            below = flow.known
            kept = in_any_order(tuple(conditions), below.columns)
            view = self._made("filter", Known(hashed("filter", below.rows, kept), below.columns), flow.depth)
            self._steps.append(FilterStep(view.name, flow, tuple(conditions), view.depth))
            self._bind_empty(view.name, self.schema(flow))
            return Sql.whole(view, flow.columns)
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
        schema = self.schema(flow)
        bundles = tuple((name, new, pa.types.is_integer(schema.field(name).type)) for name, new in sums.items())
        summed = Summed(flow, tuple(keys), bundles, TIME in flow.columns and self._summing)
        return Sql.whole(summed, summed.columns)

    def summary(self, stream: str, flow: Sql) -> Sql:
        """What is summed up of arriving rows, when it is due: at its start."""
        if not self._summing:
            return flow
        made = flow.select([*((name, Scalar.reading(name)) for name in flow.columns), (TIME, Scalar.reading(START))])
        batch = View(BATCH, BATCH)
        text = made.over(lambda view: batch if view.name == self._batches[stream].view else view).text
        name = summary_name(stream, text)
        self._summaries[name] = text
        source = self._inputs.setdefault(("came", name, 0), Input(self._views.of_source("came", name), "came", name))
        self._views.ensure(source.view, lambda: self._views.select(made.text))
        return Sql.whole(source.source, [column for column in flow.columns if column not in (OLDEST, NEWEST)])

    def look_up(self, flow: Sql, table: Sql, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe] = ()) -> Sql:
        """Rows of the flow combined with those of the table that agree: by a join of Spark's own, or an index."""
        if probes or (VALID_FROM in table.columns and pairs and self._has_order(table, [right for _, right in pairs])):
            return self._indexed(flow, table, tuple(pairs), tuple(probes))
        both = Matched(flow, table, tuple(pairs))
        return Sql.whole(both, both.columns)

    def _has_order(self, table: Sql, names: Sequence[str]) -> bool:
        return all(comparable(self.schema(table).field(name).type) for name in names)

    def _indexed(self, flow: Sql, table: Sql, pairs: tuple[tuple[str, str], ...], probes: tuple[Probe, ...]) -> Sql:
        there, here = self.schema(flow), self.schema(table)
        schema = pa.schema([*there, *(field for field in here if field.name not in VALID)])
        names = {view.name for view in table.views}
        read = tuple(sorted(each.name for each in self._inputs.values() if each.view in names))
        own, other = flow.known, table.known
        compared = sorted(
            (own.columns[each.attribute], f"{each.op} {each.made}", [other.columns[name] for name in each.columns])
            for each in probes
        )
        view = self._made("look_up", matched(own, other, pairs, compared), flow.depth)
        self._steps.append(LookUpStep(view.name, flow, table, read, pairs, probes, schema, view.depth))
        self._bind_empty(view.name, schema)
        return Sql.whole(view, schema.names)

    def instants(self, streams: Sequence[str]) -> Sql:
        """Times of the rows that are due."""
        return Sql.whole(self._times(streams), (TIME,))

    def _times(self, streams: Sequence[str]) -> Instants:
        return Instants(tuple(self._input("came", name).source for name in streams))

    def stage(self, stage: Stage, flows: Sequence[Sql]) -> Sql:
        """What the operator makes of the flows, in every cell."""
        found, names = signature(stage, flows)
        inputs, columns, fields = [], [], {INPUT: pa.int32()}
        placement = NOWHERE if stage.single else chosen(stage.distributions, len(self._grid))
        for number, (flow, distribution) in enumerate(zip(flows, stage.distributions, strict=True)):
            schema = self.schema(flow)
            _refuse_maps(schema, [name for _, of in distribution.codes for name in of])
            codes = {name: code(of, schema) for name, of in distribution.codes}
            kinds = {name: schema.field(name).type for name in flow.columns} | dict.fromkeys(codes, pa.int64())
            cell = self._grid.only(found) if stage.single else self._grid.cell(distribution, schema, placement, number)
            inputs.append(tuple(_wanted(branch, cell, codes, kinds) for branch in flow.branches))
            columns.append((*flow.columns, *codes))
            fields |= {name: kind for name, kind in kinds.items() if name not in fields}
        tap, places = tap_signature(stage), {name: f"#{place}" for place, name in enumerate(stage.made.names)}
        columns_known = {here: places.get(there, there) for there, here in stage.shown}
        deeper = 1 + max(flow.depth for flow in flows)
        view = self._made(f"stage_{stage.number}", Known(hashed(found, tap), columns_known), deeper)
        instants = self._times(stage.asks) if stage.asks else None
        made = (stage, found, tap, deeper, tuple(inputs), tuple(columns), pa.schema(list(fields.items())))
        self._steps.append(CellStep(view.name, *made, names, instants, placement))
        self._bind_empty(view.name, stage.output)
        return replace(Sql.whole(view, stage.output.names), stage=stage.number)

    def _gains_by_order(self, flow: Sql, conditions: Sequence[Scalar]) -> bool:
        """Whether there is something to order, and the flow can be sampled: rows of streams, not changed by a step."""
        streams = {each.source for each in (*self._inputs.values(), *self._batches.values()) if each.is_stream}
        if len(conditions) < 2 or not flow.views <= streams:
            return False

        def judged() -> bool:
            rows = self._views.select(flow.text)
            return not all(inspect(rows, native(F.expr(each.sql))).trivial for each in conditions)

        return self._types.ask(("order", without_constants(flow), tuple(map(masked, conditions))), judged)

    def _check_types(self, flow: Sql, scalars: Sequence[Scalar]) -> None:
        query = self._query
        if query is None:
            return

        def is_text(name: str) -> bool:
            return bool(pa.types.is_string(self.schema(flow).field(name).type))

        asked = tuple(masked(each, is_text) for each in scalars)
        self._types.ask(
            ("check", without_constants(flow), asked), lambda: check_types(self._session, query, scalars, flow.text)
        )

    def _schema(self, text: str) -> pa.Schema:
        return arrow_schema(self._views.select(text).schema)

    def _renamed(self, scan: Scan, source: Input, more: Sequence[str] = ()) -> Sql:
        if scan.kind == "stream":
            self._reads.setdefault(scan.name, set()).update(there for there, _ in scan.renamed)
        return _selected(scan, source, more)

    def _input(self, kind: InputKind, name: str, ago: int = 0) -> Input:
        key = (kind, name, ago)
        if key not in self._inputs:
            made = self._inputs[key] = Input(self._views.of_source(kind, name, ago), kind, name, ago)
            self._views.ensure(made.view, lambda: self._empty(made))
        return self._inputs[key]

    def _view(self, what: str) -> str:
        return self._views.name(f"{self._owner}_{len(self._inputs)}_{len(self._steps)}_{what}")

    def _made(self, what: str, known: Known, depth: int) -> View:
        """A view for what a step makes."""
        return View(self._view(what), known.rows, tuple(known.columns.items()), depth)

    def _bind_empty(self, view: str, schema: pa.Schema) -> None:
        self._views.bind(view, empty_frame(self._session, from_arrow_schema(schema)))


def _refuse_maps(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if has_map(schema.field(name).type):
            hint = "take values out of it, as in m['x'], or make a text of it, as in to_json(m)"
            raise QueryError(f"column {without_number(name)!r} is a map, and maps do not compare", hint=hint)


def _selected(scan: Scan, source: Input, more: Sequence[str]) -> Sql:
    items = {name: Scalar.reading(there) for there, name in (*scan.renamed, *((name, name) for name in more))}
    return Sql.of(source.source, items or {"_none": Scalar(exp.Null())})


def _wanted(
    branch: Select, cell: Scalar, codes: Mapping[str, Scalar], kinds: Mapping[str, pa.DataType]
) -> ExchangeInput:
    """What an input of a stage wants of a select."""
    below = branch.nested() if branch.calls else branch
    items = dict(below.items) | {name: below.inlined(scalar) for name, scalar in codes.items()}
    return ExchangeInput(
        below, below.inlined(cell), tuple((name, scalar, kinds[name]) for name, scalar in items.items())
    )
