"""A plan is read into flows and stages of a backend, from the leaves up.

Rows of streams become elements at their windows (see `operators/base.py`), and the answer leaves as changes. Selection,
projection and bag union need no state. The other operators are five stages: windows over rows, joins, groups,
multiplicities, and changes; semi and anti joins are made of those.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, Literal

import pyarrow as pa

from anabranch.constraints.config import Mode
from anabranch.logical_plan import (
    Aggregate,
    Aggregation,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Query,
    Scalar,
    Scan,
    SetOperation,
    ToStream,
    Window,
    scans,
    walk,
)
from anabranch.operators.aggregate_functions import FUNCTIONS, Needs
from anabranch.operators.base import ELEMENT, END, FOREVER, START, TIME, WEIGHT, Operator, Port
from anabranch.operators.changelog import Changelog
from anabranch.operators.constrained_join import ConstrainedJoin
from anabranch.operators.group_by import GroupBy
from anabranch.operators.join import MultiJoin, join_of_ranges
from anabranch.operators.row_window import row_windows
from anabranch.operators.rstream import RStream
from anabranch.operators.semi_join import SemiJoin, semi_join_of_ranges
from anabranch.operators.set_operation import SetOperator
from anabranch.operators.tapped import Made
from anabranch.operators.xjoin import XJoin
from anabranch.planning.comparisons import comparisons_of
from anabranch.planning.declared_keys import declared_keys
from anabranch.planning.distribution import Distribution
from anabranch.planning.keys import KEY, Keys, among, distributions_of, has_map, merged
from anabranch.planning.probes import Probe, probes_of
from anabranch.planning.rules import both_ends_known, inserts_only, instantaneous, rewrite
from anabranch.planning.scalars import (
    calls,
    cast,
    column,
    earlier,
    ending,
    fields_of,
    later,
    next_multiple,
    not_null,
    renamed,
    same,
)
from anabranch.planning.shapes import filtered, looking_up, ranged, renaming, slides, stays, tested, title_of
from anabranch.planning.stages import CHANGED, VALID, Backend, Flow, Stage, Then
from anabranch.planning.types import KnowsPlaces, Role, TypeProblem, aggregate_type, common_key_type, common_type

JoinPlan = Literal["auto", "fixed", "xjoin"]
"""How joins go about it: probe orders that adapt, those as written, or a tree of joins of two."""
ORDER = "_order"
SUMS = "_sums_"
ONE = Scalar.long(1)
NEVER = Scalar.long(FOREVER)
TIMES = pa.schema([(name, pa.int64()) for name in ELEMENT])


def read(query: Query, backend: Backend[Flow], join: JoinPlan = "auto", constraints: Mode = "off") -> Flow:
    """The answer: the columns of the query's plan, with `_time` and `_weight` (1, or -1 for what leaves a relation)."""
    return _Reader(query, backend, join, constraints).answer(rewrite(query.plan))


