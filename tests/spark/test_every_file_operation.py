"""A kill before every file operation of a tick, each once: nothing is lost, nothing comes twice.

Every case begins with a copy of the same checkpoint. An engine goes on from there and is killed at its n-th operation;
another one on the same checkpoint comes to the end. Ticks differ in what they do: see `KINDS`.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

import anabranch as ab
from anabranch import storage
from anabranch.cql.dialect import parse_query
from anabranch.engine import compaction, layout, log_files, manifest_log, retention
from anabranch.engine.merging import worth_merging
from anabranch.model.names import OP, TS
from cql.answers import before, expected
from cql.oracle import Oracle
from cql.streams import Row, Stream
from seeds import daily_seed
from spark import dying
from spark.dying import NEVER, Driver, watched_workers
from spark.killed_engine import QUERIES, SCHEMA
from spark.two_streams import ARROW, BEGIN, SKEW, ZERO, delivered, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)

NAMES = ("lefts", "rights")
PICKED = {"picked": QUERIES["picked"], "others": "Select k, a From rights Where a < 5"}
NEW = 2
"""Files of each stream that the tick brings."""
FULL = "a kill at each of some hundred operations takes minutes"


@dataclass(frozen=True)
class Kind:
    """A kind of tick.

    Parameters
    ----------
    at_least, at_least_by_workers
        Operations that it takes, about.
    files
        Of each stream that have been answered before it.
    queries
        Those that run.
    dropped
        The query that is dropped after the tick.
    housekeeping
        Whether everything that is done now and then is done in every tick: snapshots of logs, one file instead of
        several, blocks of answers that end and are folded; some rows are late.
    """

    at_least: int
    at_least_by_workers: int
    files: int = 2
    queries: Mapping[str, str] = field(default_factory=lambda: QUERIES)
    dropped: str | None = None
    housekeeping: bool = False


KINDS = {
    "the first": Kind(40, 8, files=0),
    "one with housekeeping": Kind(80, 20, files=3, housekeeping=True),
    "one of rows that are answered as they come": Kind(15, 1, queries=PICKED),
    "one after which a query is dropped": Kind(45, 10, dropped="slid"),
}


@dataclass
class World:
    """The files of two streams, and the checkpoint of an engine that has answered some of them.

    Parameters
    ----------
    spark
        The session.
    folder
        All is there: streams, and `before` with the state and the answers to begin with.
    kind
        Of the tick.
    """

    spark: SparkSession
    folder: Path
    kind: Kind

    def __post_init__(self) -> None:
        self.engine: ab.Engine | None = None
        cloudpickle.register_pickle_by_value(dying)  # type: ignore[no-untyped-call]
        self.streams = written(self.folder, self.kind.files + NEW, random.Random(7))
        new = [self.folder / name / f"{self.kind.files + n}.parquet" for name in NAMES for n in range(NEW)]
        for path in new:
            if self.kind.housekeeping:
                _add_late_row(path)
            path.rename(path.with_name(f"_{path.name}"))
        before = self.folder / "before"
        before.mkdir()
        if self.kind.files:
            with self._conditions(before, NEVER):
                self._life(before, at_once=1).stop()
        for path in new:
            path.with_name(f"_{path.name}").rename(path)

    @contextmanager
    def _conditions(self, case: Path, worker_dies_at: int) -> Iterator[None]:
        with ExitStack() as stack:
            log = 1 if self.kind.housekeeping else 64
            said = self.folder / "workers"
            said.unlink(missing_ok=True)
            self.by_workers = stack.enter_context(watched_workers(case / "state", said, worker_dies_at, log))
            if self.kind.housekeeping:
                patch = stack.enter_context(pytest.MonkeyPatch.context())
                patch.setattr(layout, "FILED_TOGETHER", 1)
                patch.setattr(retention, "worth_merging", partial(worth_merging, most=1))
                patch.setattr(log_files, "LONGEST_LOG", 0)
                for knob in ("LOOK_TICKS", "MOST_PLAIN", "MOST_MERGED"):
                    patch.setattr(compaction, knob, 1)
            yield

    def case(self) -> Path:
        """A copy of what there was before the tick."""
        case = self.folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(self.folder / "before", case)
        return case

    def _life(self, case: Path, at_once: int = NEW) -> ab.Engine:
        """An engine that answers what is there, so many files in a batch."""
        self.engine = engine = ab.Engine(self.spark, case / "state", cells=2)
        for name in NAMES:
            reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", at_once)
            df = reader.parquet(f"file://{self.folder / name}")
            engine.stream(name, df, timestamp="ts", sequence="seq", skew="1 second")
        for name, text in self.kind.queries.items():
            if name != self.kind.dropped or not _is_dropped(name, case / "state"):
                engine.query(text, name)
        retain = "1 second" if self.kind.housekeeping else None
        for name, query in engine.queries.items():
            sink = "json" if name == "others" else "parquet"
            query.start(sink=sink, path=str(case / "out" / name), retain=retain)
        for query in engine.queries.values():
            query.await_idle()
        return engine

    def killed(self, case: Path, at: int = NEVER, worker_at: int = NEVER) -> Driver:
        """An engine that is killed, or a worker of it; it may come to the end."""
        driver = Driver(case / "state", at)
        with self._conditions(case, worker_at), storage.watching(driver):
            try:
                engine = self._life(case)
                if self.kind.dropped:
                    engine.drop(self.kind.dropped)
            except Exception:
                if not driver.dead and worker_at == NEVER:
                    raise
            self._bury()
        return driver

    def _bury(self) -> None:
        """What the system does for a process that has ended: its streams stop, its lock is free."""
        if self.engine is not None:
            self.engine.stop()

    def to_the_end(self, case: Path) -> None:
        """An engine that is not killed; then all is as if no other had been."""
        with self._conditions(case, NEVER):
            engine = self._life(case)
            late = [engine.late(name).count() for name in NAMES]
            if self.kind.dropped and self.kind.dropped in engine.queries:
                engine.drop(self.kind.dropped)
            engine.stop()
            self._exact(case)
        assert late == [NEW if self.kind.housekeeping else 0] * len(NAMES)
        _tidy(case / "state")

    def _exact(self, case: Path) -> None:
        oracle, reader = Oracle(self.streams), ab.open(case / "state")
        for name, text in self.kind.queries.items():
            ast = parse_query(text)
            want = before(expected(oracle, ast), _until(self.streams, name, text))
            got, due = (delivered(case, name), want) if name != "others" else (_json(case / "out" / name), _in_ms(want))
            assert got == due, f"the sink of {name}: lost {due - got}, more than wanted {got - due}"
            if name == self.kind.dropped:
                left = [path for kind in ("delivered", "queries") for path in (case / "state" / kind).glob(name)]
                assert not left
                continue
            query = reader.query(name)
            if not query.is_stream:
                there: Counter[Row] = Counter()
                for row, count in want.items():
                    there[row[:-2]] += row[-1] * count
                held = Counter(tuple(row.values()) for row in query.current().to_pylist())
                assert held == +there, f"{name} now: {held - there}, {there - held}"
            if not self.kind.housekeeping:
                assert _rows(query.rows()) == want, name


def _is_dropped(query: str, checkpoint: Path) -> bool:
    """Whether a checkpoint says that a query is gone."""
    manifest = manifest_log.load(checkpoint)
    return manifest is not None and query not in manifest["queries"]


def _add_late_row(path: Path) -> None:
    """Add a row from long ago, which no query may see."""
    long_ago = (-1, ZERO - timedelta(days=1), 0, 0)
    columns = [pa.array([value], each.type) for value, each in zip(long_ago, ARROW, strict=True)]
    pq.write_table(pa.concat_tables([pq.read_table(path), pa.table(columns, schema=ARROW)]), path)


def _until(streams: list[Stream], name: str, text: str) -> int:
    shown: list[int] = [max(row[1] for row in stream.rows) for stream in streams if stream.name in text]
    return max(shown) + 1 if name in PICKED else min(shown) - SKEW


def _rows(table: pa.Table) -> Counter[Row]:
    columns = [name for name in table.column_names if name not in (TS, OP)]
    times = table[TS].cast(pa.int64()).to_pylist()
    weights = [1 if op == "+" else -1 for op in table[OP].to_pylist()] if OP in table.column_names else [1] * len(times)
    return Counter(
        (*row.values(), time, weight)
        for row, time, weight in zip(table.select(columns).to_pylist(), times, weights, strict=True)
    )


def _in_ms(answer: Counter[Row]) -> Counter[Row]:
    """With times in milliseconds, as Spark writes them in JSON."""
    return Counter((*values, (time - BEGIN) // 1000, weight) for *values, time, weight in answer.elements())


def _json(folder: Path) -> Counter[Row]:
    lines = (line for file in folder.glob("tick=*/part-*") for line in file.read_text().splitlines())
    entries = [json.loads(line) for line in lines]
    times = [datetime.fromisoformat(each["_ts"]) for each in entries]
    return Counter(
        (each["k"], each["a"], (time - ZERO) // timedelta(milliseconds=1), 1)
        for each, time in zip(entries, times, strict=True)
    )


def _tidy(checkpoint: Path) -> None:
    """Nothing is left of those who were killed."""
    manifest = manifest_log.load(checkpoint)
    assert manifest is not None
    kept = {file["path"] for stream in manifest["streams"].values() for file in stream["files"]}
    logs = {each["path"] for cells in manifest["nodes"].values() for log in cells.values() for each in log}
    assert {str(path.relative_to(checkpoint)) for path in storage.files(checkpoint / "kept")} == kept
    assert {str(path.relative_to(checkpoint / "state")) for path in storage.files(checkpoint / "state")} == logs
    assert not [path for path in checkpoint.rglob("*.tmp") if "sources" not in path.parts]
    assert not list((checkpoint / "ingest").glob("*/*"))


def outlived(world: World, at: int = NEVER, worker_at: int = NEVER) -> str | None:
    """Kill once, and go on to the end; returns what the killed one was about to do, or None if it did all it had to."""
    case = world.case()
    driver = world.killed(case, at, worker_at)
    by_workers = world.by_workers()
    about = driver.seen[-1] if driver.dead else by_workers[worker_at - 1] if len(by_workers) >= worker_at else None
    try:
        world.to_the_end(case)
    except BaseException as error:
        error.add_note(f"after a kill before operation {min(at, worker_at)}: {about}")
        raise
    return about


def test_kills_of_the_day_neither_lose_nor_double_answers(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(daily_seed())
    kind = KINDS[rng.choice(sorted(KINDS))]
    world = World(spark, tmp_path, kind)
    for at in (1, rng.randint(2, kind.at_least)):
        assert outlived(world, at) is not None
    assert outlived(world, worker_at=rng.randint(1, kind.at_least_by_workers)) is not None


@pytest.mark.full(reason=FULL)
@pytest.mark.parametrize("name", KINDS)
def test_a_kill_at_any_operation_of_a_driver_neither_loses_nor_doubles_answers(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(spark, tmp_path, KINDS[name])
    about = list(takewhile(bool, (outlived(world, at) for at in count(1))))
    assert len(about) >= KINDS[name].at_least
    assert "lock lock" in about
    assert {"rename manifest", "rename tick"} & set(about), "no kill before a commit"


@pytest.mark.full(reason=FULL)
@pytest.mark.parametrize("name", KINDS)
def test_a_kill_at_any_operation_of_a_worker_neither_loses_nor_doubles_answers(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(spark, tmp_path, KINDS[name])
    about = list(takewhile(bool, (outlived(world, worker_at=at) for at in count(1))))
    assert len(about) >= KINDS[name].at_least_by_workers
    assert "create answers" in about
