"""What the tasks of a filter report, merged on the driver so that each task counts once.

A task sends one record when it ends, through a Spark accumulator. Records are kept under the task's identity: a retried
or re-run task replaces its earlier record instead of adding to it, and a micro-batch that is replayed after a restart
replaces what the interrupted run had counted. Old records are folded into running totals, so memory stays bounded.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.accumulators import AccumulatorParam

from anabranch import events
from anabranch.errors import QueryError
from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Tally

RECENT_RECORDS = 4096
RECENT_EVENTS = 10_000
SEED_PROFILES = 2000
SAVE_INTERVAL_SECONDS = 1.0
STATE_FILE = "filter.json"
STATE_VERSION = 1


Part = tuple[int, ...]
"""A stage of a filter: the positions of its predicates in the written list."""


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
    """

    key: TaskKey
    part: Part
    tally: Tally
    attempt: int = 0
    events: tuple[events.Event, ...] = ()
    learned: Seed | None = None


class LedgerParam(AccumulatorParam[Any]):
    """Workers send lists of records; the driver's value is the ledger itself."""

    def zero(self, value: Any) -> Any:
        """An empty list, for a worker."""
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - the name is Spark's
        """Append on a worker, enter into the ledger on the driver."""
        if isinstance(value1, Ledger):
            value1.enter(value2)
            return value1
        return [*value1, *value2]


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
        self._folded: dict[Part, Tally] = {}
        self._recent: dict[tuple[Part, TaskKey], tuple[int, Tally]] = {}
        self._events: deque[events.Event] = deque(maxlen=RECENT_EVENTS)
        self._learned: dict[Part, Seed] = {}
        self._path = None if state is None else Path(state) / STATE_FILE
        self._saved = 0.0
        if self._path is not None:
            _require_folder(self._path.parent)
            self._load(self._path)

    def enter(self, records: Iterable[TaskRecord]) -> None:
        """Take in records; one of the same task, or of an earlier run of the same micro-batch, is replaced."""
        with self._lock:
            for record in records:
                self._forget_other_runs(record)
                self._folded.setdefault(record.part, Tally.empty(len(record.part)))
                self._enter_one(record)
                self._events.extend(record.events)
                if record.learned is not None:
                    self._learn(record.part, record.learned)
            while len(self._recent) > RECENT_RECORDS:
                part, key = next(iter(self._recent))
                _add(self._folded[part], self._recent.pop((part, key))[1])
            if time.monotonic() - self._saved > SAVE_INTERVAL_SECONDS:
                self.save()

    def note(self, event: events.Event) -> None:
        """Enter a decision that was made on the driver."""
        with self._lock:
            self._events.append(event)

    def totals(self) -> dict[Part, Tally]:
        """Counts and times of every stage over all tasks."""
        with self._lock:
            totals = {part: Tally.empty(len(part)) for part in self._folded}
            for part, tally in (*self._folded.items(), *((p, t) for (p, _), (_, t) in self._recent.items())):
                _add(totals[part], tally)
            return totals

    def events(self) -> tuple[events.Event, ...]:
        """Decisions so far, in the order in which they reached the driver."""
        with self._lock:
            return tuple(self._events)

    def learned(self, part: Part) -> Seed | None:
        """What all tasks learned, merged, as the seed of the next run."""
        with self._lock:
            return self._learned.get(part)

    def save(self) -> None:
        """Write the state folder, atomically."""
        self._saved = time.monotonic()
        if self._path is None:
            return
        with self._lock:
            state = {
                "version": STATE_VERSION,
                "names": self._names,
                "folded": [[part, _tally_json(t)] for part, t in self._folded.items()],
                "recent": [[part, asdict(key), a, _tally_json(t)] for (part, key), (a, t) in self._recent.items()],
                "learned": [[part, _seed_json(s)] for part, s in self._learned.items()],
                "events": [[type(e).__name__, asdict(e)] for e in self._events],
            }
        scratch = self._path.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text(json.dumps(state))
        os.replace(scratch, self._path)

    def _enter_one(self, record: TaskRecord) -> None:
        attempt, tally = self._recent.get((record.part, record.key), (record.attempt, Tally.empty(len(record.part))))
        if attempt != record.attempt:
            tally = Tally.empty(len(record.part))
        _add(tally, record.tally)
        self._recent[record.part, record.key] = record.attempt, tally

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

    def _learn(self, part: Part, seed: Seed) -> None:
        known = self._learned.get(part)
        if known is not None:
            drops = np.concatenate([known.drops, seed.drops])[-SEED_PROFILES:]
            seed = replace(seed, drops=drops, costs=_merge_costs(known.costs, seed.costs))
        self._learned[part] = seed

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            state = json.loads(path.read_text())
            version, names = state["version"], tuple(state["names"])
        except (ValueError, KeyError) as error:
            raise QueryError(f"{path} is not the state of a filter", hint="choose another folder") from error
        if version != STATE_VERSION or names != self._names:
            raise QueryError(
                f"{path} holds the state of another filter (version {version}, predicates {', '.join(names)})",
                hint="choose another state folder, or delete this one to start anew",
            )
        self._folded = {tuple(part): _tally(t) for part, t in state["folded"]}
        self._recent = {(tuple(part), TaskKey(**key)): (a, _tally(t)) for part, key, a, t in state["recent"]}
        self._learned = {tuple(part): _seed(s) for part, s in state["learned"]}
        self._events.extend(getattr(events, kind)(**_tuples(e)) for kind, e in state["events"])


def _require_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QueryError(f"{path} cannot be a state folder: {error.strerror}", hint="choose another folder") from error


def _add(total: Tally, part: Tally) -> None:
    for f in fields(Tally):
        setattr(total, f.name, getattr(total, f.name) + getattr(part, f.name))


def _merge_costs(old: Floats, new: Floats) -> Floats:
    return np.where(np.isnan(new), old, np.where(np.isnan(old), new, (old + new) / 2))


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {f.name: np.asarray(getattr(tally, f.name)).tolist() for f in fields(Tally)}


def _tally(data: dict[str, Any]) -> Tally:
    whole = {"seen", "passed", "errors", "calls"}
    arrays: dict[str, Any] = {k: np.array(v, dtype=np.int64 if k in whole else np.float64) for k, v in data.items()}
    return Tally(**{k: a if a.ndim else data[k] for k, a in arrays.items()})


def _seed_json(seed: Seed) -> dict[str, Any]:
    bits = ["".join("1" if b else "0" for b in row) for row in seed.drops]
    return {"order": seed.order, "drops": bits, "costs": [None if np.isnan(c) else c for c in seed.costs]}


def _seed(data: dict[str, Any]) -> Seed:
    costs = np.array([np.nan if c is None else c for c in data["costs"]], dtype=float)
    drops: BoolMatrix = np.array([[b == "1" for b in row] for row in data["drops"]], dtype=np.bool_)
    return Seed(tuple(data["order"]), drops.reshape(-1, len(costs)), costs)


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
