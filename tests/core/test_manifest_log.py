"""Commits: records of ticks and snapshots give the manifest that was committed, whatever happens in between."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import storage
from anabranch.engine import manifest_log
from anabranch.engine.manifest import Manifest, QueryState, StoredFile, StreamState
from anabranch.engine.manifest_log import Follower, ManifestLog, committed, load
from anabranch.engine.tick_records import as_json
from anabranch.errors import QueryError
from anabranch.operators.segments import Segment
from anabranch.planning.placement import HotKey, Placement


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come often."""
    monkeypatch.setattr(manifest_log, "SNAPSHOT_TICKS", 5)


def ticks(seed: int, count: int) -> Iterator[Manifest]:
    """Manifests of one tick after the other, in which all kinds of things change."""
    rng, manifest = random.Random(seed), Manifest(cells=2)
    for number in range(count):
        manifest = manifest.branch()
        manifest.tick += 1
        for name in ("s", "t"):
            state = manifest.streams.setdefault(name, StreamState())
            state.rows += rng.randrange(2)
            kept = [file for file in state.files if rng.random() < 0.8]
            state.files = kept + [StoredFile(f"{name}{number}", 1, number, number, number)] * rng.randrange(2)
        for _ in range(rng.randrange(2)):
            nodes = {1: f"node.{number}", 2: "node.0"}
            manifest.queries[f"q{rng.randrange(4)}"] = QueryState("print", registered=number, nodes=nodes)
        for name in list(manifest.queries):
            query = manifest.queries[name]
            query.position += rng.randrange(2)
            query.origins["s"] = rng.randrange(2)
            if rng.random() < 0.1:
                del manifest.queries[name]
        for node in ("node.0", f"node.{rng.randrange(count)}"):
            logs = manifest.nodes.setdefault(node, {})
            new = Segment(f"{node}/{number}", "inputs", number)
            logs[rng.randrange(2)] = (new,) if rng.random() < 0.2 else (*logs.get(0, ()), new)
        hot = tuple(HotKey(0, -number, each) for each in range(rng.randrange(2)))
        manifest.placements.setdefault(f"node.{rng.randrange(count)}", Placement((2, 1), hot, (number, 3)))
        for node in [each for each in manifest.nodes if rng.random() < 0.1]:
            del manifest.nodes[node]
            manifest.placements.pop(node, None)
        yield manifest


@pytest.mark.parametrize("seed", range(5))
def test_records_and_snapshots_give_what_was_committed(seed: int, tmp_path: Path, early: None) -> None:
    log, follower, rng = ManifestLog(tmp_path), Follower(tmp_path), random.Random(seed)
    for manifest in ticks(seed, 40):
        log.commit(manifest)
        assert load(tmp_path) == as_json(manifest)
        if rng.random() < 0.3:
            assert follower.look() == as_json(manifest)
        if rng.random() < 0.1:
            log = ManifestLog(tmp_path)
            assert log.load(None, 9) == manifest
        assert committed(tmp_path) == manifest.tick
    assert follower.look() == as_json(manifest)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert sum(name.startswith("manifest") for name in names) == 2
    assert sum(name.startswith("tick") for name in names) <= 11


def test_what_is_taken_out_between_ticks_is_gone_with_the_next_record(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    manifest = Manifest(2, 1, {}, {"a": QueryState("a"), "b": QueryState("b")}, {}, {"a.0": {}, "b.0": {}})
    log.commit(manifest)
    del manifest.queries["a"], manifest.nodes["a.0"]
    manifest.queries["c"] = QueryState("c")
    new = replace(manifest.branch(), tick=2)
    log.commit(new)
    assert ManifestLog(tmp_path).load(None, 9) == new
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "manifest-000000000001.json",
        "tick-000000000002.json",
    ]


@pytest.mark.parametrize("operation", ["create", "rename", "remove"])
def test_an_end_between_a_record_and_the_snapshot_loses_nothing(operation: str, tmp_path: Path, early: None) -> None:
    """The process ends before the first such operation after a record is in place, and another one goes on."""
    log, seen, ends = ManifestLog(tmp_path), set[str](), 0

    def die(done: str, path: Path) -> None:
        if "record" in seen and done == operation:
            raise KeyboardInterrupt
        if done == "rename" and path.name.startswith("tick-"):
            seen.add("record")

    for manifest in ticks(3, 30):
        seen.clear()
        try:
            with storage.watching(die):
                log.commit(manifest)
        except KeyboardInterrupt:
            ends += 1
            log = ManifestLog(tmp_path)
            assert log.load(None, 9) == manifest
        assert load(tmp_path) == as_json(manifest)
    assert ends > 2


def test_a_snapshot_that_cannot_be_written_does_not_fail_the_tick(tmp_path: Path, early: None) -> None:
    log = ManifestLog(tmp_path)

    def full(done: str, path: Path) -> None:
        if done == "rename" and path.name.startswith("manifest") and path.stem != "manifest-000000000001":
            raise OSError("No space left on device")

    with storage.watching(full):
        for manifest in ticks(1, 12):
            log.commit(manifest)
    assert load(tmp_path) == as_json(manifest)


def test_a_record_is_as_large_as_what_has_changed(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    queries = {f"q{number}": QueryState("print") for number in range(1000)}
    log.commit(Manifest(2, 1, {"s": StreamState()}, queries))
    new = Manifest(2, 1, {"s": StreamState()}, queries).branch()
    new.tick, new.queries["q7"].rows = 2, 5
    log.commit(new)
    snapshot, record = (path.stat().st_size for path in sorted(tmp_path.iterdir()))
    assert record < 200 < 100_000 < snapshot


def test_another_version_is_refused_in_snapshots_and_records(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    for manifest in ticks(2, 2):
        log.commit(manifest)
    for path in sorted(tmp_path.iterdir()):
        text = path.read_text()
        path.write_text(text.replace('"version": 10', '"version": 9'))
        with pytest.raises(QueryError, match=r"is of another version of this library: its format .*\n  hint: finish"):
            ManifestLog(tmp_path).load(None, 9)
        path.write_text(text)
