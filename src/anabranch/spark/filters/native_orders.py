"""The orders of a filter's native predicates, stage by stage, kept in its ledger."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.model.predicates import FilterStage, NativePredicate, Predicate
from anabranch.spark.filters.filter_settings import FilterSettings
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.task_record import Part
from anabranch.spark.native.order import NativeOrder, fit_of


class NativeOrders:
    """Decides the orders of native predicates and keeps what they have learned.

    Parameters
    ----------
    settings
        Of the filter.
    ledger
        Keeps samples and events.
    """

    def __init__(self, settings: FilterSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._orders: dict[Part, NativeOrder] = {}

    def decide(
        self, df: DataFrame, stage: FilterStage, members: Sequence[Predicate], *, again: bool = False
    ) -> NativeOrder:
        """The order of a stage for an input: by a pilot sample if none is known; if `again`, by another one later."""
        native = [p for p in members if isinstance(p, NativePredicate)]
        settings, attributes = self._settings, self._settings.attributes_of(df, members)
        known, fit = self._orders.get(stage.members), fit_of(native, attributes)
        if known is None or known.fit != fit:
            known = NativeOrder(native, settings.precedence(native), settings.policy, settings.config, attributes)
            self._orders[stage.members] = known
        self._catch_up(stage.members, known)
        for event in known.decide(df, again=again):
            self._ledger.note(event)
        self._ledger.keep_native(stage.members, known.state())
        return known

    def learn(self) -> None:
        """Take in the profiles of the last micro-batch."""
        for part, order in list(self._orders.items()):
            self._catch_up(part, order)
            for event in order.learn():
                self._ledger.note(event)
            self._ledger.keep_native(part, order.state())

    def clear(self) -> None:
        """Begin with what the ledger knows."""
        self._orders.clear()

    def _catch_up(self, part: Part, order: NativeOrder) -> None:
        """Go on with what an earlier run, or another filter on the same state, has sampled."""
        kept = None if self._settings.policy == "fixed" else self._ledger.natives().get(part)
        if kept is not None and kept.fit == order.fit and kept.sample_rows > order.sample_rows:
            order.resume(kept)
