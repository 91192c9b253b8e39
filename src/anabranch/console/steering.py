"""Steering: properties that can be changed while queries run, and the way back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.config import OrderingConfig
from anabranch.console.hub import BUILT_IN, Hub
from anabranch.console.results import plain
from anabranch.errors import QueryError, suggest
from anabranch.model.stream_times import AutoSkew
from anabranch.model.time_units import in_words
from anabranch.routing import policies

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine
    from anabranch.spark.filters.filter import Filter
    from anabranch.spark.filters.filter_settings import RivalPlan

MOST_STEPS = 100


@dataclass(frozen=True)
class Step:
    """A change that was made, and what takes it back."""

    time: float
    what: str
    before: object
    after: object
    undo: Callable[[], None]

    def shown(self) -> dict[str, Any]:
        """Without the way back."""
        return {"time": self.time, "what": self.what, "before": self.before, "after": self.after}


class Steering:
    """Changes settings of an engine and of filters; the last change can be taken back, then the one before it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._steps: deque[Step] = deque(maxlen=MOST_STEPS)

    def settings(self) -> dict[str, Any]:
        """What can be changed, and how it is set."""
        engine = self._hub.engine
        return {
            "state_bytes": None if engine is None else engine.state_bytes,
            "cache_bytes": None if engine is None else engine.cache_bytes,
            "policies": list(policies.NAMES),
            "filters": [_filter_settings(id, each) for id, each in self._hub.filters().items()],
            "queries": []
            if engine is None
            else [{"name": q.name, "status": q.status, "share": q.share} for q in [*engine.queries.values()]],
            "streams": _stream_settings(self._hub),
            "steps": [step.shown() for step in reversed([*self._steps])],
        }

    def change(self, wanted: Mapping[str, Any]) -> str:
        """Change one setting; returns what was done."""
        with self._lock:
            if "filter" in wanted:
                return self._of_filter(wanted)
            if "query" in wanted and "share" in wanted:
                return self._share(wanted["query"], share=wanted["share"])
            if "query" in wanted and "trace" in wanted:
                return self._trace_joins(wanted["query"], wanted["trace"])
            if "query" in wanted:
                return self._status(wanted["query"], wanted.get("status", ""))
            if "stream" in wanted:
                return self._skew(wanted["stream"], wanted.get("skew", ""))
            if "cache_bytes" in wanted:
                return self._caches(wanted["cache_bytes"])
            if "state_bytes" in wanted:
                return self._memory(wanted["state_bytes"])
        raise QueryError(
            "nothing to change",
            hint="give filter and policy, query and status, share or trace, stream and skew, state_bytes, cache_bytes",
        )

    def undo(self) -> str:
        """Take the last change back."""
        with self._lock:
            if not self._steps:
                raise QueryError("there is nothing to undo", hint="change something first")
            step = self._steps[-1]
            step.undo()
            self._steps.pop()
        return f"{step.what}: {step.before} again"

    def _engine(self) -> Engine:
        if self._hub.engine is None:
            raise QueryError("there is no engine", hint="this console watches filters")
        return self._hub.engine

    def _note(self, what: str, before: object, after: object, undo: Callable[[], None]) -> str:
        self._steps.append(Step(time.time(), what, before, after, undo))
        return f"{what}: {after} instead of {before}"

    def _of_filter(self, wanted: Mapping[str, Any]) -> str:
        id, filters = wanted["filter"], self._hub.filters()
        if id not in filters:
            raise QueryError(f"there is no filter {id!r}", hint=suggest(id, list(filters), "filters"))
        of = filters[id]
        if "trace" in wanted:
            before, share = of.trace_share, wanted["trace"]
            self._between_ticks(partial(of.trace, share))
            undo = partial(self._between_ticks, partial(of.trace, before))
            return self._note(f"share of traced rows of {id}", before, share, undo)
        if "rival" in wanted:
            return self._compare(id, of, wanted["rival"])
        return self._use(id, of, wanted)

    def _compare(self, id: str, of: Filter, rival: Mapping[str, Any] | None) -> str:
        """Begin or end to compare a plan with that in use."""
        before = of.rival

        def again() -> None:
            if before is None:
                of.compare(None)
            else:
                of.compare(before.policy, before.config, before.order)

        given = {} if rival is None else {"order": rival.get("order")}
        self._between_ticks(partial(of.compare, None if rival is None else rival["policy"], None, **given))
        undo = partial(self._between_ticks, again)
        return self._note(f"rival of {id}", _plan(before), _plan(of.rival), undo)

    def _between_ticks(self, change: Callable[[], None]) -> None:
        """Change a filter; in an engine it holds from the next tick on."""
        if self._hub.engine is None:
            change()
        else:
            self._hub.engine.between_ticks(change)

    def _use(self, id: str, of: Filter, wanted: Mapping[str, Any]) -> str:
        policy, config, order = of.policy, of.config, of.order
        new_policy = wanted.get("policy", policy)
        changes = wanted.get("config") or {}
        known = [each.name for each in fields(OrderingConfig)]
        for name in changes:
            if name not in known:
                raise QueryError(f"a filter has no setting {name!r}", hint=suggest(name, known, "settings"))
        base = asdict(config) if new_policy == policy else asdict(OrderingConfig.for_policy(new_policy))
        new_config = OrderingConfig(**(base | changes))

        new_order = wanted.get("order", order if new_policy == "fixed" else None)
        self._between_ticks(partial(of.use, new_policy, new_config, new_order))
        before, after = _told(policy, config, order, changes), _told(new_policy, new_config, of.order, changes)
        undo = partial(self._between_ticks, partial(of.use, policy, config, order))
        return self._note(f"filter {id}", before, after, undo)

    def _status(self, name: str, status: str) -> str:
        engine = self._hub.engine
        if engine is None or name not in engine.queries:
            raise QueryError(f"there is no query {name!r}", hint="see /api/queries")
        query = engine.queries[name]
        ways: dict[str, tuple[str, Callable[[], None], Callable[[], None]]] = {
            "paused": ("running", query.pause, query.resume),
            "running": ("paused", query.resume, query.pause),
        }
        if status not in ways:
            raise QueryError(f"{status!r} is not a status to set", hint="paused or running")
        before, do, undo = ways[status]
        do()
        return self._note(f"query {name}", before, status, undo)

    def _share(self, name: str, *, share: bool) -> str:
        """Let a query share operators, or have its own."""
        engine = self._engine()
        before = engine.queries[name].share if name in engine.queries else True
        engine.share(name, share=share)
        return self._note(f"sharing of {name}", before, share, lambda: engine.share(name, share=before))

    def _trace_joins(self, name: str, share: float) -> str:
        """Let joins of a query tell of some rows which partners they meet."""
        queries = self._engine().queries
        if name not in queries:
            raise QueryError(f"there is no query {name!r}", hint="see /api/joins")
        before = queries[name].join_trace
        queries[name].trace_joins(share)
        undo = partial(queries[name].trace_joins, before)
        return self._note(f"share of traced rows of joins of {name}", before, share, undo)

    def _skew(self, name: str, skew: str) -> str:
        """Let rows of a stream be more, or less, out of order."""
        engine = self._engine()
        before = engine.set_skew(name, skew)

        def undo() -> None:
            engine.set_skew(name, before)

        return self._note(f"skew of {name}", _skew_told(before), skew, undo)

    def _memory(self, state_bytes: int | None) -> str:
        engine = self._engine()
        before = engine.state_bytes
        engine.hold(state_bytes)
        return self._note("state_bytes", before, state_bytes, lambda: engine.hold(before))

    def _caches(self, cache_bytes: int) -> str:
        engine = self._engine()
        before = engine.cache_bytes
        engine.hold_caches(cache_bytes)
        return self._note("cache_bytes", before, cache_bytes, lambda: engine.hold_caches(before))


