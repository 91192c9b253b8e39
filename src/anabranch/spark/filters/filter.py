"""`Filter` and `where`: adaptive filters on Spark DataFrames, batch and streaming."""

from __future__ import annotations

import inspect
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError
from anabranch.filter_report import Events, FilterReport
from anabranch.mesh.config import MeshConfig
from anabranch.model.build import gather
from anabranch.model.predicates import (
    FilterStage,
    NativePredicate,
    Predicate,
    PythonPredicate,
    as_kept,
    require_unique_names,
    stages,
)
from anabranch.report_html import filter_html
from anabranch.routing.plan_comparison import Comparison
from anabranch.spark.filters import arrow, undecided
from anabranch.spark.filters.admission import (
    column_names,
    data_type,
    require_frame,
    require_picklable,
)
from anabranch.spark.filters.calling import FilterCalls, Minimize
from anabranch.spark.filters.explaining import explained_order, what_runs
from anabranch.spark.filters.filter_options import pinned_order, require_known, require_options
from anabranch.spark.filters.filter_settings import FilterSettings, OnError, RivalPlan, configured
from anabranch.spark.filters.ledger import open_ledger
from anabranch.spark.filters.native_orders import NativeOrders
from anabranch.spark.filters.progress import Progress
from anabranch.spark.filters.remote_batches import RemoteBatches
from anabranch.spark.filters.reporting import attach_report, saved_report
from anabranch.spark.filters.route_tuning import RouteTuning
from anabranch.spark.filters.row_traces import RowTrace, require_share
from anabranch.spark.filters.task_maker import TaskMaker
from anabranch.spark.filters.worker_memory import new_identity
from anabranch.spark.learned import state_file
from anabranch.spark.names import folding, unused_name
from anabranch.spark.native import catalyst

BatchSink = Callable[[DataFrame, int], Any]
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
        self.strict, self.on_error = strict, on_error
        self.attributes = None if attributes is None else column_names(attributes)
        self._identity = new_identity()
        remembered = self._identity if on_error == "quarantine" or budget is not None else ""
        self.calls = FilterCalls(
            self.predicates, policy, minimize=minimize, budget=budget, limit=limit, scope=remembered
        )
        self._settings = FilterSettings(
            policy, *configured(policy, config), strict, on_error, self.attributes, self.calls
        )
        self._ledger = open_ledger(tuple(p.name for p in self.predicates), state)
        self._build_report = self._report_builder()
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
        self._native = NativeOrders(self._settings, self._ledger)
        self._routes = RouteTuning(self._settings, self._ledger)
        self._tasks = TaskMaker(self._settings, self._ledger, self._routes)
        self._applied: DataFrame | None = None

    @property
    def policy(self) -> str:
        """The name of its policy."""
        return self._settings.policy

    @property
    def config(self) -> OrderingConfig:
        """Profiling and decision parameters of its policy."""
        return self._settings.config

    @property
    def order(self) -> tuple[str, ...] | None:
        """The order that is pinned, if one is."""
        return self._settings.order

    @property
    def trace_share(self) -> float:
        """The share of rows that are traced."""
        return self._settings.trace_share

    @property
    def rival(self) -> RivalPlan | None:
        """The plan that is compared with the one in use, if there is one."""
        return self._settings.rival

    @property
    def mesh(self) -> MeshConfig | None:
        """How routes are searched for, if that was given."""
        return self._settings.mesh

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

    def foreach_batch(self, sink: BatchSink) -> Callable[[DataFrame, int], None]:
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

    def run_batch(self, sink: BatchSink, batch: DataFrame, batch_id: int) -> None:
        """Filter one micro-batch for a sink; see `foreach_batch`."""
        require_frame(batch)
        self._applied = batch
        self._native.learn()  # the profile of the last pass may arrive after its sink has returned
        sink(attach_report(self._through(batch, counted=True, batch_id=batch_id), self._build_report), batch_id)
        self._native.learn()
        self._ledger.save()

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
            members = [judged[i] for i in stage.members]
            native = self._native.decide(df, stage, members) if stage.executor == "catalyst" else None
            lines += explained_order(self._settings, self._ledger, native, df, stage, members)
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
        self._routes.loaded()
        return self

    def use(self, policy: str, config: OrderingConfig | None = None, order: Sequence[str] | None = None) -> None:
        """Go on with another policy, or other parameters, from the next DataFrame or micro-batch on.

        With `policy="fixed"`, an order of predicates by their names can be pinned; those that it leaves out come
        behind, and native ones stay where they are. Counts and events stay; what policies have in common of what was
        learned, too.
        """
        require_options(policy, config, self.on_error)
        self._settings.use(policy, config, pinned_order(policy, order, [p.name for p in self.predicates]))
        self._identity = new_identity()  # workers hold pipelines of the old policy under the old one
        self._native.clear()
        self._routes.clear()
        self._build_report = self._report_builder()

    def trace(self, share: float) -> None:
        """Note what becomes of a share of the rows, from the next DataFrame or micro-batch on; 0 traces none.

        Rows and counts are the same. A task keeps twenty rows at most, the filter the last two hundred: see `traces`.
        """
        self._settings.trace_share = require_share(share)

    def traces(self) -> tuple[RowTrace, ...]:
        """The rows that were traced last, oldest first, with the verdict and the time of every predicate.

        Native predicates run inside Spark and are not in it: rows that get here have passed those before.
        """
        return self._ledger.traces()

    def compare(
        self, policy: str | None = "fixed", config: OrderingConfig | None = None, order: Sequence[str] | None = None
    ) -> None:
        """Send a third of the chunks by another plan, from the next DataFrame or micro-batch on; None ends that.

        The answer is the same. `comparison` says what the other plan takes, with a control; `use` adopts it.
        """
        self._settings.rival = None
        self._ledger.compare_anew()
        if policy is not None:
            require_options(policy, config, self.on_error)
            names = [p.name for p in self.predicates]
            pinned = pinned_order(policy, order, names)
            self._settings.rival = RivalPlan(new_identity(), policy, configured(policy, config)[0], pinned)

    def comparison(self) -> Comparison | None:
        """What the plan given to `compare` takes, by what the plan in use takes; None if none is compared."""
        return None if self._settings.rival is None else self._ledger.comparison()

    def _report_builder(self) -> Callable[[], FilterReport]:
        return partial(saved_report, self.policy, as_kept(self.predicates), self._ledger, strict=self.strict)

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
                order = self._native.decide(df, stage, members, again=batch_id is None)
                terms = [undecided.excusing(p, errors, kept) for p in order.predicates] if errors else None
                out = order.apply(out, batch_id, terms=terms)
                continue
            if errors is None and self._errors_go_on(judged, later):
                errors = unused_name(df, "__anabranch_errors")
            origin = self._tasks.origin(df, counted, run if batch_id is not None else "")
            task = self._tasks.task(out, stage, members, origin, self._identity)
            task = replace(task, errors=undecided.error_rules(errors, kept, members, judged, later))
            # A pilot behind other Python predicates would have to run those.
            if self.policy == "mesh" and all(before.executor == "catalyst" for before in cut[:at]):
                task = self._routes.with_pilot(out, task)
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
