"""`anabranch bench linearroad`: how many expressways are answered in time, while cars report as they drive.

The benchmark asks that all answers come within five seconds of what they answer; its score is the number of
expressways L. Here reports and questions are written as files every quarter of a second, with the times at which they
are written, and sinks look at the clock. L is doubled until answers come too late.

Notes
-----
Differs from the benchmark: runs of a minute or less instead of three hours, each at a steady rate: 1,000 reports per
second and expressway, about the mean of the benchmark's three hours (12 million reports). One answer of a hundred
may be late: the machine is shared with what writes the reports.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.benches.harness import run
from anabranch.benches.linearroad.answers import Row, validate
from anabranch.benches.linearroad.inputs import SECOND, Inputs, inputs
from anabranch.benches.linearroad.queries import ANSWERS, script
from anabranch.engine.sinks import Delivery
from anabranch.measure import Bar, at_most, informed

LIMIT_SECONDS = 5.0
IN_TIME = 0.99
REPORTS_PER_SECOND = 1_000
CARS, MINUTES, ACCIDENTS = 42_000, 12, 12
"""Cars per expressway that enter in so many minutes, and how often two of them collide."""
BEGIN, HISTORY_SECONDS = 8, 150
"""The minute with which a drive begins, and what is there before, so that there are accidents."""
PERIOD_SECONDS = 0.25
STREAMS = ("cars", "balances", "expenses")


@dataclass(frozen=True)
class Plan:
    """Seconds before the clock is looked at, seconds after that, and the expressways that are tried."""

    settling: float = 15.0
    measured: float = 25.0
    expressways: tuple[float, ...] = (0.25, 0.5, 1, 2, 4, 8)


WARM_UP = Plan(20.0, 0.0)
QUICK = Plan(settling=8.0, measured=10.0, expressways=(0.1, 0.2))


@dataclass
class Clock:
    """A sink that keeps what it gets, and how old it was."""

    begin: float
    rows: list[Row] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)

    def deliver(self, given: Delivery) -> None:
        """Take the answers of a tick; those of the beginning have no age."""
        now, table = time.time(), given.table()
        times = pc.cast(table["_ts"], pa.int64())
        self.ages += (now - times.to_numpy() / SECOND)[times.to_numpy() / SECOND >= self.begin].tolist()
        columns = [table[name].to_pylist() for name in table.column_names if name != "_ts"]
        self.rows += zip(*columns, times.to_pylist(), strict=True)


@dataclass(frozen=True)
class Drive:
    """What a drive has shown: what was sent, ages of answers in seconds, and all answers up to an instant.

    `behind` is by how many seconds that instant was behind the clock when the drive was over.
    """

    expressways: float
    sent: Inputs
    ages: list[float]
    answers: Mapping[str, list[Row]]
    upto: int
    behind: float

    @property
    def share_in_time(self) -> float:
        """Of the answers."""
        return float(np.mean(np.array(self.ages) <= LIMIT_SECONDS)) if self.ages else 0.0

    @property
    def in_time(self) -> bool:
        """Whether nearly all answers came soon enough, and none was due at the end."""
        return self.share_in_time >= IN_TIME and self.behind <= LIMIT_SECONDS

    def told(self) -> str:
        """How old answers were, in a line."""
        if not self.ages:
            return f"no answers, {self.behind:.0f} s behind at the end"
        middle, late = np.quantile(self.ages, [0.5, 0.99])
        ages = f"median {middle:.1f} s, 99th percentile {late:.1f} s"
        return f"{len(self.ages):,} answers, {ages}, {self.behind:.1f} s behind at the end"

    def differences(self) -> tuple[int, int]:
        """How many answers there should be, and how many are missing or wrong."""
        wanted, compared, different = validate(self.sent), 0, 0
        for name, rows in self.answers.items():
            ours = Counter(row for row in rows if int(row[-1]) < self.upto)
            theirs = Counter({row: n for row, n in wanted[name].items() if int(row[-1]) < self.upto})
            compared += theirs.total()
            different += (ours - theirs).total() + (theirs - ours).total()
        return compared, different


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run it: see `harness.run`."""
    return run((expressways,), quick=quick, json_path=json_path)