def _told(policy: str, config: OrderingConfig, order: Sequence[str] | None, changes: Mapping[str, Any]) -> str:
    """A policy, with its pinned order and the parameters that a change is about."""
    parts = [f"{name} {getattr(config, name)}" for name in changes]
    return ", ".join([policy, *([" -> ".join(order)] if order else []), *parts])


def _skew_told(skew: timedelta | AutoSkew) -> str:
    """A skew, for people.

    >>> _skew_told(timedelta(seconds=90)), _skew_told(AutoSkew())
    ('90 seconds', 'auto')
    """
    if isinstance(skew, AutoSkew):
        return "auto"
    return in_words(skew // timedelta(microseconds=1)) if skew else "0 seconds"


def _stream_settings(hub: Hub) -> list[dict[str, Any]]:
    """Streams whose skew can be set: those whose rows bring their time."""
    found = (hub.seen.overview or {}).get("streams", ())
    own = [each for each in found if each["timestamp"] is not None and each["name"] not in BUILT_IN]
    return [{key: each[key] for key in ("name", "skew", "may_be_late", "suggested_skew", "late")} for each in own]


def _plan(rival: RivalPlan | None) -> str | None:
    """A rival, for people."""
    return None if rival is None else _told(rival.policy, rival.config, rival.order, {})


def _filter_settings(id: str, of: Filter) -> dict[str, Any]:
    """How a filter is set, and what came out of a comparison."""
    found = of.comparison()
    return {
        "id": id,
        "policy": of.policy,
        "config": asdict(of.config),
        "order": of.order,
        "predicates": [p.name for p in of.predicates],
        "trace": of.trace_share,
        "rival": _plan(of.rival),
        "rival_plan": None if of.rival is None else {"policy": of.rival.policy, "order": of.rival.order},
        "comparison": None if found is None else {name: plain(value) for name, value in vars(found).items()},
    }
