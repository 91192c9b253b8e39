"""The hub: one thread that looks at the engine a few times a second, and what it has seen, for all clients at once.

Requests are answered from what the hub holds: however many clients there are, the engine is asked as often. The hub
asks for values that any thread may take (`Engine.overview`, `Engine.recent_ticks`, `Filter.events`), waits for no tick,
and looks the less often the longer a look takes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from anabranch.console.decisions import Card, FilterLog, measured, totals
from anabranch.errors import in_a_line

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine
    from anabranch.spark.filters.filter import Filter

log = logging.getLogger("anabranch.console")
LOOK_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
SHARE = 0.01
"""Of a processor's time that is spent looking."""
MOST_TICKS = 600
MOST_VALUES = 200_000
"""Values of history that are held, over all ticks."""
MOST_CARDS = 2_000
REPORT_SECONDS = 0.4
KINDS = ("streams", "relations", "queries", "operators")
BUILT_IN = ("SysStream", "SysQueries")
ENGINE = "engine"
"""What the log of failures of streams and queries is called."""

Key = tuple[str, str, str]
"""Query or "", entity, property."""


@dataclass(frozen=True)
class TickValues:
    """What a tick published on SysStream; `time` is in seconds since 1970."""

    tick: int
    time: float
    values: Mapping[Key, float]


@dataclass(frozen=True)
class Seen:
    """What the hub saw last; `version` grows with every change, `cards` counts all decisions so far.

    `failed` counts queries that have failed; `failure` says why the engine has stopped, if it has.
    """

    version: int = 0
    tick: int = 0
    cards: int = 0
    failed: int = 0
    failure: str | None = None
    overview: Mapping[str, Any] | None = None
    network: Mapping[str, Any] | None = None