def expressways(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """More and more expressways, until answers come too late."""
    plan, drives = QUICK if quick else Plan(), list[Drive]()
    drive(spark, folder / "warm-up", plan.expressways[0], WARM_UP)
    for number in plan.expressways:
        drives.append(drive(spark, folder / f"{number:g}", number, plan))
        if not drives[-1].in_time:
            break
    sustained = max((each.expressways for each in drives if each.in_time), default=0.0)
    compared, different = drives[0].differences()
    rate = f"{REPORTS_PER_SECOND:,} reports per second and expressway, {plan.measured:.0f} s each"
    return [
        informed("Linear Road: expressways answered within 5 s", sustained, rate),
        *(informed(f"Linear Road: share within 5 s, L = {d.expressways:g}", d.share_in_time, d.told()) for d in drives),
        at_most("Linear Road: answers that differ", different, 0, f"of {compared:,} on {drives[0].expressways:g}"),
    ]


def drive(spark: SparkSession, folder: Path, number: float, plan: Plan) -> Drive:
    """Cars drive on so many expressways while the engine runs the script."""
    roads = max(1, round(number))
    traffic = inputs(roads, MINUTES, round(CARS * number / roads), seed=roads, accidents=ACCIDENTS)
    incoming = folder / "linear-road"
    for name in STREAMS:
        (incoming / name).mkdir(parents=True)
    (incoming / "segments").mkdir()
    pq.write_table(traffic.segments, incoming / "segments" / "0.parquet")
    engine = ab.Engine(spark, folder / "state")
    engine.execute(script(folder=incoming))
    began = time.time()
    queue = _Queue(traffic, incoming, began)
    queue.write(began)
    clocks = {name: Clock(began + plan.settling) for name in ANSWERS}
    for name, clock in clocks.items():
        engine.queries[name].start(sink=clock)
    waiting = threading.Event()
    while (now := time.time()) < began + plan.settling + plan.measured:
        queue.write(now)
        waiting.wait(PERIOD_SECONDS)
    upto = min(each.position or 0 for each in engine.overview().queries)
    engine.stop()
    failed = [query.error for query in engine.queries.values() if query.error is not None]
    if failed:
        raise failed[0]
    ages = [age for clock in clocks.values() for age in clock.ages]
    answers = {ANSWERS[name]: clock.rows for name, clock in clocks.items()}
    return Drive(number, queue.sent, ages, answers, upto, now - upto / SECOND)


class _Queue:
    """Rows that are written when it is time, after what was before the drive began."""

    def __init__(self, traffic: Inputs, folder: Path, began: float) -> None:
        first = int(traffic.cars["ts"].cast(pa.int64())[0].as_py()) + BEGIN * 60 * SECOND
        shift = int(began * SECOND) - first
        self._folder, self._segments, self._number = folder, traffic.segments, 0
        self._tables = {
            name: _from(getattr(traffic, name), first - HISTORY_SECONDS * SECOND, shift) for name in STREAMS
        }
        self._due = {name: table["ts"].cast(pa.int64()).to_numpy() for name, table in self._tables.items()}
        self._done = dict.fromkeys(STREAMS, 0)

    def write(self, now: float) -> None:
        """What is due, as a file per stream."""
        self._number += 1
        for name, table in self._tables.items():
            until = int(np.searchsorted(self._due[name], int(now * SECOND), side="right"))
            if until > self._done[name]:
                part = self._folder / name / f".{self._number}.tmp"
                pq.write_table(table.slice(self._done[name], until - self._done[name]), part)
                part.rename(self._folder / name / f"{self._number:012d}.parquet")
                self._done[name] = until

    @property
    def sent(self) -> Inputs:
        """What has been written."""
        cars, balances, expenses = (self._tables[name].slice(0, self._done[name]) for name in STREAMS)
        return Inputs(cars, balances, expenses, self._segments)


def _from(table: pa.Table, first: int, shift: int) -> pa.Table:
    """Rows from a time on, moved to the present."""
    times = table["ts"].cast(pa.int64()).to_numpy()
    place = int(np.searchsorted(times, first))
    index = table.schema.get_field_index("ts")
    moved = pa.array(times[place:] + shift).cast(pa.timestamp("us", "UTC"))
    return table.slice(place).set_column(index, "ts", moved)
