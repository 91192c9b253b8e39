"""What it costs to ask a query for its answer, without Spark, however many queries there are and however old they are.

Thousands of ticks would take an hour through Spark. So the checkpoint is made by the parts of the engine that write
answers, manifests, compactions and marks, tick by tick, and read by the reader that users have.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch import storage
from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask
from anabranch.engine.compaction import KeptRelation, compaction
from anabranch.engine.descriptions import Description
from anabranch.engine.layout import ANSWERS, filed, prefix_of
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.manifest_log import ManifestLog
from anabranch.engine.marks import write_mark
from anabranch.engine.store import confirm
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_most, informed
from anabranch.model.names import OP, TS
from anabranch.operators.base import EVER, TIME, WEIGHT

QUERIES = 4096
KEYS = 50
INVOCATIONS = 100
BUSY = "busy"
MEMORY = Path("/dev/shm")
"""Where there is a disk in memory: a tick waits for its files to be on the disk, and there are many."""
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), (TS, pa.timestamp("us", "UTC")), (OP, pa.string())])


def current(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """One of 4,096 queries, which has changed in every tick, young and old."""
    few, usual, many = 100, 300 if quick else 1000, 1000 if quick else 10_000
    found = {}
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=MEMORY if MEMORY.is_dir() else folder) as place:
        for ticks in (few, usual, many):
            made = BenchCheckpoint(Path(place) / f"{ticks}", QUERIES)
            made.run(ticks)
            found[ticks] = invocations(made)
        again = statistics.median(invocations(made)) / statistics.median(found[many])
    p95 = statistics.quantiles(found[usual], n=20)[-1]
    growth = statistics.median(found[many]) / statistics.median(found[few])
    detail = f"median {1000 * statistics.median(found[usual]):.1f} ms, {INVOCATIONS} invocations"
    medians = ", ".join(f"{ticks:,}: {1000 * statistics.median(each):.1f} ms" for ticks, each in found.items())
    return [
        at_most(f"current() of one of {QUERIES:,} queries after {usual:,} ticks: p95, ms", 1000 * p95, 50, detail),
        at_most(f"current() after {many:,} / after {few:,} ticks", growth, 1.3, medians),
        informed(f"current() after {many:,} / after {few:,} ticks: A/A control", again),
    ]


def invocations(made: BenchCheckpoint) -> list[float]:
    """Seconds of each invocation, with answers compared."""
    reader, seconds = ab.open(made.folder), []
    for _ in range(INVOCATIONS):
        query = reader.query(BUSY)
        began = time.perf_counter()
        table = query.current()
        seconds.append(time.perf_counter() - began)
        answer = dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))
        if answer != made.counts:
            raise InternalError(f"query {query.name} has other counts than its changes say")
    return seconds


@dataclass
class BenchCheckpoint:
    """A checkpoint of counts by key: in each tick the busy query counts one key up, and the others have no change."""

    folder: Path
    queries: int
    manifest: Manifest = field(default_factory=lambda: Manifest(cells=2))
    counts: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name in (BUSY, *(f"q{number}" for number in range(self.queries - 1))):
            self.manifest.queries[name] = QueryState(f"print-{name}", number=self.manifest.new_number())
        others = [state.number for name, state in self.manifest.queries.items() if name != BUSY]
        self._others = [KeptRelation(number, SCHEMA, EVER) for number in others]
        about = Description("Select k, Count(*) As n From s Group By k", False, SCHEMA)
        about.save(self.folder, BUSY, f"print-{BUSY}")

    def tick(self) -> None:
        """Answer, compact and mark, as the engine does."""
        self.manifest.tick += 1
        tick, key = self.manifest.tick, self.manifest.tick % KEYS
        before, self.counts[key] = self.counts[key], self.counts[key] + 1
        changes = [(key, before, -1)] * bool(before) + [(key, before + 1, 1)]
        confirm(self.folder, self._write(changes))
        state = self.manifest.queries[BUSY]
        state.rows, state.position = state.rows + len(changes), tick + 1
        due = compaction(self.folder, tick, [KeptRelation(state.number, SCHEMA, state.position), *self._others])
        if due is not None:
            due.run()
        write_mark(self.folder, self.manifest)

    def run(self, ticks: int) -> None:
        """So many ticks, of which the last two are committed: a snapshot of the manifest, and a record after it."""
        log = ManifestLog(self.folder)
        for left in range(ticks, 0, -1):
            self.tick()
            if left <= 2:
                log.commit(self.manifest.branch())

    def _write(self, changes: list[tuple[int, int, int]]) -> list[str]:
        prefix = filed(prefix_of(self.manifest.tick, "bench"))
        storage.make_folder((self.folder / ANSWERS / prefix).parent)
        task = AnswerTask(self.manifest.queries[BUSY].number, (("k", "k"), ("n", "n")), changes=True)
        keys, counts, weights = zip(*changes, strict=True)
        times = [self.manifest.tick] * len(changes)
        arrays = [pa.array(each, pa.int64()) for each in (keys, counts, times, weights)]
        writer = AnswerFolder(str(self.folder), prefix).begin()
        writer.write([task], pa.table(arrays, ["k", "n", TIME, WEIGHT]))
        return list(writer.close())