class _Reader(Generic[Flow]):
    """Numbers the stages of one plan while it is read."""

    def __init__(self, query: Query, backend: Backend[Flow], join: JoinPlan, constraints: Mode) -> None:
        self._query = query
        self._plan_of_joins, self._constraints = join, constraints
        self._backend = backend
        self._stages = 0
        self._flows: dict[Hashable, Flow] = {}
        self._streams: tuple[str, ...] = ()
        self._carried: tuple[str, ...] = ELEMENT  # with `_time` while rows are read as they come, before they are due

    def answer(self, plan: Plan) -> Flow:
        """The answer of a query, or of a query within a query, for which time begins with its own streams."""
        outer, self._streams = self._streams, tuple(scans(plan, "stream"))
        try:
            return self._answer(plan)
        finally:
            self._streams = outer

    def _answer(self, plan: Plan) -> Flow:
        if not isinstance(plan, ToStream):
            return self._changes(plan, "relation")
        if plan.kind == "rstream":
            return self._contents(plan.input)
        if plan.kind == "istream" and inserts_only(plan.input):
            inserted = self.elements(plan.input)
            return self._backend.project(inserted, [*same(plan.columns), (TIME, column(START)), (WEIGHT, ONE)])
        return self._changes(plan.input, plan.kind)

    def elements(self, plan: Plan, then: Then | None = None) -> Flow:
        """The elements of a relation, or what an operator makes of them that follows in the same cells.

        What a query reads several times, as `Not In` does, is read into one flow.
        """
        if then is not None:
            return self._elements(plan, then)
        return self._once(("elements", plan), lambda: self._elements(plan))

    def _once(self, what: tuple[str, Plan], make: Callable[[], Flow]) -> Flow:
        key = (*what, self._carried, self._streams)
        if key not in self._flows:
            self._flows[key] = make()
        return self._flows[key]

    def _elements(self, plan: Plan, then: Then | None = None) -> Flow:
        match plan:
            case Scan():
                return self._backend.relation(plan)
            case Window():
                return self._window(plan, then)
            case Filter(Join() as join) if (moving := looking_up(join)) is not None:
                return self._enriched(join, moving, plan.conditions)
            case Filter(Join() as join):
                return self._meet(join, None, plan.conditions)
            case Filter():
                return self._backend.filter(self.elements(plan.input), plan.conditions)
            case Project():
                return self._backend.project(self.elements(plan.input), [*plan.items, *same(self._carried)])
            case Join():
                return self._join(plan, then)
            case Member():
                return self._member(plan, then)
            case Aggregate():
                return self._aggregate(plan, then)
            case Distinct():
                return self._counting("distinct", [self._changing(plan.input)], plan.columns, then)
            case SetOperation():
                return self._set_operation(plan, then)
            case ToStream():
                raise TypeError("a stream needs a window")  # the binder sees to it

    def rows(self, plan: Plan, order: bool) -> Flow:
        """The rows of a stream, with `_time`; where rows of a time have an order, with the columns that give it."""
        match plan:
            case Scan():
                by = self._backend.order_of(plan.name) if order else ()
                added = tuple((name, f"{ORDER}{place}") for place, name in enumerate(by))
                source = self._backend.arriving if TIME in self._carried else self._backend.stream
                return source(replace(plan, renamed=(*plan.renamed, *added)))
            case Filter():
                return self._backend.filter(self.rows(plan.input, order), plan.conditions)
            case ToStream():
                places = plan.columns if order else ()
                more = [(f"{ORDER}{place}", column(name)) for place, name in enumerate(places)]
                return self._backend.project(self.answer(plan), [*same((*plan.columns, TIME)), *more])
            case _:
                raise TypeError(f"{type(plan).__name__} is no stream")

    def _changing(self, plan: Plan) -> Flow:
        """Elements for an operator that looks at changes alone.

        Rows that leave a window over time are read again from where the stream's rows are kept, once for all queries:
        then the operator has none of them to remember. Functions of the user's are not called twice for that.
        """
        return self._once(("changing", plan), lambda: self._changing_once(plan))

    def _changing_once(self, plan: Plan) -> Flow:
        match plan:
            case Filter() if not calls(plan.conditions) and not isinstance(plan.input, Join):
                return self._backend.filter(self._changing(plan.input), plan.conditions)
            case Project() if not calls([scalar for _, scalar in plan.items]):
                return self._backend.project(self._changing(plan.input), [*plan.items, *same(ELEMENT)])
            case Window() if plan.by_time and plan.span is not None:
                conditions, stream = filtered(plan.input)
                if isinstance(stream, Scan) and not calls(conditions):
                    return self._retracting(plan, stream, conditions, plan.span)
        return self.elements(plan)

    def _retracting(self, plan: Window, stream: Scan, conditions: Sequence[Scalar], span: int) -> Flow:
        came, left = self._backend.stream(stream), self._backend.expired(stream, span)
        parts = []
        for flow, start, weight in ((came, column(TIME), ONE), (left, later(span), Scalar.long(-1))):
            kept = self._backend.filter(flow, conditions) if conditions else flow
            bounds = [(START, start), (END, NEVER), (WEIGHT, weight)]
            parts.append(self._backend.project(kept, [*same(plan.columns), *bounds]))
        both = self._backend.union(parts)
        return both if plan.slide is None else self._sliding(both, plan.columns, plan.slide)

    def _window(self, plan: Window, then: Then | None) -> Flow:
        if plan.rows is not None:
            flow = self._row_window(plan, plan.rows, then)
        else:
            end = NEVER if plan.span is None else later(plan.span)
            bounds = [(START, column(TIME)), (END, end), (WEIGHT, ONE), *same(self._carried[len(ELEMENT) :])]
            flow = self._backend.project(self.rows(plan.input, False), [*same(plan.columns), *bounds])
        return flow if plan.slide is None else self._sliding(flow, plan.columns, plan.slide)

    def _row_window(self, plan: Window, rows: int, then: Then | None) -> Flow:
        flow = self.rows(plan.input, True)
        schema = self._backend.schema(flow)
        order = tuple(name for name in schema.names if name.startswith(ORDER) and name not in plan.columns)
        make = Made(row_windows, (plan.partition, order, plan.slide_rows or 1, plan.span))
        distribution = Distribution(((KEY, plan.partition),), (plan.partition,) if plan.partition else ())
        output = fields_of(schema, (*plan.columns, *order), TIMES)
        window = self._stage("window of rows", make, [distribution], [flow], output, then, (rows,))
        return window if then else self._backend.project(window, same((*plan.columns, *ELEMENT)))

    def _sliding(self, flow: Flow, columns: Sequence[str], slide: int) -> Flow:
        """What enters or leaves does so at the next multiple of the slide; what is gone by then never shows."""
        items = [*same(columns), (START, next_multiple(START, slide)), (END, ending(END, slide))]
        moved = self._backend.project(flow, [*items, *same(self._carried[2:])])
        if TIME in self._carried:
            return moved  # every row tells the time, also if it never shows
        return self._backend.filter(moved, [earlier(START, END)])

    def _join(self, plan: Join, then: Then | None) -> Flow:
        moving = looking_up(plan)
        return self._meet(plan, then) if moving is None else self._enriched(plan, moving)

    def _enriched(self, plan: Join, moving: Sequence[int], conditions: Sequence[Scalar] = ()) -> Flow:
        """What varies is joined first; tables that do not are looked up, so nothing has to be remembered for them.

        For elements of one instant it is enough to know what a table holds then: its versions are looked up. Conditions
        that compare with columns of the table help to find its rows.
        """
        inputs = plan.inputs
        valid = VALID if any(instantaneous(inputs[number]) for number in moving) else ()
        leading = tuple(moving.index(number) for number in plan.leading if number in moving)
        base = Join(tuple(inputs[number] for number in moving), among(plan.keys, moving), leading)
        flow = self.elements(inputs[moving[0]]) if len(moving) == 1 else self._meet(base)
        done, names = list(moving), list(base.columns)
        for number in (each for each in range(len(inputs)) if each not in moving):
            partners = [(key, dict(key)) for key in plan.keys if number in dict(key)]
            pairs = [
                (next(name for i, name in key if i in done), columns[number])
                for key, columns in partners
                if any(i in done for i, _ in key)
            ]
            own = inputs[number].columns
            keys: Keys = tuple(((0, left), (1, right)) for left, right in pairs)
            kept = ([*names, *ELEMENT], [*own, *valid])
            (flow, table), keys = self._comparable([flow, self._table(inputs[number], valid)], kept, keys)
            probes, conditions = self._probes(conditions, names, own, flow, table)
            flow = self._backend.look_up(flow, table, [(left, right) for (_, left), (_, right) in keys], probes)
            done, names = [*done, number], [*names, *own]
        found = self._backend.project(flow, same((*plan.columns, *ELEMENT)))
        return self._backend.filter(found, conditions) if conditions else found

    def _probes(
        self, conditions: Sequence[Scalar], names: Sequence[str], own: Sequence[str], flow: Flow, table: Flow
    ) -> tuple[list[Probe], list[Scalar]]:
        """What an index answers as Spark does, and the conditions that are to be tested besides."""
        there, here = self._backend.schema(flow), self._backend.schema(table)

        def fits(probe: Probe) -> bool:
            return probe.fits(there.field(probe.attribute).type, [here.field(name).type for name in probe.columns])

        return probes_of(conditions, names, own, fits)

    def _table(self, plan: Plan, valid: tuple[str, ...]) -> Flow:
        match plan:
            case Filter():
                return self._backend.filter(self._table(plan.input, valid), plan.conditions)
            case Project():
                return self._backend.project(self._table(plan.input, valid), [*plan.items, *same(valid)])
            case Scan():
                return self._backend.versions(plan) if valid else self._backend.table(plan)
            case _:
                raise TypeError(f"{type(plan).__name__} may vary with time")

    def _meet(self, plan: Join, then: Then | None = None, conditions: Sequence[Scalar] = ()) -> Flow:
        columns = [each.columns for each in plan.inputs]
        kept = [(*names, *ELEMENT) for names in columns]
        as_tree = self._plan_of_joins == "xjoin" and len(plan.inputs) > 2
        with_ends = as_tree or self._constraints != "off"
        inputs = [(each, None) if with_ends else ranged(each) for each in plan.inputs]
        flows, keys = self._comparable([self.elements(each) for each, _ in inputs], kept, plan.keys)
        flows = [self._known(flow, number, keys) for number, flow in enumerate(flows)]
        schemas = [self._backend.schema(flow) for flow in flows]
        fields = [schema.field(name) for schema, names in zip(schemas, columns, strict=True) for name in names]
        comparisons, rest = comparisons_of(conditions, columns, schemas)
        lengths = {number: length for number, (_, length) in enumerate(inputs) if length is not None}
        if as_tree:
            make = Made(XJoin, (len(flows), keys, comparisons))
        elif self._constraints != "off":
            declared = declared_keys(plan.inputs, self._backend.key_of)
            titles = tuple(map(title_of, plan.inputs))
            back = tuple(titles[number] for number, each in enumerate(plan.inputs) if not both_ends_known(each))
            how = (self._policy, self._constraints, declared, titles, back, plan.leading)
            make = Made(ConstrainedJoin, (len(flows), keys, comparisons, *how))
        elif lengths:
            make = Made(join_of_ranges, (len(flows), keys, comparisons, self._policy, plan.leading, tuple(lengths)))
        else:
            make = Made(MultiJoin, (len(flows), keys, comparisons, self._policy, plan.leading))
        output, names = pa.schema([*fields, *TIMES]), tuple(map(title_of, plan.inputs))
        led = ", ".join(names[number] for number in plan.leading)
        title, port = f"join leading {led}" if led else "join", tuple(lengths.values()) or None
        rows = [self._rows_of(each, number, flows[number], keys, then) for number, each in enumerate(plan.inputs)]
        if self._constraints != "off" and keys:
            rows = [() for _ in rows]  # what is said of the rows of a key holds where all of them meet
        found = self._stage(title, make, distributions_of(keys, rows), flows, output, then, port, names)
        return self._backend.filter(found, rest) if rest else found

    @property
    def _policy(self) -> str:
        return "fixed" if self._plan_of_joins == "fixed" else "auto"

    def _member(self, plan: Member, then: Then | None) -> Flow:
        """Rows are joined with the distinct keys of the other sides."""
        base, tests = tested(plan)
        rows, length = ranged(base)
        columns, flows, pairs = [plan.columns], [self.elements(rows)], list[tuple[str, str]]()
        keys: Keys = ()
        for number, test in enumerate(tests, start=1):
            first = len(pairs)
            there_is = [(f"{right}_{first + place}", column(right)) for place, (_, right) in enumerate(test.pairs)]
            items = tuple(there_is) or (("_there", ONE),)
            names = tuple(name for name, _ in items)
            flows.append(self._counting("distinct", [self._changing(Project(test.other, items))], names))
            keys += tuple(((0, left), (number, name)) for (left, _), name in zip(test.pairs, names, strict=False))
            columns.append(names)
            pairs += test.pairs
        kept = [(*names, *ELEMENT) for names in columns]
        flows, keys = self._comparable(flows, kept, keys, pairs)
        keys = merged(keys)
        flows[1:] = [self._known(flow, number, keys) for number, flow in enumerate(flows[1:], start=1)]
        made: Callable[..., Operator] = SemiJoin if length is None else semi_join_of_ranges
        make = Made(made, (plan.columns, len(flows), keys, plan.negated, self._policy))
        output = fields_of(self._backend.schema(flows[0]), plan.columns, TIMES)
        title = "anti join" if plan.negated else "semi join"
        asked = (title_of(base), *(title_of(test.other) for test in tests))
        port = None if length is None else (length,)
        spread = self._rows_of(base, 0, flows[0], keys, then)  # the others have each key once
        distributions = distributions_of(keys, [spread, *(() for _ in tests)])
        return self._stage(title, make, distributions, flows, output, then, port, asked)

    def _rows_of(self, plan: Plan, number: int, flow: Flow, keys: Keys, then: Then | None) -> tuple[str, ...]:
        """Columns that tell the rows of an input of a join apart, where they have the same key.

        What is taken back later has to be in the same cell, and so have equal rows for what follows in it: only where
        neither matters, and rows have nothing but their keys, they are told apart by their times.
        """
        schema, keyed = self._backend.schema(flow), {name for key in keys for i, name in key if i == number}
        names = tuple(name for name in plan.columns if not has_map(schema.field(name).type))
        if set(names) - keyed:
            return names
        return (*names, START) if then is None and both_ends_known(plan) else ()

    def _comparable(
        self,
        flows: Sequence[Flow],
        columns: Sequence[Sequence[str]],
        keys: Keys,
        pairs: Sequence[tuple[str, str]] = (),
    ) -> tuple[list[Flow], Keys]:
        """Key columns of one class get one type, as hash codes of 1 and 1.0 differ: beside the columns as they are."""
        added: list[list[tuple[str, Scalar]]] = [[] for _ in flows]
        alike = []
        for place, key in enumerate(keys):
            kinds = [self._backend.schema(flows[number]).field(name).type for number, name in key]
            common = self._key_type(kinds, [name for _, name in key], pairs[place] if pairs else None)
            names = [
                name if kind == common else f"{KEY}{place}_of_{name}"
                for (_, name), kind in zip(key, kinds, strict=True)
            ]
            for (number, name), new in zip(key, names, strict=True):
                added[number] += [(new, cast(name, common))] if new != name else []
            alike.append(tuple((number, new) for (number, _), new in zip(key, names, strict=True)))
        made = [
            self._backend.project(flow, [*same(kept), *more]) if more else flow
            for flow, kept, more in zip(flows, columns, added, strict=True)
        ]
        return made, tuple(alike)

    def _key_type(
        self, kinds: Sequence[pa.DataType], names: Sequence[str], pair: tuple[str, str] | None
    ) -> pa.DataType:
        """The type of a class of keys; the first that does not fit is refused."""
        common = kinds[0]
        for end in range(2, len(kinds) + 1):
            with self._telling("key", names[:end]) if pair is None else self._telling("member", pair):
                common = common_key_type(kinds[:end])
        return common

    @contextmanager
    def _telling(self, role: Role, columns: Sequence[str]) -> Iterator[None]:
        """What is wrong with types here is reported with the place in the query, if that is known."""
        try:
            yield
        except TypeProblem as error:
            query = self._query
            raise query.placed(error, role, columns) if isinstance(query, KnowsPlaces) else error from None

    def _known(self, flow: Flow, number: int, keys: Keys) -> Flow:
        """Without the rows whose keys are NULL: they agree with nothing."""
        known = [not_null(name) for key in keys for i, name in key if i == number]
        return self._backend.filter(flow, known) if known else flow

    def _aggregate(self, plan: Aggregate, then: Then | None) -> Flow:
        flow, aggregations = self._grouped(plan)
        schema = self._backend.schema(flow)
        fields = []
        for each in aggregations:
            with self._telling("aggregate", [each.name]):
                kind = aggregate_type(each, schema.field(each.argument).type if each.argument else None)
            fields.append(pa.field(each.name, kind))
        grouped = pa.schema([*(schema.field(name) for name in plan.keys), *fields])
        distribution = Distribution(((KEY, plan.keys),), (plan.keys,) if plan.keys else ())
        make = Made(GroupBy, (plan.keys, aggregations, grouped))
        return self._stage("groups", make, [distribution], [flow], pa.schema([*grouped, *TIMES]), then)

    def _grouped(self, plan: Aggregate) -> tuple[Flow, tuple[Aggregation, ...]]:
        """The elements to be grouped, and the aggregates over them.

        What moves in slides comes and goes in few steps: all that does so together is summed up before it is sent, and
        where every row counts, as soon as it comes.
        """
        additive = all(FUNCTIONS[each.function].additive and not each.distinct for each in plan.aggregations)
        if slides(plan.input) and additive:
            counting = not any(isinstance(node, Filter) for node in walk(plan.input))
            flow = self._arriving(plan.input) if counting else self.elements(plan.input)
            schema = self._backend.schema(flow)
            summed = {
                each.argument
                for each in plan.aggregations
                if each.argument and FUNCTIONS[each.function].needs is not Needs.COUNTS
            }
            if all(pa.types.is_integer(schema.field(name).type) for name in summed):
                names = {each.argument: f"{SUMS}{each.argument}" for each in plan.aggregations if each.argument}
                over = tuple(replace(each, argument=names.get(each.argument or "")) for each in plan.aggregations)
                sums = self._backend.sum_up(flow, plan.keys, names)
                return self._backend.summary(scans(plan.input, "stream")[0], sums) if counting else sums, over
        flow, read = self._changing(plan.input), [*plan.keys, *(each.argument for each in plan.aggregations)]
        needed = [*dict.fromkeys(name for name in read if name is not None), *ELEMENT]
        narrow = len(needed) < len(self._backend.schema(flow).names)
        return self._backend.project(flow, same(needed)) if narrow else flow, plan.aggregations

    def _arriving(self, plan: Plan) -> Flow:
        """The elements of a window as its rows come, with their `_time`."""
        self._carried = (*ELEMENT, TIME)
        try:
            return self.elements(plan)
        finally:
            self._carried = ELEMENT

    def _set_operation(self, plan: SetOperation, then: Then | None) -> Flow:
        counted = plan.kind != "union" or not plan.all
        flows = [self._changing(each) if counted else self.elements(each) for each in plan.inputs]
        names = [each.columns for each in plan.inputs]
        kinds = [
            [self._backend.schema(flow).field(name).type for name in each]
            for flow, each in zip(flows, names, strict=True)
        ]
        common = list(kinds[0])
        for place, name in enumerate(plan.columns):
            for other, its in zip(names[1:], kinds[1:], strict=True):
                with self._telling("item", [name, other[place]]):
                    common[place] = common_type(common[place], its[place])
        alike = [
            self._backend.project(flow, [*renamed(each, plan.columns, kind, common), *same(ELEMENT)])
            for flow, each, kind in zip(flows, names, kinds, strict=True)
        ]
        if plan.kind == "union":
            union = self._backend.union(alike)
            return union if plan.all else self._counting("distinct", [union], plan.columns, then)
        return self._counting(f"{plan.kind} all" if plan.all else plan.kind, alike, plan.columns, then)

    def _counting(self, rule: str, flows: Sequence[Flow], columns: Sequence[str], then: Then | None = None) -> Flow:
        distributions = [Distribution(((KEY, tuple(columns)),), (tuple(columns),)) for _ in flows]
        output = fields_of(self._backend.schema(flows[0]), columns, TIMES)
        return self._stage(rule, Made(SetOperator, (len(flows), rule)), distributions, flows, output, then)

    def _changes(self, plan: Plan, kind: Literal["istream", "dstream", "relation"]) -> Flow:
        return self._by_row(plan, kind, Made(Changelog, (kind,)))

    def _contents(self, plan: Plan) -> Flow:
        slides = {node.slide for node in walk(plan) if isinstance(node, Window) and node.slide is not None}
        if slides:
            return self._by_row(plan, "Rstream", Made(RStream), slides=tuple(sorted(slides)))
        return self._by_row(plan, "Rstream", Made(RStream), instants=tuple(scans(plan, "stream")))

    def _by_row(
        self,
        plan: Plan,
        title: str,
        make: Made,
        instants: tuple[str, ...] = (),
        slides: tuple[int, ...] = (),
    ) -> Flow:
        """An operator that has to see equal rows together: where they are already, or after a shuffle."""
        base, names = renaming(plan)
        if stays(base, {name for name, _ in names}):
            return self.elements(base, Then(title, make, names, instants, slides))
        flow, columns = self.elements(plan), plan.columns
        distributions = (Distribution(((KEY, columns),), (columns,)),)
        self._stages += 1
        output_schema = fields_of(self._backend.schema(flow), columns, CHANGED)
        stage = Stage(
            self._stages, title, make, distributions, output_schema, output_schema, self._streams, instants, slides
        )
        return self._backend.stage(stage, [flow])

    def _stage(
        self,
        title: str,
        make: Made,
        distributions: Sequence[Distribution],
        flows: Sequence[Flow],
        output: pa.Schema,
        then: Then | None = None,
        port: Port | None = None,
        inputs: tuple[str, ...] = (),
    ) -> Flow:
        self._stages += 1
        stage = Stage(
            self._stages, title, make, tuple(distributions), output, output, self._streams, port=port, inputs=inputs
        )
        if then is not None:
            output_schema = pa.schema([*(output.field(old).with_name(new) for old, new in then.names), *CHANGED])
            stage = replace(stage, title=f"{title}, {then.title}", output=output_schema, then=then)
        return self._backend.stage(stage, flows)
