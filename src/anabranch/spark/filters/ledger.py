"""What the driver knows of a filter: counts and events of its tasks, orders and routes that they learned.

A task sends one record when it ends. The ledger hands its parts to `task_counts`, `event_log`, `learned_orders`,
`learned_routes` and `sample_queue`, one thread at a time, and has them written to a state folder (`ledger_file`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from anabranch.errors import QueryError
from anabranch.events import Event
from anabranch.ordering.base import Seed
from anabranch.routing.plan_comparison import Comparison, ComparisonLog
from anabranch.routing.plan_log import PlanLog
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.filters.event_log import EventLog
from anabranch.spark.filters.learned_orders import LearnedOrders
from anabranch.spark.filters.learned_routes import LearnedRoutes
from anabranch.spark.filters.ledger_file import LedgerFile
from anabranch.spark.filters.row_traces import RowTrace, TraceLog
from anabranch.spark.filters.sample_queue import SampleQueue
from anabranch.spark.filters.task_counts import StageCounts, TaskCounts
from anabranch.spark.filters.task_record import Kinds, Part, TaskRecord
from anabranch.spark.learned import state_file
from anabranch.spark.learned.saved import NativeState


class Ledger:
    """Totals, events and learned plans of one filter.

    Parameters
    ----------
    names
        Names of all predicates as written; the state of another filter is refused.
    state
        Folder or file that keeps the ledger across restarts; `None` keeps it in memory.
    """

    def __init__(self, names: tuple[str, ...], state: str | os.PathLike[str] | None = None) -> None:
        self._lock = threading.RLock()
        self._names = names
        self._counts, self._events = TaskCounts(), EventLog()
        self._orders, self._routes, self._samples = LearnedOrders(), LearnedRoutes(), SampleQueue()
        self._traces, self._comparisons = TraceLog(), ComparisonLog()
        self._nodes = count()
        self._file = None if state is None else LedgerFile(state_file.file_of(state), names)
        if self._file is not None:
            self._restore(self._file)

    def enter(self, records: Iterable[TaskRecord]) -> None:
        """Take in records; one of the same task, or of an earlier run of the same micro-batch, is replaced."""
        with self._lock:
            for record in records:
                self._counts.enter(record)
                self._events.extend(record.events)
                self._routes.enter(record)
                if record.learned is not None:
                    self._orders.merge(record.part, record.learned, record.learned_rows)
                self._samples.enter(record)
                self._traces.extend(record.traces)
                self._comparisons.enter(*record.compared)
            self._counts.fold()
            self._save_soon()

    def note(self, event: Event) -> None:
        """Enter a decision that was made on the driver."""
        with self._lock:
            self._events.extend([event])
            self._save_soon()

    def totals(self) -> dict[Part, StageCounts]:
        """Counts and times of every stage over all tasks."""
        with self._lock:
            return self._counts.totals()

    def events(self) -> tuple[Event, ...]:
        """Decisions so far, in the order in which they reached the driver."""
        with self._lock:
            return self._events.all()

    def traces(self) -> tuple[RowTrace, ...]:
        """The rows that were traced last, oldest first."""
        with self._lock:
            return self._traces.all()

    def comparison(self) -> Comparison:
        """The plan in use and its rival, as far as they have been compared."""
        with self._lock:
            return self._comparisons.found()

    def compare_anew(self) -> None:
        """Forget comparisons: there is another rival, or none."""
        with self._lock:
            self._comparisons = ComparisonLog()

    def learned(self, part: Part) -> Seed | None:
        """What all tasks learned, merged, as the seed of the next run."""
        with self._lock:
            return self._orders.seeds.get(part)

    def natives(self) -> dict[Part, NativeState]:
        """What is known of every stage of native predicates."""
        with self._lock:
            return dict(self._orders.natives)

    def keep_native(self, part: Part, state: NativeState) -> None:
        """Replace what is known of a stage of native predicates."""
        with self._lock:
            self._orders.natives[part] = state
            self._save_soon()

    def new_node(self) -> int:
        """A number that tells a place in a plan from all others that report to this ledger."""
        return next(self._nodes)

    def parts(self) -> tuple[Part, ...]:
        """The stages, in the order in which rows last went through them."""
        with self._lock:
            return self._orders.parts

    def keep_parts(self, parts: tuple[Part, ...]) -> None:
        """Replace the stages that rows go through."""
        with self._lock:
            self._orders.parts = parts

    def plan(self, part: Part, kinds: Kinds) -> RoutePlan | None:
        """The routes in use, if they fit an input of these kinds: the first that a task found, in their last orders."""
        with self._lock:
            return self._routes.plan(part, kinds)

    def plans(self) -> dict[Part, RoutePlan]:
        """The routes in use by stage, or on trial in the last task; a stage without has one order for all rows."""
        with self._lock:
            return self._routes.plans()

    def misfit(self, part: Part, kinds: Kinds) -> tuple[str, str] | None:
        """A column that the routes look at, and its type, which an input of these kinds does not have."""
        with self._lock:
            return self._routes.misfit(part, kinds)

    def remember_plan(self, part: Part, kinds: Kinds, plan: RoutePlan) -> None:
        """Start the next run with these routes."""
        with self._lock:
            self._routes.use(part, kinds, plan)

    def switch_plan(self, part: Part, kinds: Kinds, plan: RoutePlan | None, reason: str) -> None:
        """Use another plan, or one order for all, in tasks that start from now on; running tasks keep theirs."""
        with self._lock:
            self._routes.switch(part, kinds, plan, reason)

    def tuned(self, part: Part, kinds: Kinds) -> tuple[int, str]:
        """How many times the plan of a stage was switched, and why the last time."""
        with self._lock:
            return self._routes.switched(part, kinds)

    def take_sample(self, part: Part, kinds: Kinds) -> JudgedSample | None:
        """The rows that tasks sampled since the last call."""
        with self._lock:
            seed = self._orders.seeds.get(part)
            return None if seed is None else self._samples.take(part, kinds, seed.costs)

    def log(self, part: Part, kinds: Kinds) -> PlanLog:
        """Plans found so far, with the statistics they were found for."""
        with self._lock:
            return self._routes.log(part, kinds)

    def save_learned(self, path: Path) -> None:
        """Write what was learned, without counts; its own file, which has both, is brought up to date."""
        if self._file is not None and path == self._file.path:
            self.save()
            return
        with self._lock:
            learned = self._to_json(TaskCounts(), EventLog())
        try:
            state_file.write(path, self._names, learned)
        except OSError as error:
            raise QueryError(f"{path} cannot be written: {error.strerror}", hint="choose another path") from error

    def load_learned(self, path: Path) -> None:
        """Take in what another filter has learned, without its counts."""
        saved = state_file.read(path, self._names)
        with self._lock, state_file.whole(path):
            self._restore_learned(saved)
            self._samples.clear()

    def save_all(self, path: Path) -> None:
        """Write all that is known to a file of another process."""
        with self._lock:
            state_file.write(path, self._names, self._to_json(self._counts, self._events))

    def reread(self, path: Path) -> None:
        """Take in all that another process has written, in place of what was known."""
        with self._lock:
            self._restore(LedgerFile(path, self._names))

    def save(self) -> None:
        """Write the state file, if there is one; where that fails, warn once and try again soon."""
        with self._lock:
            file = self._file
            if file is None:
                return
            problem = file.write(self._to_json(self._counts, self._events))
            if problem is None:
                state_file.saving.done(self)
                return
            self._save_soon()
        file.warn_of_failure(problem)

    def serves(self, names: tuple[str, ...]) -> bool:
        """Whether another filter can share it: the same predicates, and a file that no other program has changed."""
        with self._lock:
            if self._file is None or not self._file.untouched():
                return False
            if names != self._names and state_file.saving.is_due(self):
                self.save()
            return names == self._names

    def detach(self) -> None:
        """Write no more: another ledger has the state file now."""
        with self._lock:
            self._file = None
            state_file.saving.done(self)

    def _save_soon(self) -> None:
        if self._file is not None:
            state_file.saving.soon(self)

    def _to_json(self, counts: TaskCounts, events: EventLog) -> dict[str, Any]:
        learned = {**self._orders.to_json(), **self._routes.to_json()}
        return {**counts.to_json(), **learned, "events": events.to_json()}

    def _restore_learned(self, data: dict[str, Any]) -> None:
        self._orders.restore(data)
        self._routes.restore(data)

    def _restore(self, file: LedgerFile) -> None:
        state = file.read()
        if state is None:
            return
        with state_file.whole(file.path):
            self._counts.restore(state)
            self._restore_learned(state)
            self._events.restore(state["events"])


_opened: dict[Path, Ledger] = {}  # for good: a DataFrame may be run long after its filter is forgotten
_opening = threading.Lock()


def open_ledger(names: tuple[str, ...], state: str | os.PathLike[str] | None = None) -> Ledger:
    """A ledger for a filter; filters with one state file share one, so that none overwrites what another counts.

    If the state was deleted or exchanged since, it is read anew, and the ledger that was there before writes no more.
    """
    if state is None:
        return Ledger(names)
    path = state_file.file_of(state)
    with _opening:
        known = _opened.get(path)
        if known is not None and known.serves(names):
            return known
        ledger = Ledger(names, state)
        if known is not None:
            known.detach()
        _opened[path] = ledger
        return ledger
