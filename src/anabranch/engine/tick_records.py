"""What a tick has changed: the difference of two manifests, as JSON, and a manifest with it applied.

A record has the fields that differ of each state, and of lists which elements went and which came at the end: its size
is that of what has changed, not of what is registered.

>>> from anabranch.operators.segments import Segment
>>> old, new = (Manifest(2, tick, {"s": StreamState(rows=rows)}) for tick, rows in ((7, 100), (8, 150)))
>>> new.nodes["f00d.0"] = {1: (Segment("8-a-1.log", "inputs", 640),)}
>>> record = changes(old, new)
>>> record["streams"]
{'s': {'rows': 150}}
>>> applied(as_json(old), record) == as_json(new)
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from anabranch.engine.manifest import Logs, Manifest, QueryState, StreamState
from anabranch.planning.placement import Placement

FILES, DROPPED, ADDED = "files", "dropped", "added"
PARTS = ("streams", "queries", "relations", "nodes", "placements")


def as_json(manifest: Manifest) -> dict[str, Any]:
    """All that a manifest says."""
    return {
        "cells": manifest.cells,
        "tick": manifest.tick,
        "numbers": manifest.numbers,
        "streams": {name: asdict(state) for name, state in manifest.streams.items()},
        "queries": {name: _query(state) for name, state in manifest.queries.items()},
        "relations": {name: asdict(state) for name, state in manifest.relations.items()},
        "nodes": {node: _logs(logs) for node, logs in manifest.nodes.items()},
        "placements": {node: _placement(placement) for node, placement in manifest.placements.items()},
    }


def changes(old: Manifest, new: Manifest) -> dict[str, Any]:
    """What differs; `gone` has the names of what is not there any more."""
    gone = {part: [name for name in getattr(old, part) if name not in getattr(new, part)] for part in PARTS}
    return {
        "tick": new.tick,
        "numbers": new.numbers,
        "streams": _differing({n: _stream_change(old.streams.get(n), state) for n, state in new.streams.items()}),
        "queries": _differing({n: _query_change(old.queries.get(n), state) for n, state in new.queries.items()}),
        "relations": {n: asdict(state) for n, state in new.relations.items() if state != old.relations.get(n)},
        "nodes": _differing({n: _logs_change(old.nodes.get(n), logs) for n, logs in new.nodes.items()}),
        "placements": {n: _placement(p) for n, p in new.placements.items() if p != old.placements.get(n)},
        "gone": {part: names for part, names in gone.items() if names},
    }


def applied(saved: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest, as JSON, brought up to a record of the tick after it; what was given stays as it is."""
    new = {**saved, "tick": record["tick"], "numbers": record["numbers"], **{part: dict(saved[part]) for part in PARTS}}
    for part, names in record["gone"].items():
        for name in names:
            del new[part][name]
    for name, changed in record["streams"].items():
        state = new["streams"].get(name, {FILES: []})
        files = _list_applied(state[FILES], changed[FILES]) if FILES in changed else state[FILES]
        new["streams"][name] = state | changed | {FILES: files}
    for name, changed in record["queries"].items():
        new["queries"][name] = new["queries"].get(name, {}) | changed
    new["relations"] |= record["relations"]
    new["placements"] |= record["placements"]
    for node, changed in record["nodes"].items():
        logs = new["nodes"].get(node, {})
        cells = {cell: _list_applied(logs.get(cell, []), change) for cell, change in changed.items()}
        new["nodes"][node] = logs | cells
    return new


def _differing(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: change for name, change in found.items() if change is not None}


def _stream_change(old: StreamState | None, new: StreamState) -> dict[str, Any] | None:
    if old is None:
        return asdict(new) | {FILES: _list_change((), new.files)}
    if old == new:
        return None
    changed = _fields(old, new)
    return changed | {FILES: _list_change(old.files, new.files)} if FILES in changed else changed


def _query_change(old: QueryState | None, new: QueryState) -> dict[str, Any] | None:
    if old is None:
        return _query(new)
    return None if old == new else _with_texts(_fields(old, new))


def _logs_change(old: Logs | None, new: Logs) -> dict[str, Any] | None:
    if old is None:
        return {str(cell): _list_change((), log) for cell, log in new.items()}
    found = {str(cell): _list_change(old.get(cell, ()), log) for cell, log in new.items() if log != old.get(cell)}
    return found or None


def _list_change(old: Sequence[Any], new: Sequence[Any]) -> dict[str, Any]:
    """Which elements went, by their places, and which came; they come at the end."""
    if new[: len(old)] == old:
        return {DROPPED: [], ADDED: [asdict(each) for each in new[len(old) :]]}
    there = set(new)
    dropped = [place for place, each in enumerate(old) if each not in there]
    kept = [each for each in old if each in there]
    if list(new[: len(kept)]) != kept:
        dropped, kept = list(range(len(old))), []
    return {DROPPED: dropped, ADDED: [asdict(each) for each in new[len(kept) :]]}


def _list_applied(old: Sequence[Any], change: Mapping[str, Any]) -> list[Any]:
    dropped = set(change[DROPPED])
    return [*(each for place, each in enumerate(old) if place not in dropped), *change[ADDED]]


def _fields(old: StreamState | QueryState, new: StreamState | QueryState) -> dict[str, Any]:
    pairs = ((each.name, getattr(old, each.name), getattr(new, each.name)) for each in fields(new))
    return {name: there for name, before, there in pairs if before != there}


def _query(state: QueryState) -> dict[str, Any]:
    return _with_texts(asdict(state))


def _with_texts(state: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: keys of maps are texts."""
    nodes = {str(stage): node for stage, node in state.get("nodes", {}).items()}
    return state | {"nodes": nodes} if "nodes" in state else state


def _logs(logs: Logs) -> dict[str, Any]:
    return {str(cell): [asdict(segment) for segment in log] for cell, log in logs.items()}


def _placement(placement: Placement) -> dict[str, Any]:
    hot = [asdict(each) for each in placement.hot]
    return {"sizes": list(placement.sizes), "hot": hot, "rows": list(placement.rows)}
