"""Self-tuning on the driver, off the hot path: a thread that watches what tasks sampled and searches for better plans.

Tasks send the rows on which they tried all predicates. Between two DataFrames, or two micro-batches, the filter offers
them to the tuner and takes what it has found since; neither waits for the other. Another plan reaches the tasks that
start later. Running tasks keep theirs: several plans may be in use at a time, and the answer is the same.

Every plan is logged with the statistics of the rows that it is for; when they come back, so does the plan, without a
search.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from importlib.util import find_spec

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.plan_search import find
from anabranch.mesh.self_tuning import Need, SelfTuning, Tuned, again, tune
from anabranch.ordering.precedence import Precedence
from anabranch.routing.plan_log import PlanLog
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample, SampledRows

HELD_ROWS = 1600
ENOUGH_ROWS = 240
MOST_WAITING = 64


class Tuner:
    """Watches the routes of one stage.

    Parameters
    ----------
    policy
        `content` and `mesh` look for routes in their own way, `auto` in both.
    precedence
        Orders that are allowed.
    log
        Plans and the statistics that they are for; those that the tuner finds are added.
    mesh
        How a mesh is searched for.
    """

    def __init__(
        self, policy: str, precedence: Precedence, log: PlanLog | None = None, mesh: MeshConfig | None = None
    ) -> None:
        self._ways = ("content", "mesh") if policy == "auto" else (policy,)
        self._precedence, self._mesh = precedence, mesh
        self._log = PlanLog() if log is None else log
        self._extra = all(find_spec(name) for name in ("river", "sklearn"))
        self._waiting: deque[JudgedSample] = deque(maxlen=MOST_WAITING)
        self._offered: list[tuple[str, ...]] = []
        self._pending: Future[Tuned | None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="anabranch-tuner")
        # From here on only the thread reads and writes.
        self._held: JudgedSample | None = None
        self._watched: SelfTuning | None = None
        self._need: Need | None = None

    def offer(self, plan: RoutePlan | None, sample: JudgedSample) -> None:
        """Look at rows that were sampled under a plan, in the background; while it is busy, they wait."""
        self._waiting.append(sample)
        if self._pending is None:
            fresh = reduce(_joined, self._waiting)
            self._waiting.clear()
            self._offered = _tests(plan)
            self._pending = self._pool.submit(self._look, plan, fresh)

    def take(self, plan: RoutePlan | None, *, wait: bool = False) -> Tuned | None:
        """What was found since the last call; nothing if workers have found other routes meanwhile.

        A search that fails ends in a warning: routes are there to save time, never to end a job.
        """
        if self._pending is None or not (wait or self._pending.done()):
            return None
        pending, self._pending = self._pending, None
        error = pending.exception()
        if error is not None:
            self._held = self._watched = self._need = None
            warnings.warn(f"The search for better routes failed, rows go on as before: {error!r}", stacklevel=3)
            return None
        found = pending.result()
        return found if _tests(plan) == self._offered else None

    def _look(self, plan: RoutePlan | None, fresh: JudgedSample) -> Tuned | None:
        found = self._search(plan, fresh)
        if found is not None:
            self._note(found.plan)
            if self._extra and found.plan is not None and self._held is not None:
                self._watch(found.plan, self._held)  # the detectors begin with the rows that it was found on
            self._held = self._need = None  # what comes next is sampled under another plan
        return found

    def _search(self, plan: RoutePlan | None, fresh: JudgedSample) -> Tuned | None:
        if plan is not None and not self._extra:
            return None  # workers still adapt the order of every route
        need = None if plan is None else self._watch(plan, fresh)
        if need is not None:
            self._note(plan)
            self._held, self._need = None, _both(self._need, need)  # older rows describe data that is gone
        self._held = fresh if self._held is None else _joined(self._held, fresh)
        if len(self._held) < ENOUGH_ROWS:
            return None
        known = self._recalled(plan, self._held) if plan is None or self._need is not None else None
        if known is not None:
            return known
        if plan is None:
            return self._first(self._held)
        need, self._need, ways = self._need, None, self._ways
        if need is None and len(ways) > 1 and plan.origin == ways[0]:
            need, self._ways = "both", ways[:1]  # once: would the other way be better
        return None if need is None else tune(need, plan, self._held, self._precedence, ways, self._mesh)

    def _recalled(self, plan: RoutePlan | None, held: JudgedSample) -> Tuned | None:
        """A plan that was found or used while rows looked as they do now, without a search."""
        known = self._log.recall(held.attributes, held.drops)
        return None if known is None else again(known, plan, held, self._precedence)

    def _note(self, plan: RoutePlan | None) -> None:
        """Log a plan with the rows that are held, unless that is what the log says of them already."""
        held = self._held
        if plan is None or held is None or len(held) < ENOUGH_ROWS:
            return
        known = self._log.recall(held.attributes, held.drops)
        if known is None or known.tests() != plan.tests() or known.orders != plan.orders:
            self._log.note(time.time(), held.attributes, held.drops, plan)

    def _first(self, held: JudgedSample) -> Tuned | None:
        ways = self._ways if self._extra else ("content",)
        found = find(ways, held, self._precedence, self._mesh)
        if found is None:
            return None
        return Tuned(found, f"{found.origin} routes promise to save {100 * found.promised_saving:.0f} %")

    def _watch(self, plan: RoutePlan, fresh: JudgedSample) -> Need | None:
        """Workers order the routes anew all the time: the detectors stay as long as the classifier does."""
        if self._watched is None or self._watched.plan.tests() != plan.tests():
            self._watched = SelfTuning(plan, fresh.drops.shape[1])
        self._watched.plan = plan
        return self._watched.watch(fresh)


def _tests(plan: RoutePlan | None) -> list[tuple[str, ...]]:
    return [] if plan is None else plan.tests()


def _both(first: Need | None, second: Need) -> Need:
    return second if first in (None, second) else "both"


def _joined(held: JudgedSample, sample: JudgedSample) -> JudgedSample:
    """Both, as far as there is room for the older rows."""
    return SampledRows.joined([held, sample]).last(HELD_ROWS).with_costs(sample.costs)
