"""What the tasks of a filter report, merged on the driver so that each task counts once.

A task sends one record when it ends. Records are kept under the task's identity: a retried
or re-run task replaces its earlier record instead of adding to it, and a micro-batch that is replayed after a restart
replaces what the interrupted run had counted. Old records are folded into running totals, so memory stays bounded.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch import events
from anabranch.errors import QueryError
from anabranch.mesh.plan_search import JudgedSample
from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import joined
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Tally
from anabranch.routing.plan_log import PlanLog
from anabranch.routing.routed import RoutePlan, RouteState
from anabranch.spark import state_file
from anabranch.spark.saved import (
    NativeState,
    log_from_json,
    log_to_json,
    native_from_json,
    native_to_json,
    plan_from_json,
    plan_to_json,
    seed_from_json,
    seed_to_json,
)

RECENT_RECORDS = 4096
RECENT_EVENTS = 10_000
RECENT_SAMPLES = 64
SEED_PROFILES = 2000
LEARNED_ROWS = 256
STATE_FILE = "filter.json"
STATE_VERSION = 4
SAVED_VERSION = 3


Part = tuple[int, ...]
"""A stage of a filter: the positions of its predicates in the written list."""

Kinds = tuple[tuple[str, str], ...]
"""Names and types of the columns that routes may look at; what is learned about routes holds for one such input."""


@dataclass(frozen=True)
class TaskKey:
    """Identity of a task: `job`, a micro-batch, survives restarts; the rest tells its parts apart."""

    job: str
    run: str
    stage: int
    partition: int
    node: int = 0


@dataclass(frozen=True)
class TaskRecord:
    """What one task did and learned.

    A coalesced task runs the filter once per merged partition: records of one `attempt` add up, another's replace them.
    Each profile tuple, sampled row and plan that was `given_up` is in one record only; `learned_rows` is how many rows
    the worker has learned from, in all its tasks.
    """

    key: TaskKey
    part: Part
    tally: Tally
    attempt: int = 0
    events: tuple[events.Event, ...] = ()
    learned: Seed | None = None
    learned_rows: int = 0
    routes: tuple[RouteState, ...] = ()
    kinds: Kinds = ()
    plan: RoutePlan | None = None
    plan_version: int = 0
    given_up: RoutePlan | None = None
    sample: tuple[Mapping[str, pa.Array], BoolMatrix] | None = None
    trial: RoutePlan | None = None


@dataclass
class Entry:
    """Counts of one task, or of many: per predicate, and per route by its tests."""

    tally: Tally
    routes: dict[tuple[str, ...], RouteState]
    attempt: int = 0

    @classmethod
    def empty(cls, filters: int, attempt: int = 0) -> Entry:
        """All zero."""
        return cls(Tally.empty(filters), {}, attempt)

    def add(self, tally: Tally, routes: Iterable[RouteState]) -> None:
        """Count more in; a route keeps its latest order."""
        self.tally.add(tally)
        for route in routes:
            known = self.routes.get(route.tests, RouteState(route.tests, route.order, 0, 0.0))
            rows, seconds = known.rows + route.rows, known.seconds + route.seconds
            self.routes[route.tests] = replace(route, rows=rows, seconds=seconds)


class Ledger:
    """Totals, events and merged profiles of one filter.

    Parameters
    ----------
    names
        Names of all predicates as written; a state folder of another filter is refused.
    state
        Folder that keeps the ledger across restarts; `None` keeps it in memory.
    """

    def __init__(self, names: tuple[str, ...], state: str | os.PathLike[str] | None = None) -> None:
        self._lock = threading.RLock()
        self._names = names
        self._folded: dict[Part, Entry] = {}
        self._recent: dict[tuple[Part, TaskKey], Entry] = {}
        self._plans: dict[Part, tuple[Kinds, RoutePlan]] = {}
        self._trials: dict[Part, RoutePlan] = {}
        self._tuned: dict[tuple[Part, Kinds], tuple[int, str]] = {}
        self._samples: dict[tuple[Part, Kinds], deque[tuple[Mapping[str, pa.Array], BoolMatrix]]] = {}
        self._logs: dict[tuple[Part, Kinds], PlanLog] = {}
        self._events: deque[events.Event] = deque(maxlen=RECENT_EVENTS)
        self._learned: dict[Part, Seed] = {}
        self._natives: dict[Part, NativeState] = {}
        self._parts: tuple[Part, ...] = ()
        self._nodes = count()
        self._path = None if state is None else Path(state).resolve() / STATE_FILE
        self._stamp: state_file.Stamp | None = None
        self._told = self._shared = False
        if self._path is not None:
            state_file.require_folder(self._path.parent)
            self._load(self._path)

    def enter(self, records: Iterable[TaskRecord]) -> None:
        """Take in records; one of the same task, or of an earlier run of the same micro-batch, is replaced."""
        with self._lock:
            for record in records:
                self._forget_other_runs(record)
                self._folded.setdefault(record.part, Entry.empty(len(record.part)))
                self._enter_one(record)
                self._events.extend(record.events)
                self._keep_plan(record)
                if record.learned is not None:
                    self._learn(record.part, record.learned, record.learned_rows)
                if record.sample is not None and len(record.sample[1]):
                    place = record.part, record.kinds
                    self._samples.setdefault(place, deque(maxlen=RECENT_SAMPLES)).append(record.sample)
            while len(self._recent) > RECENT_RECORDS:
                part, key = next(iter(self._recent))
                old = self._recent.pop((part, key))
                self._folded[part].add(old.tally, old.routes.values())
            self._save_soon()

    def note(self, event: events.Event) -> None:
        """Enter a decision that was made on the driver."""
        with self._lock:
            self._events.append(event)
            self._save_soon()

    def totals(self) -> dict[Part, Entry]:
        """Counts and times of every stage over all tasks."""
        with self._lock:
            totals = {part: Entry.empty(len(part)) for part in self._folded}
            for part, entry in (*self._folded.items(), *((p, e) for (p, _), e in self._recent.items())):
                totals[part].add(entry.tally, entry.routes.values())
            return totals

    def events(self) -> tuple[events.Event, ...]:
        """Decisions so far, in the order in which they reached the driver."""
        with self._lock:
            return tuple(self._events)

    def learned(self, part: Part) -> Seed | None:
        """What all tasks learned, merged, as the seed of the next run."""
        with self._lock:
            return self._learned.get(part)

    def natives(self) -> dict[Part, NativeState]:
        """What is known of every stage of native predicates."""
        with self._lock:
            return dict(self._natives)

    def keep_native(self, part: Part, state: NativeState) -> None:
        """Know this of a stage of native predicates from now on."""
        with self._lock:
            self._natives[part] = state
            self._save_soon()

    def new_node(self) -> int:
        """A number that tells a place in a plan from all others that report to this ledger."""
        return next(self._nodes)

    def parts(self) -> tuple[Part, ...]:
        """The stages, in the order in which rows last went through them."""
        with self._lock:
            return self._parts

    def keep_parts(self, parts: tuple[Part, ...]) -> None:
        """Rows go through these stages now."""
        with self._lock:
            self._parts = parts

    def plan(self, part: Part, kinds: Kinds) -> RoutePlan | None:
        """The routes in use, if they fit an input of these kinds: the first that a task found, in their last orders."""
        with self._lock:
            found = self._plans.get(part)
            return found[1] if found and self.misfit(part, kinds) is None else None

    def plans(self) -> dict[Part, RoutePlan]:
        """The routes in use by stage, or on trial as the last task said; a stage without has one order for all rows."""
        with self._lock:
            return self._trials | {part: plan for part, (_, plan) in self._plans.items()}

    def misfit(self, part: Part, kinds: Kinds) -> tuple[str, str] | None:
        """A column that the routes look at, and its type, which an input of these kinds does not have."""
        with self._lock:
            learned, plan = self._plans.get(part, ((), None))
        wanted = [] if plan is None else [(name, dict(learned)[name]) for name in plan.classifier.attributes]
        return next((w for w in wanted if w not in kinds), None)

    def remember_plan(self, part: Part, kinds: Kinds, plan: RoutePlan) -> None:
        """Start the next run with these routes."""
        with self._lock:
            self._plans[part] = kinds, plan

    def switch_plan(self, part: Part, kinds: Kinds, plan: RoutePlan | None, reason: str) -> None:
        """Let tasks that start from now on use another plan, or one order for all; what runs keeps what it has."""
        with self._lock:
            self._tuned[part, kinds] = self.tuned(part, kinds)[0] + 1, reason
            if plan is None:
                self._plans.pop(part, None)
            else:
                self._plans[part] = kinds, plan

    def tuned(self, part: Part, kinds: Kinds) -> tuple[int, str]:
        """How many times the plan of a stage was switched, and why the last time."""
        with self._lock:
            return self._tuned.get((part, kinds), (0, ""))

    def take_sample(self, part: Part, kinds: Kinds) -> JudgedSample | None:
        """The rows that tasks sampled since the last call."""
        with self._lock:
            found, seed = self._samples.pop((part, kinds), None), self._learned.get(part)
        if not found or seed is None:
            return None
        columns = {name: joined([c[name] for c, _ in found]) for name in found[0][0]}
        return JudgedSample(columns, np.concatenate([drops for _, drops in found]), seed.costs)

    def log(self, part: Part, kinds: Kinds) -> PlanLog:
        """Plans found so far, with the statistics they were found for."""
        with self._lock:
            return self._logs.setdefault((part, kinds), PlanLog())

    def save_learned(self, path: Path) -> None:
        """Write what was learned, without counts."""
        with self._lock:
            learned = {
                "version": SAVED_VERSION,
                "names": self._names,
                **self._learned_json(),
            }
        try:
            state_file.write(path, learned)
        except OSError as error:
            raise QueryError(f"{path} cannot be written: {error.strerror}", hint="choose another path") from error

    def load_learned(self, path: Path) -> None:
        """Take in what `save_learned` wrote."""
        saved = state_file.read(path, SAVED_VERSION, self._names, "what a filter has learned")
        with self._lock, state_file.whole(path):
            self._take_learned(saved)
            self._tuned.clear()
            self._trials.clear()
            self._samples.clear()

    def save(self) -> None:
        """Write the state folder, atomically; where that fails, it is told once, and tried again."""
        with self._lock:
            path, told = self._path, self._told
            if path is None:
                return
            self._warn_of_others(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                state_file.write(path, self._state_json())
            except OSError as error:
                self._save_soon()
                problem, self._told = error.strerror or str(error), True
            else:
                self._stamp = state_file.stamp(path)
                state_file.saving.done(self)
                return
        if not told:
            warnings.warn(
                f"The state folder {path.parent} cannot be written: {problem}. Counts are kept in memory, and "
                "writing is tried again every second",
                stacklevel=2,
            )

    def _warn_of_others(self, path: Path) -> None:
        found = state_file.stamp(path)
        if self._shared or found is None or found == self._stamp:
            return
        self._shared = True
        warnings.warn(
            f"Another program has written to the state folder {path.parent}: each replaces what the other has counted; "
            "give each a folder of its own",
            stacklevel=3,
        )

    def serves(self, names: tuple[str, ...]) -> bool:
        """Whether another filter can go on with it: the same predicates, and a file that nobody else has touched."""
        with self._lock:
            if self._path is None or self._stamp != state_file.stamp(self._path):
                return False
            if names != self._names and state_file.saving.is_due(self):
                self.save()
            return names == self._names

    def let_go(self) -> None:
        """Leave the state folder to another ledger."""
        with self._lock:
            self._path = None
            state_file.saving.done(self)

    def _save_soon(self) -> None:
        if self._path is not None:
            state_file.saving.soon(self)

    def _state_json(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "names": self._names,
            "folded": [[part, _entry_json(e)] for part, e in self._folded.items()],
            "recent": [[part, asdict(key), _entry_json(e)] for (part, key), e in self._recent.items()],
            **self._learned_json(),
            "events": [[type(e).__name__, asdict(e)] for e in self._events],
        }

    def _enter_one(self, record: TaskRecord) -> None:
        entry = self._recent.get((record.part, record.key))
        if entry is None or entry.attempt != record.attempt:
            entry = self._recent[record.part, record.key] = Entry.empty(len(record.part), record.attempt)
        entry.add(record.tally, record.routes)

    def _keep_plan(self, record: TaskRecord) -> None:
        self._trials.pop(record.part, None)
        if record.trial is not None:
            self._trials[record.part] = record.trial
        if record.plan_version < self.tuned(record.part, record.kinds)[0]:
            return
        held = self.plan(record.part, record.kinds)
        if record.plan is None:
            if record.given_up is not None and held is not None and held.tests() == record.given_up.tests():
                del self._plans[record.part]
        elif held is None or held.tests() == record.plan.tests():  # not by turns: the tuner watches one classifier
            self._plans[record.part] = record.kinds, record.plan

    def _learned_json(self) -> dict[str, Any]:
        return {
            "parts": self._parts,
            "learned": [[part, seed_to_json(s)] for part, s in self._learned.items()],
            "natives": [[part, native_to_json(state)] for part, state in self._natives.items()],
            "plans": [[part, kinds, plan_to_json(plan)] for part, (kinds, plan) in self._plans.items()],
            "log": [[part, kinds, log_to_json(log)] for (part, kinds), log in self._logs.items()],
        }

    def _take_learned(self, data: dict[str, Any]) -> None:
        self._parts = tuple(map(tuple, data["parts"]))
        self._learned = {tuple(part): seed_from_json(s, len(part)) for part, s in data["learned"]}
        self._natives = {tuple(part): native_from_json(state, len(part)) for part, state in data["natives"]}
        self._plans = {
            tuple(part): (_kinds(kinds), plan_from_json(plan, len(part))) for part, kinds, plan in data["plans"]
        }
        self._logs = {(tuple(part), _kinds(kinds)): log_from_json(log, len(part)) for part, kinds, log in data["log"]}

    def _forget_other_runs(self, record: TaskRecord) -> None:
        if not record.key.job:
            return
        stale = [
            (part, key)
            for part, key in self._recent
            if part == record.part and key.job == record.key.job and key.run != record.key.run
        ]
        for entry in stale:
            del self._recent[entry]

    def _learn(self, part: Part, seed: Seed, rows: int) -> None:
        """Merge what a worker has learned; the order of one that has seen next to nothing is none that it learned."""
        known = self._learned.get(part)
        if known is not None:
            drops = np.concatenate([known.drops, seed.drops])[-SEED_PROFILES:]
            order = seed.order if rows >= LEARNED_ROWS else known.order
            seed = Seed(order, drops, _merge_costs(known.costs, seed.costs))
        self._learned[part] = seed

    def _load(self, path: Path) -> None:
        self._stamp = state_file.stamp(path)
        if self._stamp is None:
            return
        state = state_file.read(path, STATE_VERSION, self._names, "the state of a filter")
        with state_file.whole(path):
            self._folded = {tuple(part): _entry(e) for part, e in state["folded"]}
            self._recent = {(tuple(part), TaskKey(**key)): _entry(e) for part, key, e in state["recent"]}
            self._take_learned(state)
            self._events.extend(getattr(events, kind)(**_tuples(e)) for kind, e in state["events"])


_opened: dict[Path, Ledger] = {}  # for good: a DataFrame may be run long after its filter is forgotten
_opening = threading.Lock()


def open_ledger(names: tuple[str, ...], state: str | os.PathLike[str] | None = None) -> Ledger:
    """A ledger for a filter; filters with one state folder share one, so that none overwrites what another counts.

    If the state was deleted or exchanged since, it is read anew, and the ledger that was there before writes no more.
    """
    if state is None:
        return Ledger(names)
    folder = state_file.folder(state)
    with _opening:
        known = _opened.get(folder)
        if known is not None and known.serves(names):
            return known
        ledger = Ledger(names, folder)
        if known is not None:
            known.let_go()
        _opened[folder] = ledger
        return ledger


def _merge_costs(old: Floats, new: Floats) -> Floats:
    return np.where(np.isnan(new), old, np.where(np.isnan(old), new, (old + new) / 2))


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {f.name: np.asarray(getattr(tally, f.name)).tolist() for f in fields(Tally)}


def _tally(data: dict[str, Any]) -> Tally:
    whole = {"seen", "passed", "errors", "calls"}
    arrays: dict[str, Any] = {k: np.array(v, dtype=np.int64 if k in whole else np.float64) for k, v in data.items()}
    return Tally(**{k: a if a.ndim else data[k] for k, a in arrays.items()})


def _entry_json(entry: Entry) -> dict[str, Any]:
    routes = [asdict(route) for route in entry.routes.values()]
    return {"tally": _tally_json(entry.tally), "routes": routes, "attempt": entry.attempt}


def _entry(data: dict[str, Any]) -> Entry:
    routes = [RouteState(**_tuples(route)) for route in data["routes"]]
    return Entry(_tally(data["tally"]), {route.tests: route for route in routes}, data["attempt"])


def _kinds(data: list[Any]) -> Kinds:
    return tuple((name, kind) for name, kind in data)


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
