"""Makes the tasks of a filter's Python stages: what workers call, in which order they begin, where records go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from anabranch.model.predicates import FilterStage, LookupPredicate, Predicate, PythonPredicate
from anabranch.ordering import Precedence
from anabranch.ordering.base import Seed
from anabranch.routing import policies
from anabranch.spark.connect import is_connect, observes
from anabranch.spark.filters.admission import data_type, input_types, require_room_for_errors, value_type
from anabranch.spark.filters.evaluators import BOOLEAN, Evaluator, IteratorAdapter
from anabranch.spark.filters.filter_settings import FilterSettings, kinds_of
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.letters import Outbox
from anabranch.spark.filters.lookup import SessionRules, member_test
from anabranch.spark.filters.lookup_table import collect_values
from anabranch.spark.filters.route_tuning import RouteTuning
from anabranch.spark.filters.task_record import Kinds, Part
from anabranch.spark.filters.task_spec import OrderingRules, StartingPoint, TaskInput, TaskOrigin

if TYPE_CHECKING:
    from anabranch.spark.mailbox import Address


class TaskMaker:
    """Makes tasks.

    Parameters
    ----------
    settings
        Of the filter.
    ledger
        Knows what earlier tasks have learned, and takes the records of new ones.
    routes
        Knows the routes with which tasks begin.
    """

    def __init__(self, settings: FilterSettings, ledger: Ledger, routes: RouteTuning) -> None:
        self._settings = settings
        self._ledger = ledger
        self._routes = routes
        self._address: Address | None = None
        self._member_tests: dict[tuple[str, SessionRules], Callable[[pa.Array], pa.Array]] = {}

    def task(
        self, df: DataFrame, stage: FilterStage, members: Sequence[Predicate], origin: TaskOrigin, identity: str
    ) -> FilterTask:
        """The task of a stage; workers keep what they learn under the filter's identity."""
        settings = self._settings
        if settings.on_error == "quarantine":
            require_room_for_errors(df)
        kept = tuple((p.keep, data_type(p)) for p in members if isinstance(p, PythonPredicate) and p.keep)
        types = input_types(df, members, dict(kept))
        attributes = settings.attributes_of(df, members)
        types.update(attributes)
        kinds, rules = kinds_of(attributes), _rules(df)
        ordering = self._ordering(members)
        name = f"{identity}/{stage.members}/{origin.ledger is not None}/{kinds}"
        return FilterTask(
            identity=name,
            part=stage.members,
            evaluators=tuple(self.evaluator(p, rules) for p in members),
            kept=kept,
            input=TaskInput(types, tuple(attributes), rules.time_zone),
            ordering=ordering,
            origin=origin,
            start=self._start(stage.members, members, kinds, ordering.precedence),
            watching=settings.watching(members, name),
            calls=settings.calls.settings(members, counted=origin.ledger is not None),
        )

    def origin(self, df: DataFrame, counted: bool, run: str) -> TaskOrigin:
        """Where a task comes from, and where its record goes if it counts."""
        spark = df.sparkSession
        if is_connect(df):
            outbox = Outbox() if counted and observes(spark) else None
            return TaskOrigin(spark.session_id, self._ledger.new_node(), run, outbox)  # type: ignore[attr-defined]
        application = spark.sparkContext.applicationId
        ledger = self._ledger_address(df) if counted else None
        return TaskOrigin(application, self._ledger.new_node(), run, ledger)

    def evaluator(self, p: Predicate, rules: SessionRules) -> Evaluator:
        """What calls a predicate in a worker."""
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
            caller=self._settings.calls.client(p),
        )

    def _ordering(self, members: Sequence[Predicate]) -> OrderingRules:
        settings, precedence = self._settings, self._settings.precedence(members)
        policies.make_order(settings.policy, len(members), settings.config, precedence)  # raises here, not in a worker
        unprofiled = frozenset(i for i, p in enumerate(members) if p.kind == "volatile" or _guarded(p, settings.strict))
        return OrderingRules(settings.policy, settings.config, precedence, unprofiled, settings.mesh)

    def _start(self, part: Part, members: Sequence[Predicate], kinds: Kinds, precedence: Precedence) -> StartingPoint:
        """What earlier tasks have learned about a stage, or the order that is pinned."""
        plan = self._routes.known_plan(part, kinds, precedence)
        pinned = self._settings.pinned(members, self._settings.order)
        seed = None if self._settings.policy == "fixed" else self._ledger.learned(part)
        if pinned is not None:
            seed = Seed(pinned, np.zeros((0, len(pinned)), dtype=np.bool_), np.full(len(pinned), np.nan))
        return StartingPoint(seed, plan, *self._ledger.tuned(part, kinds))

    def _ledger_address(self, df: DataFrame) -> Address:
        from anabranch.spark.mailbox import address_of  # an accumulator: classic sessions only

        if self._address is None:
            self._address = address_of(self._ledger, df.sparkSession.sparkContext)
        return self._address

    def _member_test(self, p: LookupPredicate, rules: SessionRules) -> Callable[[pa.Array], pa.Array]:
        """Made once: a table is collected by Spark, and prefixes take a while to read."""
        if (p.name, rules) not in self._member_tests:
            self._member_tests[p.name, rules] = member_test(p, collect_values(p, rules), rules)
        return self._member_tests[p.name, rules]


def _guarded(p: Predicate, strict: bool) -> bool:
    return p.strict or (strict and p.kind == "fallible")


def _rules(df: DataFrame) -> SessionRules:
    settings = df.sparkSession.conf
    return SessionRules(
        time_zone=str(settings.get("spark.sql.session.timeZone")),
        ansi=settings.get("spark.sql.ansi.enabled") == "true",
        local_times=settings.get("spark.sql.timestampType") == "TIMESTAMP_NTZ",
    )
