"""Answers read from a checkpoint without Spark: right at every instant, only what is committed, at a cost that stays.

Checkpoints are written by the engine's own parts: the tasks that write answers, manifests, compaction and marks.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch import storage
from anabranch.engine import compaction as compacting
from anabranch.engine import layout, reader
from anabranch.engine.answer_blocks import BlockFile
from anabranch.engine.answer_files import SUMMARY_ENTRY, AnswerFiles, Kind, fold
from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask
from anabranch.engine.compaction import Compaction, KeptRelation, compaction
from anabranch.engine.descriptions import Description
from anabranch.engine.layout import (
    ANSWERS,
    BLOCKS,
    SUMMARY,
    UNCONFIRMED,
    block_name,
    block_of,
    filed,
    last_tick,
    prefix_of,
)
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.manifest_log import ManifestLog
from anabranch.engine.marks import Marks, write_mark
from anabranch.engine.store import confirm
from anabranch.engine.tick_files import TickFiles
from anabranch.engine.vacuum import Vacuum
from anabranch.errors import QueryError, ResourceError
from anabranch.model.names import OP, TS
from anabranch.operators.base import TIME, WEIGHT
from tiers import tiers

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMP = pa.timestamp("us", "UTC")
Change = tuple[str | None, float | None, int, int]
"""Key, number, time, and 1 or -1."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about power failures."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.setattr(reader, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and compactions come early."""
    monkeypatch.setattr(layout, "FILED_TOGETHER", 5)
    monkeypatch.setattr(compacting, "MOST_PLAIN", 4)
    monkeypatch.setattr(compacting, "MOST_MERGED", 3)
    monkeypatch.setattr(compacting, "LOOK_TICKS", 1)


@dataclass
class Checkpoint:
    """What an engine would have written."""

    folder: Path
    name: str = "busy"
    is_stream: bool = False
    manifest: Manifest = field(default_factory=lambda: Manifest(cells=2))
    retained: bool = False

    def __post_init__(self) -> None:
        self.log = ManifestLog(self.folder)
        self.log.load(None, self.manifest.cells)
        self.saved = self.manifest.tick
        columns = [
            ("k", pa.string()),
            ("n", pa.float64()),
            (TS, STAMP),
            *([] if self.is_stream else [(OP, pa.string())]),
        ]
        self.schema = pa.schema(columns)
        number, tick = self.manifest.new_number(), self.manifest.tick
        self.manifest.queries[self.name] = QueryState(f"print-{self.name}", registered=tick, number=number)
        self.vacuum = Vacuum(self.folder)
        Description("Select ...", self.is_stream, self.schema).save(self.folder, self.name, f"print-{self.name}")

    @property
    def state(self) -> QueryState:
        return self.manifest.queries[self.name]

    @property
    def files(self) -> AnswerFiles:
        state = self.state
        return AnswerFiles(self.folder, state.number, state.registered, state.floor, self.schema, summed=True)

    @property
    def relation(self) -> KeptRelation:
        state = self.state
        about = (state.position, state.registered, state.floor)
        return KeptRelation(state.number, self.schema, *about, retained=self.retained)

    def write(self, changes: Sequence[Change], tick: int) -> list[str]:
        """Files of a tick, a file per cell, which do not count yet."""
        prefix = prefix_of(tick, "abc")
        storage.make_folder((self.folder / ANSWERS / filed(prefix)).parent)
        task = AnswerTask(self.state.number, (("k", "k"), ("n", "n")), changes=not self.is_stream)
        paths: list[str] = []
        for cell in range(self.manifest.cells):
            rows = [each for each in changes if hash(each[:2]) % self.manifest.cells == cell]
            keys, numbers, times, weights = zip(*rows, strict=True) if rows else ((), (), (), ())
            arrays = [pa.array(keys, pa.string()), pa.array(numbers, pa.float64())]
            arrays += [pa.array(times, pa.int64()), pa.array(weights, pa.int64())]
            writer = AnswerFolder(str(self.folder), filed(prefix)).begin()
            writer.write([task], pa.table(arrays, ["k", "n", TIME, WEIGHT]))
            paths += writer.close()
        return paths

    def tick(self, changes: Sequence[Change], position: int, *, save: bool = True) -> None:
        """As the engine does it."""
        self.manifest.tick += 1
        confirm(self.folder, self.write(changes, self.manifest.tick))
        self.state.rows += len(changes)
        self.state.position = position
        if save:
            self.save()
        summed = not self.is_stream and self.state.summed
        due = compaction(self.folder, self.manifest.tick, [self.relation] if summed else [])
        if due is not None:
            due.run()
        write_mark(self.folder, self.manifest)

    def save(self) -> None:
        if self.manifest.tick > self.saved + 1:
            self.log = ManifestLog(self.folder)  # which begins with a snapshot
        self.log.commit(self.manifest.branch())
        self.saved = self.manifest.tick

    def hide_summaries(self, block: int) -> Callable[[], object]:
        """As if none had been written; the one at the end of a block comes back."""
        kept = TickFiles(self.folder).summary(last_tick(block))
        there = kept.read_bytes()
        for path in self.folder.rglob(f"*{SUMMARY}"):
            path.unlink()
        return lambda: kept.write_bytes(there)

    def fold(self, block: int) -> None:
        """Let go of blocks up to one, as the engine does it."""
        self.manifest.queries[self.name] = replace(self.state, floor=last_tick(block))
        self.log = ManifestLog(self.folder)
        self.log.commit(self.manifest.branch())
        self.vacuum.look_at(range(block + 1))
        self.vacuum.run({self.state.number: self.state.floor})


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(microseconds=int(seconds))


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Rows and how often they are there; NaN equals NaN."""
    return Counter(tuple(repr(value) for value in row.values()) for row in table.to_pylist())


def contents(changes: Sequence[Change], before: int | None = None) -> Counter[tuple[object, ...]]:
    found = Counter[tuple[object, ...]]()
    for key, number, time, weight in changes:
        if before is None or time < before:
            found[repr(key), repr(number)] += weight
    return +found


def random_changes(rng: random.Random, held: list[tuple[str | None, float | None]], start: int) -> list[Change]:
    """Of one tick, which takes ten microseconds: rows come, and such as are there go."""
    made: list[Change] = []
    for time in sorted(rng.randrange(start, start + 10) for _ in range(rng.choice([0, 0, 1, 4, 9]))):
        if held and rng.random() < 0.45:
            made.append((*held.pop(rng.randrange(len(held))), time, -1))
        else:
            row = (rng.choice(["a", "b", None]), rng.choice([1.5, 2.0, None, float("nan")]))
            held.append(row)
            made.append((*row, time, 1))
    return made


@pytest.mark.parametrize("seed", tiers(range(6), fast=2))
def test_the_relation_is_right_now_and_at_every_instant(seed: int, tmp_path: Path, small: None) -> None:
    rng = random.Random(seed)
    checkpoint, everything, held = Checkpoint(tmp_path), list[Change](), list[tuple[str | None, float | None]]()
    for number in range(rng.randrange(30, 60)):
        made = random_changes(rng, held, 10 * number)
        everything += made
        checkpoint.tick(made, 10 * number + 10)
    query = ab.open(tmp_path).query("busy")
    assert bag(query.current()) == contents(everything)
    assert query.current().column_names == ["k", "n"]
    for instant in range(0, checkpoint.state.position, 3):
        assert bag(query.at(at(instant))) == contents(everything, instant + 1), instant
    rows = query.rows(since=at(57), until=at(203))
    assert rows[TS].to_pylist() == [at(each[2]) for each in everything if 57 <= each[2] < 203]
    assert len(query.rows()) == len(everything)
    assert any(path.suffix == SUMMARY for path in checkpoint.files.paths_up_to(checkpoint.manifest.tick))


@pytest.mark.parametrize("seed", tiers(range(4), fast=1))
def test_what_is_not_retained_is_folded_and_the_rest_stays_right(seed: int, tmp_path: Path, small: None) -> None:
    rng = random.Random(seed)
    checkpoint = Checkpoint(tmp_path, retained=True)
    everything, held = list[Change](), list[tuple[str | None, float | None]]()
    for number in range(47):
        made = random_changes(rng, held, 10 * number)
        everything += made
        checkpoint.tick(made, 10 * number + 10)
        if number in (21, 33):
            checkpoint.fold(block_of(number) - 2)
    gone = 10 * last_tick(block_of(33) - 2)  # the position after the last tick that was folded
    query = ab.open(tmp_path).query("busy")
    assert bag(query.current()) == contents(everything)
    for instant in range(gone - 1, checkpoint.state.position, 7):
        assert bag(query.at(at(instant))) == contents(everything, instant + 1), instant
    with pytest.raises(QueryError, match=r"is not retained back to 1970-01-01 .*\n  hint: give it a longer retain="):
        query.at(at(gone - 2))
    assert len(query.rows(since=at(gone))) == sum(each[2] >= gone for each in everything)
    assert contents(everything) == bag(fold(query.rows()).select(["k", "n"]))
    assert min(Marks(tmp_path).blocks()) > 0, "marks that lead to nothing are deleted"


def test_without_marks_and_compactions_only_the_cost_differs(tmp_path: Path, small: None) -> None:
    rng = random.Random(5)
    checkpoint, everything, held = Checkpoint(tmp_path), list[Change](), list[tuple[str | None, float | None]]()
    for number in range(40):
        everything += (made := random_changes(rng, held, 10 * number))
        checkpoint.tick(made, 10 * number + 10)
    shutil.rmtree(tmp_path / "marks")
    for path in tmp_path.rglob("*.arrow"):
        path.unlink()
    query = ab.open(tmp_path).query("busy")
    assert bag(query.current()) == contents(everything)
    assert bag(query.at(at(111))) == contents(everything, 112)


def test_rows_of_a_stream_that_come_out_of_order_are_found(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path, is_stream=True)
    checkpoint.state.direct = True
    rng, everything = random.Random(1), list[Change]()
    for number in range(33):
        made = [("a", float(number), max(0, 10 * number + rng.randrange(-40, 60)), 1) for _ in range(3)]
        everything += made
        checkpoint.tick(made, 10 * number - 40)
    query = ab.open(tmp_path).query("busy")
    for first in range(0, 330, 20):
        found = query.rows(since=at(first), until=at(first + 35))
        assert found[TS].to_pylist() == sorted(at(each[2]) for each in everything if first <= each[2] < first + 35)
    for ask in (query.current, lambda: query.at(at(5))):
        with pytest.raises(QueryError, match=r"is a stream, which has no state\n  hint: use rows\(since="):
            ask()


def test_nothing_is_seen_before_it_is_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick([("a", 1.0, 1, 1)], 10)
    query = ab.open(tmp_path).query("busy")
    unconfirmed = checkpoint.write([("b", 1.0, 2, 1)], 1)
    assert all((tmp_path / (path + UNCONFIRMED)).exists() for path in unconfirmed)
    later = checkpoint.write([("c", 1.0, 11, 1)], 2)
    confirm(tmp_path, later)
    assert bag(query.current()) == {("'a'", "1.0"): 1}
    checkpoint.manifest.tick, checkpoint.state.position = 2, 20
    checkpoint.save()
    assert bag(query.current()) == {("'a'", "1.0"): 1, ("'c'", "1.0"): 1}
    assert bag(query.at(at(10))) == {("'a'", "1.0"): 1}


def test_times_that_the_query_does_not_know_are_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.state.since = 5
    checkpoint.tick([("a", 1.0, 6, 1)], 10)
    query = ab.open(tmp_path).query("busy")
    with pytest.raises(
        QueryError, match=r"has answered the time before 1970-01-01 00:00:00\.000010.*\n  hint: use curr"
    ):
        query.at(at(10))
    with pytest.raises(QueryError, match=r"began at 1970-01-01 00:00:00\.000005.*\n  hint: register it with history"):
        query.at(at(4))
    with pytest.raises(QueryError, match=r"^at is .*\n  hint: give a datetime with a time zone"):
        query.at(datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(QueryError, match=r"^since is '2026'"):
        query.rows(since="2026")  # type: ignore[arg-type]


def test_what_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"^there is no checkpoint in .*\n  hint: give the folder of Engine"):
        ab.open(tmp_path / "nowhere")
    with pytest.raises(QueryError, match=r"^the checkpoint cannot be at 'hdfs://node/state'"):
        ab.open("hdfs://node/state")
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick([], 10)
    with pytest.raises(QueryError, match=r"knows no query 'bussy'\n  hint: did you mean 'busy'\?"):
        ab.open(tmp_path).query("bussy")
    shutil.rmtree(tmp_path / "queries")
    with pytest.raises(QueryError, match=r"does not say what query 'busy' answers\n  hint: start its engine once"):
        ab.open(tmp_path).query("busy").current()
    (newest,) = tmp_path.glob("manifest-*.json")
    newest.write_text(newest.read_text().replace('"version": ', '"version": 1'))
    with pytest.raises(QueryError, match=r"is of another version of this library: its format .*\n  hint: finish"):
        ab.open(tmp_path)


def test_queries_are_listed_with_what_the_last_tick_has_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    Checkpoint(tmp_path, "alarms", is_stream=True, manifest=checkpoint.manifest)
    checkpoint.state.status = "running"
    checkpoint.tick([("a", 1.0, 6, 1)], 10)
    found = ab.open(f"file://{tmp_path}").queries()
    assert found == [
        {"query": "busy", "status": "running", "answer": "relation", "up to": at(10), "rows": 1},
        {"query": "alarms", "status": "registered", "answer": "stream", "up to": None, "rows": 0},
    ]


def test_a_query_under_the_name_of_one_that_was_dropped_is_another(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number in range(20):
        checkpoint.tick([("old", 1.0, 10 * number, 1)], 10 * number + 10)
    reading = ab.open(tmp_path).query("busy")
    assert len(reading.current()) == 20
    again = Checkpoint(tmp_path, manifest=checkpoint.manifest)
    for number in range(12):
        again.tick([("new", 1.0, 10 * number, 1)], 10 * number + 10)
    assert bag(reading.current()) == {("'new'", "1.0"): 12}
    assert bag(reading.at(at(35))) == {("'new'", "1.0"): 4}


# -- while the engine deletes


def test_files_that_go_while_they_are_read_are_looked_for_again(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path, retained=True)
    everything: list[Change] = [("a", float(number), 10 * number, 1) for number in range(23)]
    for number, change in enumerate(everything):
        checkpoint.tick([change], 10 * number + 10)
    query = ab.open(tmp_path).query("busy")
    summary = checkpoint.hide_summaries(2)
    done: list[Path] = []

    def engine(operation: str, path: Path) -> None:
        if operation == "read" and path.suffix == BLOCKS and not done:
            done.append(path)
            summary()
            checkpoint.fold(2)

    with storage.watching(engine):
        assert bag(query.current()) == contents(everything)
    assert done


def test_an_answer_is_not_put_together_from_two_lives_of_its_files(tmp_path: Path, small: None) -> None:
    """Folders that are gone when they are listed raise no error by themselves."""
    checkpoint = Checkpoint(tmp_path, retained=True)
    everything: list[Change] = [("a", float(number), 10 * number, 1) for number in range(23)]
    for number, change in enumerate(everything):
        checkpoint.tick([change], 10 * number + 10)
    summary = checkpoint.hide_summaries(2)
    query, looks = ab.open(tmp_path).query("busy"), []

    def engine(operation: str, path: Path) -> None:
        if operation == "list" and path.name == block_name(4):
            looks.append(path)
            if len(looks) == 1:
                summary()
                checkpoint.fold(2)

    with storage.watching(engine):
        assert bag(query.current()) == contents(everything)
    assert len(looks) > 1


def test_files_that_stay_away_are_an_error_in_words(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick([("a", 1.0, 1, 1)], 10)
    query = ab.open(tmp_path).query("busy")

    def lose(operation: str, path: Path) -> None:
        if operation == "read" and path.suffix == BLOCKS:
            raise FileNotFoundError(2, "No such file", str(path))

    with (
        storage.watching(lose),
        pytest.raises(ResourceError, match=r"changed 5 times while it was read.*\n  hint: try"),
    ):
        query.current()


# -- what it costs


def reads(query: reader.QueryReader, ask: str = "current", *args: object) -> Counter[str]:
    """File operations of a question, and the bytes of the files that it opens."""
    seen = Counter[str]()

    def watch(operation: str, path: Path) -> None:
        seen[operation] += 1
        if operation == "read":
            seen["bytes"] += path.stat().st_size if "manifest" not in path.name else 0

    with storage.watching(watch):
        getattr(query, ask)(*args)
    return seen


def counting(number: int) -> list[Change]:
    """Twenty groups are counted: in a tick the counts of two change."""
    changes: list[Change] = []
    for group in (number % 20, number * 7 % 20):
        changes += [(f"g{group}", float(number), 10 * number + group, 1)]
        changes += [(f"g{group}", float(number - 20), 10 * number + group, -1)] if number >= 20 else []
    return changes


def test_the_cost_does_not_grow_with_age(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, manifest=Manifest(cells=1))
    found, past = list[Counter[str]](), list[Counter[str]]()
    for number in range(1_400):
        look = number % 5 == 0 and number % 1_200 > 100
        checkpoint.tick(counting(number), 10 * number + 10, save=look)
        if look and (number < 200 or number > 1_300):
            query = ab.open(tmp_path).query("busy")
            found.append(reads(query))
            past.append(reads(query, "at", at(10 * (number - 60))))
    young, old = found[: len(found) // 2], found[len(found) // 2 :]
    for what in ("read", "list", "bytes"):
        assert max(each[what] for each in old) <= 1.3 * max(each[what] for each in young), what
    assert max(each["read"] for each in found) <= 1 + compacting.MOST_PLAIN + 2 * compacting.LOOK_TICKS + 2
    assert max(each["read"] for each in past) <= 2 * compacting.MOST_PLAIN, "some marks, too"


def test_a_large_relation_that_changes_little_is_not_written_again_and_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick([(f"k{number}", 0.0, 5, 1) for number in range(20_000)], 10)
    for number in range(1, 400):
        checkpoint.tick([(f"k{number}", 1.0, 10 * number, 1)], 10 * number + 10, save=number % 50 == 0)
    checkpoint.save()
    paths = checkpoint.files.paths_up_to(checkpoint.manifest.tick)
    assert kinds(tmp_path.rglob(f"*{SUMMARY}")).count(Kind.SNAPSHOT) == 1
    assert 5 < kinds(paths).count(Kind.MERGED) <= compacting.MOST_MERGED
    plain = [path for path in paths if path.suffix == BLOCKS]
    assert len(plain) < compacting.MOST_PLAIN + 2 * compacting.LOOK_TICKS
    assert len(ab.open(tmp_path).query("busy").current()) == 20_399


def test_an_idle_relation_is_found_in_few_folders(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick([("a", 1.0, 5, 1)], 10)
    for number in range(1, 100):
        checkpoint.tick([], 10 * number + 10)
    query = ab.open(tmp_path).query("busy")
    assert bag(query.current()) == {("'a'", "1.0"): 1}
    assert reads(query)["list"] <= 4
    assert bag(query.at(at(205))) == {("'a'", "1.0"): 1}


def test_a_compaction_runs_as_a_task(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number in range(3):
        checkpoint.tick(counting(number), 10 * number + 10)
    assert compaction(tmp_path, 3, [checkpoint.relation]) is None
    made = Compaction(tmp_path, 3, None, tuple(checkpoint.files.plain(1, 3)), (checkpoint.relation,))
    assert made.bytes > 0
    (reported,) = pickle.loads(pickle.dumps(made))(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    written = Path(reported.to_pylist()[0]["path"])
    assert checkpoint.files.paths_up_to(3) == [written]
    assert kinds([written]) == [Kind.SNAPSHOT]


def kinds(paths: Iterable[Path]) -> list[int]:
    """What summaries have of queries."""
    found = []
    for path in paths:
        if path.suffix == SUMMARY:
            with BlockFile(path, SUMMARY_ENTRY) as file:
                found += file.index["kind"].tolist()
    return found


def test_changes_alone_are_added_up_and_what_is_not_kept_is_refused(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.manifest.queries["busy"] = replace(checkpoint.state, materialise="matches")
    everything: list[Change] = []
    for number in range(12):
        everything += counting(number)
        checkpoint.tick(counting(number), 100 * number + 100)
    assert kinds(tmp_path.rglob(f"*{SUMMARY}")) == []
    query = ab.open(tmp_path).query("busy")
    assert bag(query.current()) == contents(everything)
    assert query.filled_since is None
    checkpoint.manifest.queries["busy"] = replace(checkpoint.state, materialise="none", since=7)
    checkpoint.tick([], 9000)
    for ask in (query.current, query.rows, lambda: query.at(at(50))):
        with pytest.raises(
            QueryError, match=r"nothing is kept of the answer of query 'busy'\n  hint: register it with"
        ):
            ask()
    assert query.filled_since == at(7)


def test_a_rule_is_read_by_its_key(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    Checkpoint(tmp_path, "alarms", is_stream=True, manifest=checkpoint.manifest)
    checkpoint.tick([("a", 1.0, 1, 1), ("b", 2.0, 2, 1), ("a", 1.0, 3, -1), ("a", 5.0, 3, 1)], 10)
    opened = ab.open(tmp_path)
    assert opened.rules("busy")["a"].current().to_pydict() == {"n": [5.0]}
    with pytest.raises(QueryError, match=r"the answers of rules 'alarms' are a stream\n  hint: say of which time"):
        opened.rules("alarms")["a"].current()
    assert opened.rules("alarms")["a"].current(window="1 hour").num_rows == 0


def test_what_a_dropped_query_has_answered_goes_in_time(tmp_path: Path, small: None) -> None:
    checkpoint = Checkpoint(tmp_path)
    gone = Checkpoint(tmp_path, "gone", manifest=checkpoint.manifest)
    tasks = [AnswerTask(each.state.number, (("k", "k"), ("n", "n")), changes=True) for each in (checkpoint, gone)]
    for tick in range(1, 21):
        prefix = prefix_of(tick, "abc")
        storage.make_folder((tmp_path / ANSWERS / filed(prefix)).parent)
        writer = AnswerFolder(str(tmp_path), filed(prefix)).begin()
        for task, rows in zip(tasks, (1 if tick % 2 else 0, 500), strict=True):
            arrays = [pa.array([f"k{n}" for n in range(rows)]), pa.array([float(tick)] * rows)]
            arrays += [pa.array([10 * tick] * rows, pa.int64()), pa.array([1] * rows, pa.int64())]
            writer.write([task], pa.table(arrays, ["k", "n", TIME, WEIGHT]))
        confirm(tmp_path, writer.close())
        checkpoint.manifest.tick, checkpoint.state.position = tick, 10 * tick + 10
        due = compaction(tmp_path, tick, [checkpoint.relation, gone.relation])
        if due is not None:
            due.run()
    checkpoint.log.commit(checkpoint.manifest.branch())
    query = ab.open(tmp_path).query("busy")
    before, size = bag(query.current()), sum(path.stat().st_size for path in storage.files(tmp_path / ANSWERS))
    assert sum(before.values()) == 10
    del checkpoint.manifest.queries["gone"]
    checkpoint.vacuum.run({checkpoint.state.number: 0})
    assert bag(query.current()) == before == bag(fold(query.rows()).select(["k", "n"]))
    assert bag(query.at(at(95))) == Counter({("'k0'", f"{n}.0"): 1 for n in (1, 3, 5, 7, 9)})
    left = [path for path in storage.files(tmp_path / ANSWERS) if path.suffix == BLOCKS]
    assert len(left) == 10, "files with nothing else in them are deleted"
    assert sum(path.stat().st_size for path in storage.files(tmp_path / ANSWERS)) < size / 4


def test_reading_imports_no_spark(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.tick(counting(1), 20)
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"pyspark", "py4j", "pandas", "sqlglot"}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import anabranch as ab
print(ab.open({str(tmp_path)!r}).query("busy").current().num_rows)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "2", done.stderr
