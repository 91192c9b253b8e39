"""`Filter` and `where`: adaptive filters on Spark DataFrames, batch and streaming."""

from __future__ import annotations

import inspect
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Never

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType
from pyspark.sql.utils import is_remote

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError
from anabranch.filter_report import Events, FilterReport
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.plan_search import find
from anabranch.model.build import gather
from anabranch.model.predicates import (
    FilterStage,
    LookupPredicate,
    NativePredicate,
    Predicate,
    PythonPredicate,
    as_kept,
    constraints,
    require_unique_names,
    stages,
)
from anabranch.ordering import Precedence
from anabranch.report_html import filter_html
from anabranch.routing import policies
from anabranch.routing.route_plan import RoutePlan
from anabranch.spark.connect import is_connect
from anabranch.spark.filters import arrow, pilot, undecided
from anabranch.spark.filters.admission import (
    column_names,
    column_type,
    data_type,
    input_types,
    require_frame,
    require_picklable,
    require_room_for_errors,
    value_type,
)
from anabranch.spark.filters.calling import FilterCalls, Minimize
from anabranch.spark.filters.evaluators import BOOLEAN, Evaluator, IteratorAdapter
from anabranch.spark.filters.explaining import explained_routes, what_runs
from anabranch.spark.filters.filter_options import require_known, require_options
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.ledger import Ledger, open_ledger
from anabranch.spark.filters.letters import Outbox
from anabranch.spark.filters.lookup import SessionRules, member_test
from anabranch.spark.filters.lookup_table import collect_values
from anabranch.spark.filters.progress import Progress
from anabranch.spark.filters.remote_batches import RemoteBatches
from anabranch.spark.filters.reporting import attach_report, build_report
from anabranch.spark.filters.task_record import Kinds, Part
from anabranch.spark.filters.task_spec import ErrorRules, OrderingRules, StartingPoint, TaskInput, TaskOrigin
from anabranch.spark.filters.worker_memory import new_identity
from anabranch.spark.learned import candidate_attributes, state_file
from anabranch.spark.learned.tuner import Tuner
from anabranch.spark.mailbox import Address, address_of
from anabranch.spark.names import folding, unused_name
from anabranch.spark.native import catalyst
from anabranch.spark.native.order import NativeOrder, fit_of

OnError = Literal["raise", "quarantine"]
Sink = Callable[[DataFrame, int], Any]
Aside = Callable[[DataFrame, str, Sequence[str]], DataFrame]


