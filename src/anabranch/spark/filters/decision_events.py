"""The decisions of a pipeline as events: with the names of the predicates, the policy and the partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch import events
from anabranch.errors import InternalError
from anabranch.ordering.decisions import Decision, NewEffort, NewOrder
from anabranch.routing.route_plan import NewRoutes


@dataclass(frozen=True)
class DecisionEvents:
    """Makes the events of one task; `names` are those of the predicates, as written.

    >>> made = DecisionEvents("auto", ("a", "b"), partition=0)
    >>> made.event(64, NewOrder((0, 1), (1, 0), "{1} drops more")).reason
    'b drops more'
    """

    policy: str
    names: tuple[str, ...]
    partition: int

    def started(self, order: Sequence[int], *, learned: bool) -> events.Event:
        """A worker begins with an order."""
        return events.Started(0, self.policy, self._named(order), learned, self.partition)

    def event(self, at: int, decision: Decision) -> events.Event:
        """The event of a decision that was made after `at` rows."""
        match decision:
            case NewOrder(before, after, why, route):
                orders = self._named(before), self._named(after)
                return events.Reordered(at, self.policy, *orders, self._worded(why), self.partition, route)
            case NewEffort(mode, probability, why, route):
                reason = self._worded(why)
                return events.EffortChanged(at, self.policy, mode, probability, reason, self.partition, route)
            case NewRoutes(ways, order, why):
                lines = tuple(f"{' | '.join(w.tests) or 'all rows'}: {' -> '.join(self._named(w.order))}" for w in ways)
                return events.RoutesChanged(
                    at, self.policy, lines, self._worded(why), self.partition, self._named(order)
                )
        raise InternalError(f"no event for a {type(decision).__name__}")

    def _named(self, order: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.names[f] for f in order)

    def _worded(self, why: str) -> str:
        return why.format(*self.names)
