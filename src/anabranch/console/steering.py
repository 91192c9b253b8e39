"""Steering: properties that can be changed while queries run, and the way back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from anabranch.config import OrderingConfig
from anabranch.console.hub import Hub
from anabranch.errors import QueryError, suggest
from anabranch.routing import policies

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
            "policies": list(policies.NAMES),
            "filters": [
                {"id": id, "policy": each.policy, "config": asdict(each.config)}
                for id, each in self._hub.filters().items()
            ],
            "queries": []
            if engine is None
            else [{"name": q.name, "status": q.status} for q in [*engine.queries.values()]],
            "steps": [step.shown() for step in reversed([*self._steps])],
        }

    def change(self, wanted: Mapping[str, Any]) -> str:
        """Change one setting; returns what was done."""
        with self._lock:
            if "filter" in wanted:
                return self._filter(wanted)
            if "query" in wanted:
                return self._status(wanted["query"], wanted.get("status", ""))
            if "state_bytes" in wanted:
                return self._memory(wanted["state_bytes"])
        raise QueryError("nothing to change", hint="give filter and policy, query and status, or state_bytes")

    def undo(self) -> str:
        """Take the last change back."""
        with self._lock:
            if not self._steps:
                raise QueryError("there is nothing to undo", hint="change something first")
            step = self._steps[-1]
            step.undo()
            self._steps.pop()
        return f"{step.what}: {step.before} again"

    def _note(self, what: str, before: object, after: object, undo: Callable[[], None]) -> str:
        self._steps.append(Step(time.time(), what, before, after, undo))
        return f"{what}: {after} instead of {before}"

    def _filter(self, wanted: Mapping[str, Any]) -> str:
        id, filters = wanted["filter"], self._hub.filters()
        if id not in filters:
            raise QueryError(f"there is no filter {id!r}", hint=suggest(id, list(filters), "filters"))
        of = filters[id]
        policy, config = of.policy, of.config
        new_policy = wanted.get("policy", policy)
        changes = wanted.get("config") or {}
        known = [each.name for each in fields(OrderingConfig)]
        for name in changes:
            if name not in known:
                raise QueryError(f"a filter has no setting {name!r}", hint=suggest(name, known, "settings"))
        base = asdict(config) if new_policy == policy else asdict(OrderingConfig.for_policy(new_policy))
        new_config = OrderingConfig(**(base | changes))

        def use(policy: str, config: OrderingConfig) -> None:
            if self._hub.engine is None:
                of.use(policy, config)
            else:
                self._hub.engine.use_policy(of, policy, config)

        use(new_policy, new_config)
        before, after = _told(policy, config, changes), _told(new_policy, new_config, changes)
        return self._note(f"filter {id}", before, after, lambda: use(policy, config))

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

    def _memory(self, state_bytes: int | None) -> str:
        engine = self._hub.engine
        if engine is None:
            raise QueryError("there is no engine", hint="this console watches filters")
        before = engine.state_bytes
        engine.hold(state_bytes)
        return self._note("state_bytes", before, state_bytes, lambda: engine.hold(before))


def _told(policy: str, config: OrderingConfig, changes: Mapping[str, Any]) -> str:
    """A policy, with the parameters that a change is about."""
    parts = [f"{name} {getattr(config, name)}" for name in changes]
    return ", ".join([policy, *parts])
