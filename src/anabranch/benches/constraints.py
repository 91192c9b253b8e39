"""`anabranch bench constraints`: joins that put away the rows they will not need, against joins of whole windows.

All in one process, tick after tick, so that memory and time are those of the join alone.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.1.1 and 6.6.3.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.benches.harness import Race, run
from anabranch.benches.linear_road_memory import linear_road
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.model.arrays import Counts
from anabranch.operators.base import Tick
from anabranch.operators.constrained_join import ConstrainedJoin
from anabranch.operators.join import MultiJoin

SEED = 20_260_025
SECOND = 1_000_000
LATENCY = 2 * SECOND
ONWARD = 0.1
Tables = list[list[pa.Table]]


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


def network_query(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Packets that pass three links, at 1,000, 10,000 and 1,000 a second: a tenth goes on from each to the next."""
    seconds = 30 if quick else 300
    ticks = _network(seconds, seconds * 4 // 3, 0.2 if quick else 1.0)
    keys = tuple((number, (name,)) for number, name in enumerate("cbo"))
    starts: dict[str, Callable[[], MultiJoin]] = {
        "off": lambda: MultiJoin(3, _joined("cbo")),
        "discard": lambda: ConstrainedJoin(3, _joined("cbo"), (), "auto", "discard", keys),
        "exact": lambda: ConstrainedJoin(3, _joined("cbo"), (), "auto", "exact", keys),
    }
    found, cpu = _contest(starts, ticks, rounds=5)
    off, discard, exact = (found[name] for name in starts)
    _require_same(off, exact)
    whole = f"windows of {seconds} s hold {off.held[-1] / 1e6:.1f} MB"
    missing = 1 - discard.results / max(off.results, 1)
    return [
        at_most("network: memory, discard / off", discard.typical / off.typical, 0.005, whole),
        at_most("network: memory, exact / off", exact.typical / off.typical, 0.03, f"{whole}, filters included"),
        informed("network: results missing, discard", missing, f"of {off.results}"),
        informed("network: results missing, exact", 1 - exact.results / max(off.results, 1), f"of {off.results}"),
        at_least(
            "network: throughput, discard / off", cpu.ratio("off", "discard"), 1.2, cpu.describe("off", "discard")
        ),
        at_least("network: throughput, exact / off", cpu.ratio("off", "exact"), 1.2, cpu.describe("exact")),
        informed("network: A/A control", cpu.ratio("off again", "off"), ""),
    ]


def nothing_to_find(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Two streams by keys that come again at any time."""
    rng, rows, span = np.random.default_rng(SEED), 10_000, 10 * SECOND
    ticks = [
        [_elements(name, rng.integers(0, 10 * rows, rows), rng.integers(at, at + SECOND, rows), span) for name in "cb"]
        for at in range(0, (20 if quick else 60) * SECOND, SECOND)
    ]
    starts: dict[str, Callable[[], MultiJoin]] = {
        "off": lambda: MultiJoin(2, _joined("cb")),
        "exact": lambda: ConstrainedJoin(2, _joined("cb"), (), "auto", "exact"),
    }
    found, cpu = _contest(starts, ticks, rounds=3)
    _require_same(found["off"], found["exact"])
    return [
        at_least("nothing to find: throughput, exact / off", cpu.ratio("off", "exact"), 0.97, cpu.describe(*starts)),
        informed("nothing to find: memory, exact / off", found["exact"].typical / found["off"].typical, ""),
        informed("nothing to find: A/A control", cpu.ratio("off again", "off"), ""),
    ]


def violation(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Partners come within a second, a million times; then they come after ten."""
    rows, before = 5_000, 20 if quick else 200
    ticks = _late(rows, before, before + 30)
    keys = ((1, ("b",)),)
    off = _ran(MultiJoin(2, _joined("cb")), ticks)
    exact = ConstrainedJoin(2, _joined("cb"), (), "auto", "exact", keys)
    kept = _ran(exact, ticks)
    first = next(t for t, changes in enumerate(kept.violated) if t >= before and changes)
    came = next(t for t in range(before, len(ticks)) if len(ticks[t][1]) and off.by_tick[t])
    return [
        at_most("violation: batches until safe", first - came + 1, 1, f"after {before * rows:,} rows that kept to it"),
        at_most("violation: results lost, exact", off.results - kept.results, 0, f"of {off.results:,}"),
        informed("violation: results that needed a row from disk", kept.rescued, ""),
    ]


def limited(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Windows of a minute in a quarter of the memory that they need; most partners come soon, some at any time."""
    ticks = _mostly_soon(5_000 if quick else 10_000, 60, 80 if quick else 120)
    whole = _ran(MultiJoin(2, _joined("cb")), ticks)
    limit = whole.peak // 4
    starts: dict[str, Callable[[], MultiJoin]] = {
        "off": lambda: MultiJoin(2, _joined("cb")),
        "limited": lambda: _with_memory(MultiJoin(2, _joined("cb")), limit),
    }
    found, cpu = _contest(starts, ticks, rounds=1 if quick else 3)
    off, limited = found["off"], found["limited"]
    _require_same(off, limited)
    needs = f"a quarter of {whole.peak / 1e6:.1f} MB, {limited.on_disk / 1e6:.1f} MB on disk"
    return [
        at_most("memory limit: measured peak / limit", limited.peak / limit, 1.1, needs),
        at_most("memory limit: time / unlimited", cpu.ratio("limited", "off"), 3.0, cpu.describe("off", "limited")),
        informed("memory limit: answers that differ", 0.0, f"of {off.results:,}"),
        informed("memory limit: A/A control", cpu.ratio("off again", "off"), ""),
    ]


# --- streams


def _mostly_soon(rows: int, seconds: int, length: int) -> Tables:
    """Rows by tick of a second: of nine in ten the partners come within two seconds, of the others at any time."""
    rng, span, found = np.random.default_rng(SEED), seconds * SECOND, []
    for tick in range(length):
        inputs = []
        for name in "cb":
            back = np.where(rng.random(rows) < 0.9, rng.integers(0, 2, rows), rng.integers(0, seconds, rows))
            numbers = np.maximum(tick - back, 0) * rows + rng.integers(0, rows, rows)
            inputs.append(_elements(name, numbers, rng.integers(tick * SECOND, (tick + 1) * SECOND, rows), span))
        found.append(inputs)
    return found


def _network(window: int, length: int, scale: float) -> Tables:
    """Elements by tick of a second; packets that do not come from the link before have numbers of their own."""
    rng, span = np.random.default_rng(SEED), window * SECOND
    rates = [int(scale * rate) for rate in (1_000, 10_000, 1_000)]
    onward: list[list[tuple[Counts, Counts]]] = [[], []]
    numbers, found = 0, []
    for at in range(0, length * SECOND, SECOND):
        inputs = []
        for link, (name, rate) in enumerate(zip("cbo", rates, strict=True)):
            came, when = _due(onward, link - 1, at + SECOND) if link else (np.empty(0, np.int64),) * 2
            own = np.arange(numbers, numbers + max(rate - len(came), 0))
            numbers += len(own)
            packets = np.concatenate((came, own))
            times = np.concatenate((when, rng.integers(at, at + SECOND, len(own))))
            if link < 2:
                goes = rng.random(len(packets)) < (
                    0.1 if link == 0 else np.where(np.arange(len(packets)) < len(came), 0.1, 0)
                )
                onward[link].append((packets[goes], times[goes] + rng.integers(1, LATENCY, int(goes.sum()))))
            inputs.append(_elements(name, packets, times, span))
        found.append(inputs)
    return found


def _due(onward: list[list[tuple[Counts, Counts]]], link: int, until: int) -> tuple[Counts, Counts]:
    packets, times = (np.concatenate(each) for each in zip(*onward[link], strict=True))
    now = times < until
    onward[link] = [(packets[~now], times[~now])]
    return packets[now], times[now]


def _late(rows: int, before: int, length: int) -> Tables:
    """Rows of the first stream, and their partners after up to a second, or after ten of them."""
    rng, span, found = np.random.default_rng(SEED), 30 * SECOND, []
    waiting: list[list[tuple[Counts, Counts]]] = [[]]
    for tick in range(length):
        numbers, at = np.arange(tick * rows, (tick + 1) * rows), tick * SECOND
        times = rng.integers(at, at + SECOND, rows)
        late = rng.integers(0, SECOND, rows) + (0 if tick < before else 10 * SECOND)
        waiting[0].append((numbers, times + late))
        found.append([_elements("c", numbers, times, span), _elements("b", *_due(waiting, 0, at + SECOND), span)])
    return found


def _joined(names: Iterable[str]) -> tuple[tuple[tuple[int, str], ...]]:
    return (tuple(enumerate(names)),)


def _elements(name: str, numbers: Counts, times: Counts, span: int) -> pa.Table:
    ones = np.ones(len(numbers), np.int64)
    return pa.table(
        {name: numbers, f"size_{name}": numbers % 1500, "_start": times, "_end": times + span, "_weight": ones}
    )


# --- runs


@dataclass
class Ran:
    """What a join has said and held, tick by tick."""

    results: int = 0
    rescued: int = 0
    sum: int = 0
    peak: int = 0
    on_disk: int = 0
    held: list[int] = field(default_factory=list)
    by_tick: list[int] = field(default_factory=list)
    violated: list[int] = field(default_factory=list)

    @property
    def typical(self) -> float:
        """Bytes in memory while windows are full: the median of the last quarter of ticks."""
        return statistics.median(self.held[len(self.held) * 3 // 4 :])


def _ran(join: MultiJoin, ticks: Tables) -> Ran:
    ran = Ran()
    for number, inputs in enumerate(ticks):
        found = join.advance(inputs, Tick(number * SECOND, (number + 1) * SECOND))
        report = join.take_constraints()
        ran.results += len(found)
        ran.sum += sum(int(found[name].to_numpy().sum()) for name in ("_start", "_end", found.column_names[0]))
        ran.by_tick.append(len(found))
        ran.held.append(join.held_bytes)
        ran.peak, ran.on_disk = max(ran.peak, join.take_peak()), max(ran.on_disk, join.file_bytes)
        ran.violated.append(0 if report is None else sum(not each.adopted for each in report.changes))
        ran.rescued = 0 if report is None else report.rescued
    return ran


def _contest(starts: Mapping[str, Callable[[], MultiJoin]], ticks: Tables, rounds: int) -> tuple[dict[str, Ran], Race]:
    """All joins on the same rows, in turns, the first one twice; the first round warms up."""
    names = {**starts, "off again": starts["off"]}
    race, found = Race({name: [] for name in names}), {}
    for number in range(rounds + 1):
        for name, start in names.items():
            began = time.process_time()
            found[name] = _ran(start(), ticks)
            if number:
                race.seconds[name].append(time.process_time() - began)
    return found, race


def _with_memory(join: MultiJoin, limit: int) -> MultiJoin:
    join.limit_memory(limit)
    return join


def _require_same(one: Ran, other: Ran) -> None:
    if (one.results, one.sum) != (other.results, other.sum):
        raise InternalError(f"{one.results} results became {other.results}, or others")


WORKLOADS = (network_query, nothing_to_find, violation, limited, linear_road)