class Filter:
    """A list of predicates that keeps itself in a good order while it runs.

    Parameters
    ----------
    predicates
        Spark column expressions or SQL texts, `anabranch.predicate(...)` and `anabranch.lookup(...)`, in any order.
    policy
        `"auto"` (default) chooses between one order and several routes; `content` and `mesh` look for routes by their
        own methods; `content-learns` and `sbr` are routers of the papers; `agreedy`, `sweep`, `independent`,
        `localswaps`, `exhaustive` keep one order for all rows, `fixed` the written one.
    strict
        Keep every fallible predicate behind those written before it.
    on_error
        What becomes of a row that no predicate rejects and on which one fails: `"raise"`, or `"quarantine"`.
    state
        Folder or file (`*.json`) in which counts, decisions and what was learned survive restarts; filters of one
        program can share it. A file that `save` wrote will do: the filter starts with it and keeps it up to date.
    config
        Profiling and decision parameters; the defaults of the policy otherwise. For `mesh`, an `OrderingConfig` or a
        `MeshConfig`, which says how the routes of Python predicates are searched for and what runs them.
    attributes
        Columns by which routes may be chosen; by default those that predicates read and some more of simple types. A
        single one needs no list; an empty list keeps one order for all rows.
    minimize
        What the order is to save: `"time"`, or the `"money"` of predicates that call.
    budget
        The most money that calls may cost; rows that it does not suffice for are set aside (`undecided`).
    limit
        How many rows are wanted: tasks stop when they have kept so many together.

    Examples
    --------
    >>> import anabranch as ab
    >>> packets = ab.local_session(cores=2).range(1000).selectExpr("id", "concat('10.', id % 4, '.0.9') as dst")
    >>> f = ab.Filter(ab.predicate(lambda n: n % 3 == 0, "id", name="third"), ab.lookup("dst", {"10.1.0.9"}))
    >>> f.apply(packets).count()
    83
    >>> [(p.predicate, p.errors) for p in f.report().predicates]
    [('third', 0), ('lookup(dst)', 0)]
    """

    def __init__(
        self,
        *predicates: Predicate | Column | str,
        policy: str = "auto",
        strict: bool = False,
        on_error: OnError = "raise",
        state: str | os.PathLike[str] | None = None,
        config: OrderingConfig | MeshConfig | None = None,
        attributes: Sequence[str] | str | None = None,
        minimize: Minimize = "time",
        budget: float | None = None,
        limit: int | None = None,
        **unknown: Never,
    ) -> None:
        require_known(unknown, OPTIONS)
        self.predicates = gather(predicates)
        require_unique_names(self.predicates)
        for p in self.predicates:
            require_picklable(p)
        require_options(policy, config, on_error)
        self.policy = policy
        self.mesh = config if isinstance(config, MeshConfig) else None
        self.config = config if isinstance(config, OrderingConfig) else self._default_config()
        self.strict, self.on_error = strict, on_error
        self.attributes = None if attributes is None else column_names(attributes)
        self._identity = new_identity()
        remembered = self._identity if on_error == "quarantine" or budget is not None else ""
        self.calls = FilterCalls(
            self.predicates, policy, minimize=minimize, budget=budget, limit=limit, scope=remembered
        )
        self._ledger = open_ledger(tuple(p.name for p in self.predicates), state)
        self._build_report = partial(
            _saved_report, self.policy, as_kept(self.predicates), self._ledger, strict=self.strict
        )
        self._options = {
            "policy": policy,
            "strict": strict,
            "on_error": on_error,
            "config": config,
            "attributes": attributes,
            "minimize": minimize,
            "budget": budget,
            "limit": limit,
        }
        self._remote: Path | None = None
        self._address: Address | None = None
        self._member_tests: dict[tuple[str, SessionRules], Callable[[pa.Array], pa.Array]] = {}
        self._native: dict[Part, NativeOrder] = {}
        self._tuners: dict[tuple[Part, Kinds], Tuner] = {}
        self._applied: DataFrame | None = None
        self._loaded: dict[Part, list[tuple[str, ...]]] = {}

    def _default_config(self) -> OrderingConfig:
        seed = self.mesh.seed if self.mesh is not None else OrderingConfig.seed
        return OrderingConfig.for_policy(self.policy, seed=seed)

    def apply(self, df: DataFrame) -> DataFrame:
        """The rows that pass every predicate, with the kept columns added. Lazy, like any transformation."""
        require_frame(df)
        self._applied = df
        out = self._through(df, counted=True)
        return attach_report(out if self.calls.limit is None else out.limit(self.calls.limit), self._build_report)

    def quarantined(self, df: DataFrame | None = None) -> DataFrame:
        """Rows that no predicate rejects and on which one fails, with `_predicate` and `_error`.

        It is computed from the DataFrame that the filter was last applied to (or the one given), by running the
        predicates again; it counts nothing in the report. After `foreach_batch` that is the last micro-batch: ask for
        it inside the sink. A failure that does not come back, of a remote service say, is in neither result: its row
        failed when rows passed, and passes when failures are looked for. Let such a predicate remember its answers, or
        compute them into a column that is persisted before the filter.
        """
        if self.on_error != "quarantine":
            raise QueryError("this filter sets no rows aside", hint='make it with on_error="quarantine"')
        df = self._given_or_applied(df)
        if all(isinstance(p, NativePredicate) for p in self.predicates):
            raise QueryError(
                "this filter has native predicates only, whose errors end the Spark job",
                hint="rows are set aside for errors of Python predicates and look-ups",
            )
        return self._through(df, counted=False, aside=undecided.set_aside)

    def undecided(self, df: DataFrame | None = None) -> DataFrame:
        """Rows for which the budget did not suffice, as they came: the input of the next run.

        It is computed as `quarantined` is. Calls are not made again: their answers have been kept.
        """
        if self.calls.budget is None:
            raise QueryError("this filter decides all rows", hint="make it with budget=...")
        return self._through(self._given_or_applied(df), counted=False, aside=undecided.not_asked)

    def progress(self, rows: int | None = None) -> Progress:
        """Shows what calls have cost while a query runs: `with f.progress(rows=df.count()): ...`."""
        return Progress(self.calls.meter, rows)

    def _given_or_applied(self, df: DataFrame | None) -> DataFrame:
        found = df if df is not None else self._applied
        if found is None:
            raise QueryError("the filter has not been applied yet", hint="call apply(df) first, or pass the DataFrame")
        return found

    def foreach_batch(self, sink: Sink) -> Callable[[DataFrame, int], None]:
        """A function for `writeStream.foreachBatch` that filters each micro-batch and hands it to the sink.

        Between micro-batches the order is decided anew, also for native predicates: their profile rides on the pass
        that the sink makes over the batch.
        """
        if not is_remote():
            return partial(self.run_batch, sink)
        if self._remote is None:
            self._remote = self.calls.folder / "filter.json"
            self._ledger.save_all(self._remote)
        return RemoteBatches(Filter, self.predicates, self._options, self._remote, sink)

    def run_batch(self, sink: Sink, batch: DataFrame, batch_id: int) -> None:
        """Filter one micro-batch for a sink; see `foreach_batch`."""
        require_frame(batch)
        self._applied = batch
        self._learn()  # the profile of the last pass may arrive after its sink has returned
        sink(attach_report(self._through(batch, counted=True, batch_id=batch_id), self._build_report), batch_id)
        self._learn()
        self._ledger.save()

    def _learn(self) -> None:
        for part, order in list(self._native.items()):
            self._catch_up(part, order)
            for event in order.learn():
                self._ledger.note(event)
            self._ledger.keep_native(part, order.state())

    def report(self) -> FilterReport:
        """Counts, costs and places of the predicates, and what the order saved."""
        self._hear()
        return self._build_report()

    def events(self) -> Events:
        """Every decision so far, oldest first."""
        self._hear()
        return Events(self._ledger.events())

    def _hear(self) -> None:
        """Take in what micro-batches have counted in another process."""
        if self._remote is not None:
            self._ledger.reread(self._remote)

    def __repr__(self) -> str:
        return f"<filter, policy {self.policy}: {', '.join(p.name for p in self.predicates)}>"

    def _repr_html_(self) -> str:
        """Its predicates and their order now, for notebooks."""
        return filter_html(self.predicates, self.policy, self.report())

    def explain(self, df: DataFrame) -> str:
        """How the filter would run on a DataFrame: stages, executors, orders, constraints, and why."""
        require_frame(df)
        judged = self._judged(df)
        if not self._ledger.parts():
            self._ledger.keep_parts(tuple(stage.members for stage in stages(judged, strict=self.strict)))
        lines = [f"anabranch filter: policy {self.policy}, {len(self.predicates)} predicates, on_error {self.on_error}"]
        for number, stage in enumerate(stages(judged, strict=self.strict), start=1):
            lines.append(f"{number}. {stage.executor}: {what_runs(stage, df, self.policy)}")
            lines += self._explained_order(df, stage, [judged[i] for i in stage.members])
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned, orders and routes, to a file, or to `filter.json` in a folder that is there.

        `load` reads it in another run; so does `state=`, which writes to it, too.
        """
        if self._applied is None:
            raise QueryError("the filter has learned nothing yet", hint="apply it, and run what it returns, first")
        self._ledger.save_learned(state_file.saved_file(path))

    def load(self, path: str | os.PathLike[str]) -> Filter:
        """Start with what a filter of the same predicates has learned; returns the filter.

        Reads the file or folder that `save` or a filter with `state=` has written. Counts are not taken over.
        """
        self._ledger.load_learned(state_file.saved_file(path))
        self._identity = new_identity()  # workers go on with what they learned themselves, under the old one
        self._native.clear()
        self._tuners.clear()  # they add to the log of plans that was there before
        self._loaded = {part: plan.tests() for part, plan in self._ledger.plans().items()}
        return self

    def use(self, policy: str, config: OrderingConfig | None = None) -> None:
        """Go on with another policy, or other parameters, from the next DataFrame or micro-batch on.

        Counts and events stay; what policies have in common of what was learned, too.
        """
        require_options(policy, config, self.on_error)
        self.policy, self.mesh = policy, None
        self.config = self._default_config() if config is None else config
        self._identity = new_identity()  # workers hold pipelines of the old policy under the old one
        self._native.clear()
        self._tuners.clear()
        self._build_report = partial(
            _saved_report, self.policy, as_kept(self.predicates), self._ledger, strict=self.strict
        )

    def _explained_order(self, df: DataFrame, stage: FilterStage, members: Sequence[Predicate]) -> list[str]:
        native = self._native_order(df, stage, members) if stage.executor == "catalyst" else None
        if native is not None:
            order, why = native.order, native.why
        else:
            seed = self._ledger.learned(stage.members)
            order = seed.order if seed else self._precedence(members).legal(range(len(members)))
            why = (
                "learned so far; workers adapt it while they run"
                if seed
                else "as written; workers adapt it while they run"
            )
            why = "fixed as written" if self.policy == "fixed" else why
        lines = [f"   order: {' -> '.join(members[i].name for i in order)}   ({why})"]
        kinds = _kinds(self._attributes(df, members))
        plan = native.plan if native is not None else self._ledger.plan(stage.members, kinds)
        if plan is not None:
            lines += [f"   {line}" for line in explained_routes(plan, members)]
        edges = sorted(constraints(members, strict=self.strict))
        lines += [f"   {members[a].name} always before {members[b].name}" for a, b in edges]
        return lines

    def _through(
        self, df: DataFrame, *, counted: bool, aside: Aside | None = None, batch_id: int | None = None
    ) -> DataFrame:
        """Send a DataFrame through the stages: the rows that pass, or those that are set `aside` for a reason."""
        out, judged, run = df, self._judged(df), uuid.uuid4().hex
        cut = stages(judged, strict=self.strict)
        self._ledger.keep_parts(tuple(stage.members for stage in cut))
        errors: str | None = None
        kept: list[str] = []
        for at, stage in enumerate(cut):
            members, later = [judged[i] for i in stage.members], cut[at + 1 :]
            if stage.executor == "catalyst":
                order = self._native_order(df, stage, members, again=batch_id is None)
                terms = [undecided.excusing(p, errors, kept) for p in order.predicates] if errors else None
                out = order.apply(out, batch_id, terms=terms)
                continue
            if errors is None and self._errors_go_on(judged, later):
                errors = unused_name(df, "__anabranch_errors")
            task = replace(
                self._task(out, stage, members, self._origin(df, counted, run if batch_id is not None else "")),
                errors=ErrorRules(
                    errors,
                    lacking=tuple(dict.fromkeys(name for p in members for name in p.reads if name in kept)),
                    unasked=undecided.unasked(judged, later),
                ),
            )
            if self.policy == "mesh" and all(before.executor == "catalyst" for before in cut[:at]):
                task = self._with_pilot(out, task)  # a pilot behind other Python predicates would have to run those
            out = arrow.apply(out, task, self._ledger)
            kept += [name for p in members if (name := p.keeps)]
        if errors is None:
            return out
        if aside is not None:
            return aside(out, errors, kept)
        settle = undecided.without_errors if self.on_error == "quarantine" else undecided.raised
        return settle(out, errors)

    def _errors_go_on(self, judged: Sequence[Predicate], later: Sequence[FilterStage]) -> bool:
        """Whether rows with errors leave the first stage that finds some: to be set aside, or judged by later ones."""
        excused = any(undecided.can_excuse(judged[i]) for stage in later for i in stage.members)
        return excused or self.on_error == "quarantine" or self.calls.budget is not None

    def _judged(self, df: DataFrame) -> tuple[Predicate, ...]:
        """The predicates, native ones with what Spark's analyzer says about them; they may read kept columns, too."""
        kept = {p.keep: data_type(p) for p in self.predicates if isinstance(p, PythonPredicate) and p.keep}
        fold = folding(df.sparkSession)
        taken = set(map(fold, df.columns))
        added = {name: F.lit(None).cast(kind) for name, kind in kept.items() if fold(name) not in taken}
        wide = df.withColumns(added) if added else df
        found = [catalyst.inspect(wide, p) if isinstance(p, NativePredicate) else p for p in self.predicates]
        return as_kept(found, fold)

    def _native_order(
        self, df: DataFrame, stage: FilterStage, members: Sequence[Predicate], *, again: bool = False
    ) -> NativeOrder:
        native = [p for p in members if isinstance(p, NativePredicate)]
        known, attributes = self._native.get(stage.members), self._attributes(df, members)
        fit = fit_of(native, attributes)
        if known is None or known.fit != fit:
            known = NativeOrder(native, self._precedence(native), self.policy, self.config, attributes)
            self._native[stage.members] = known
        self._catch_up(stage.members, known)
        for event in known.decide(df, again=again):
            self._ledger.note(event)
        self._ledger.keep_native(stage.members, known.state())
        return known

    def _catch_up(self, part: Part, order: NativeOrder) -> None:
        """Go on with what an earlier run, or another filter on the same state, has sampled."""
        kept = None if self.policy == "fixed" else self._ledger.natives().get(part)
        if kept is not None and kept.fit == order.fit and kept.sample_rows > order.sample_rows:
            order.resume(kept)

    def _task(self, df: DataFrame, stage: FilterStage, members: Sequence[Predicate], origin: TaskOrigin) -> FilterTask:
        if self.on_error == "quarantine":
            require_room_for_errors(df)
        kept = tuple((p.keep, data_type(p)) for p in members if isinstance(p, PythonPredicate) and p.keep)
        types = input_types(df, members, dict(kept))
        attributes = self._attributes(df, members)
        types.update(attributes)
        kinds, rules = _kinds(attributes), _rules(df)
        precedence = self._precedence(members)
        policies.make_order(self.policy, len(members), self.config, precedence)  # raises here rather than in a worker
        unprofiled = frozenset(i for i, p in enumerate(members) if p.kind == "volatile" or _guarded(p, self.strict))
        return FilterTask(
            identity=f"{self._identity}/{stage.members}/{origin.ledger is not None}/{kinds}",
            part=stage.members,
            evaluators=tuple(self._evaluator(p, rules) for p in members),
            kept=kept,
            input=TaskInput(types, tuple(attributes), rules.time_zone),
            ordering=OrderingRules(self.policy, self.config, precedence, unprofiled, self.mesh),
            origin=origin,
            start=self._start(stage.members, kinds, precedence),
            calls=self.calls.settings(members, counted=origin.ledger is not None),
        )

    def _origin(self, df: DataFrame, counted: bool, run: str) -> TaskOrigin:
        spark = df.sparkSession
        if is_connect(df):
            return TaskOrigin(spark.session_id, self._ledger.new_node(), run, Outbox() if counted else None)  # type: ignore[attr-defined]
        application = spark.sparkContext.applicationId
        ledger = self._ledger_address(df) if counted else None
        return TaskOrigin(application, self._ledger.new_node(), run, ledger)

    def _start(self, part: Part, kinds: Kinds, precedence: Precedence) -> StartingPoint:
        """What earlier tasks have learned about a stage."""
        plan = self._known_plan(part, kinds, precedence)
        seed = None if self.policy == "fixed" else self._ledger.learned(part)
        return StartingPoint(seed, plan, *self._ledger.tuned(part, kinds))

    def _precedence(self, members: Sequence[Predicate]) -> Precedence:
        return Precedence(len(members), constraints(members, strict=self.strict))

    def _known_plan(self, part: Part, kinds: Kinds, precedence: Precedence) -> RoutePlan | None:
        """The routes that tasks found, or that tuning has made of them since; those of another input do not count."""
        if not kinds or self.policy not in policies.ROUTING:
            return None
        held = self._ledger.plans().get(part)
        saved = held is not None and held.tests() == self._loaded.get(part)
        misfit = self._ledger.misfit(part, kinds) if saved else None
        if misfit is not None:
            found = dict(kinds).get(misfit[0], "not among the attributes")
            raise QueryError(
                f"the saved routes look at column {misfit[0]!r} of type {misfit[1]}, which is {found} in this input",
                hint="load routes that were learned on such data, or start without",
            )
        self._tune(part, kinds, precedence)
        return self._ledger.plan(part, kinds)

    def _tune(self, part: Part, kinds: Kinds, precedence: Precedence) -> None:
        """Offer what tasks sampled to the tuner, and switch to the plan that it has found meanwhile."""
        tuner = self._tuners.get((part, kinds))
        if tuner is None:
            log = self._ledger.log(part, kinds)
            tuner = self._tuners[part, kinds] = Tuner(self.policy, precedence, log, self.mesh)
        found = tuner.take(self._ledger.plan(part, kinds))
        if found is not None:
            self._ledger.switch_plan(part, kinds, found.plan, found.reason)
        sample = self._ledger.take_sample(part, kinds)
        if sample is not None:
            tuner.offer(self._ledger.plan(part, kinds), sample)

    def _with_pilot(self, df: DataFrame, task: FilterTask) -> FilterTask:
        """Find the mesh by a pilot sample, where nothing is known yet and a sample can be taken."""
        if task.start.plan is not None or df.isStreaming or not task.input.attributes or len(task.evaluators) < 2:
            return task
        rows = pilot.PILOT_ROWS if self.mesh is None else self.mesh.sample_tuples
        sample = pilot.judge_sample(df, task, rows)
        log = self._ledger.log(task.part, task.input.kinds)
        plan = log.recall(sample.attributes, sample.drops)
        if plan is None:
            plan = find((self.policy,), sample, task.ordering.precedence, self.mesh)
            if plan is None:
                return task
            log.note(time.time(), sample.attributes, sample.drops, plan)
        self._ledger.remember_plan(task.part, task.input.kinds, plan)
        return replace(task, start=replace(task.start, plan=plan))

    def _attributes(self, df: DataFrame, members: Sequence[Predicate]) -> dict[str, DataType]:
        """Columns by which routes of some predicates may be chosen, and their types."""
        if self.policy not in policies.BY_CONTENT or len(members) < 2 or self.calls.minimize == "money":
            return {}
        names = self.attributes
        if names is None:
            names = candidate_attributes.attributes_of(df, [n for p in members for n in p.reads])
        kinds = {name: column_type(df, name, df.columns, "attributes") for name in names}
        for name, kind in kinds.items():
            if not isinstance(kind, candidate_attributes.SIMPLE):
                raise QueryError(
                    f"column {name!r} in attributes is of type {kind.simpleString()}, by which routes cannot be chosen",
                    hint="use numbers, texts, booleans, dates or timestamps; a field of a struct is s.field",
                )
        return kinds

    def _ledger_address(self, df: DataFrame) -> Address:
        if self._address is None:
            self._address = address_of(self._ledger, df.sparkSession.sparkContext)
        return self._address

    def _evaluator(self, p: Predicate, rules: SessionRules) -> Evaluator:
        if isinstance(p, LookupPredicate):
            return Evaluator(p.name, self._member_test(p, rules), (p.column,), "arrow", BOOLEAN)
        assert isinstance(p, PythonPredicate)
        function = p.function
        if p.flavour.endswith("_iterator"):
            function = IteratorAdapter(p.name, function, one_column=len(p.columns) == 1)
        kind = BOOLEAN if p.returns is None else value_type(p)
        return Evaluator(
            p.name,
            function,
            p.columns,
            p.flavour,
            kind,
            p.test,
            p.keep,
            p.time_limit,
            repeatable=p.kind != "volatile",
            caller=self.calls.client(p),
        )

    def _member_test(self, p: LookupPredicate, rules: SessionRules) -> Callable[[pa.Array], pa.Array]:
        """Made once: a table is collected by Spark, and prefixes take a while to read."""
        if (p.name, rules) not in self._member_tests:
            self._member_tests[p.name, rules] = member_test(p, collect_values(p, rules), rules)
        return self._member_tests[p.name, rules]