class Hub:
    """Looks at an engine, and at filters.

    Parameters
    ----------
    engine
        If there is one.
    """

    def __init__(self, engine: Engine | None) -> None:
        self.engine = engine
        self.began = time.time()
        self.seen = Seen()
        self.cards: deque[Card] = deque(maxlen=MOST_CARDS)
        self.looked_seconds = 0.0
        self._watched: dict[str, Filter] = {}
        self._logs: dict[str, FilterLog] = {}
        self._reports: dict[str, tuple[float, dict[str, Any]]] = {}
        self._history: deque[TickValues] = deque(maxlen=MOST_TICKS)
        self._key: object = None
        self._rows: dict[str, int] = {}
        self._listeners: list[Callable[[Seen], None]] = []
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="anabranch-console-hub", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def watch(self, name: str, watched: Filter) -> None:
        """Look at one more filter, which runs without an engine."""
        self._watched[name] = watched

    def listen(self, listener: Callable[[Seen], None]) -> None:
        """Call a function, from the hub's thread, after every change."""
        self._listeners.append(listener)

    def filters(self) -> dict[str, Filter]:
        """All filters by their ids: the query and a number, or the name under which they are watched."""
        found = dict(self._watched)
        if self.engine is not None:
            for query, filters in self.engine.filters().items():
                found |= {f"{query}/{number}": each for number, each in enumerate(filters, start=1)}
        return found

    def is_of_query(self, id: str) -> bool:
        """Whether a filter belongs to a query, whose columns have numbers behind their names."""
        return id not in self._watched

    def report(self, id: str, of: Filter) -> dict[str, Any]:
        """What a filter has measured, at most some tenths of a second old."""
        made, report = self._reports.get(id, (0.0, {}))
        if not report or time.monotonic() - made > REPORT_SECONDS:
            report = {"id": id, "written": [p.name for p in of.predicates], **measured(of.report())}
            self._reports[id] = (time.monotonic(), report)
        return report

    def reports(self) -> dict[str, dict[str, Any]]:
        """Of all filters."""
        return {id: self.report(id, each) for id, each in self.filters().items()}

    def frames(self, id: str) -> list[dict[str, Any]]:
        """The plan of a filter after each of its decisions."""
        return self._logs[id].frames() if id in self._logs else []

    def since(self, id: str) -> dict[int, dict[str, Any]]:
        """What orders that a filter has left would have cost since, by the number of the decision."""
        filters = self.filters()
        return self._logs[id].since(self.report(id, filters[id])) if id in self._logs and id in filters else {}

    def history(self, since: int = 0) -> list[TickValues]:
        """What ticks have published, oldest first."""
        return [each for each in list(self._history) if each.tick > since]

    def totals(self) -> dict[str, float]:
        """What all filters have saved against their written orders."""
        return totals(self.reports())

    def look(self) -> None:
        """Look once, and tell listeners if something has changed."""
        began = time.thread_time()
        with self._looking:
            changed = self._see()
        self.looked_seconds += time.thread_time() - began
        if changed:
            for listener in list(self._listeners):
                listener(self.seen)

    def look_anew(self) -> None:
        """Look once, and tell listeners: something was set that no look would notice."""
        self._key = object()
        self.look()

    def _run(self) -> None:
        pause = LOOK_SECONDS
        while not self._stopping.wait(pause):
            began = time.thread_time()
            try:
                self.look()
            except Exception:
                log.exception("the console could not look at the engine; it tries again")
            pause = min(max(LOOK_SECONDS, (time.thread_time() - began) / SHARE), LONGEST_PAUSE_SECONDS)

    def _see(self) -> bool:
        old, cards = self.seen, self._new_cards()
        self.cards.extend(cards)
        key = self._registered()
        if key == self._key and not cards and old.version:
            return False
        shown, network, tick = old.overview, old.network, old.tick
        if self.engine is not None and key != self._key:
            shown = self._shown()
            tick = shown["tick"]
            self._remember()
            if old.overview is None or _shape(old.overview) != _shape(shown):
                network = asdict(self.engine.network())
        self._key = key
        failed = sum(each["status"] == "failed" for each in shown["queries"]) if shown else 0
        self.seen = Seen(old.version + 1, tick, old.cards + len(cards), failed, self._failure(), shown, network)
        return True

    def _failure(self) -> str | None:
        failure = None if self.engine is None else self.engine.failure
        return None if failure is None else in_a_line(failure)

    def _registered(self) -> object:
        """What changes whenever an overview would; it takes far less time."""
        if self.engine is None:
            return [self.report(name, each)["rows"] for name, each in self._watched.items()]
        queries = [(each.name, each.status) for each in list(self.engine.queries.values())]
        names = self.engine.registered()
        watched = [self.report(name, each)["rows"] for name, each in self._watched.items()]
        return (self.engine.tick, queries, names, watched, self._failure())

    def _shown(self) -> dict[str, Any]:
        assert self.engine is not None
        found = self.engine.overview()
        return {
            "tick": found.tick,
            "cells": found.cells,
            "views": [{"name": name, "text": text} for name, text in found.views],
            "functions": list(found.functions),
            **{kind: [vars(each) for each in getattr(found, kind)] for kind in KINDS},
        }

    def _new_cards(self) -> list[Card]:
        cards = []
        for id, each in self.filters().items():
            cards += self._logs.setdefault(id, FilterLog(id)).look(each.events(), each.report)
        if self.engine is not None:
            cards += self._logs.setdefault(ENGINE, FilterLog(ENGINE)).look(self.engine.events(), None)
        return cards

    def _remember(self) -> None:
        assert self.engine is not None
        last = self._history[-1].tick if self._history else 0
        for tick, rows in self.engine.recent_ticks(after=last):
            values = {(query or "", entity, name): value for _, _, query, entity, name, value in rows}
            self._history.append(TickValues(tick, rows[0][0].timestamp(), values))
        while len(self._history) > 1 and sum(len(each.values) for each in self._history) > MOST_VALUES:
            self._history.popleft()


def _shape(overview: Mapping[str, Any]) -> object:
    """What the network depends on."""
    return [(each["name"], each["nodes"]) for each in overview["queries"]]