OPTIONS = [p.name for p in inspect.signature(Filter).parameters.values() if p.kind is p.KEYWORD_ONLY]


def where(df: DataFrame, *predicates: Predicate | Column | str, policy: str = "auto", **options: Any) -> DataFrame:
    """The rows of a DataFrame, batch or streaming, that pass all predicates, evaluated in an order that adapts.

    Takes the options of `Filter`. `anabranch.report` gives the report of the DataFrame that is returned. Make a
    `Filter` instead to apply it again, to ask for the rows that it sets aside, or to save what it has learned.

    Examples
    --------
    >>> import anabranch as ab
    >>> numbers = ab.local_session(cores=2).range(100)
    >>> ab.where(numbers, F.col("id") > 10, ab.predicate(lambda n: n % 9 == 0, "id", name="ninth")).count()
    10
    """
    return Filter(*predicates, policy=policy, **options).apply(df)


def _saved_report(policy: str, predicates: Sequence[Predicate], ledger: Ledger, *, strict: bool) -> FilterReport:
    """The report, once the state file has the same counts."""
    ledger.save()
    return build_report(policy, predicates, ledger, strict=strict)


def _guarded(p: Predicate, strict: bool) -> bool:
    return p.strict or (strict and p.kind == "fallible")


def _rules(df: DataFrame) -> SessionRules:
    settings = df.sparkSession.conf
    return SessionRules(
        time_zone=str(settings.get("spark.sql.session.timeZone")),
        ansi=settings.get("spark.sql.ansi.enabled") == "true",
        local_times=settings.get("spark.sql.timestampType") == "TIMESTAMP_NTZ",
    )


def _kinds(attributes: Mapping[str, DataType]) -> Kinds:
    return tuple((name, kind.simpleString()) for name, kind in attributes.items())
