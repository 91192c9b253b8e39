"""Races: contenders on the same rows, interleaved, with the answers compared.

The machine is noisy, so a ratio is the median of the ratios of neighbouring runs, and every race can carry an A/A
control: the same contender twice, whose ratio shows how far chance goes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors import InternalError
from anabranch.measure import Bar, exit_code, table, write_json
from anabranch.spark.session import local_session

MOST_WARM_UPS = 4
SETTLED = 0.9

T = TypeVar("T")
Contender = Callable[[T], DataFrame]
Answer = tuple[int, int]
Bench = Callable[[SparkSession, Path, bool], list[Bar]]


def run(benches: Sequence[Bench], *, quick: bool, json_path: Path | None = None) -> int:
    """Run bench after bench, print the tables, write the JSON; 0 when all bars hold, 3 otherwise."""
    warnings.filterwarnings("ignore", "Cannot infer the eval type")  # which Spark says of plain UDFs with type hints
    spark = local_session("anabranch-bench", cores=2)
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        for bench in benches:
            began = time.perf_counter()
            found = bench(spark, Path(folder), quick)
            if not found:
                continue
            bars += found
            print(table(found))
            print(f"({time.perf_counter() - began:.0f} s)\n", flush=True)
    print(table(bars))
    if quick and exit_code(bars):
        print("\nquick: inputs are small and rounds few; bars of a few percent need the full run")
    if json_path is not None:
        write_json(bars, json_path)
    return exit_code(bars)


@dataclass
class Race:
    """Times of every contender, run by run, and the one answer they all gave."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    answer: Answer | None = None

    def median(self, name: str) -> float:
        """Median seconds of a contender."""
        return statistics.median(self.seconds[name])

    def ratio(self, slower: str, faster: str) -> float:
        """Median over runs of one contender's time divided by the other's in the same round."""
        return statistics.median(a / b for a, b in zip(self.seconds[slower], self.seconds[faster], strict=True))

    def fastest(self, prefix: str = "") -> str:
        """Name of the contender with the smallest median, among those whose name starts with a prefix."""
        return min((n for n in self.seconds if n.startswith(prefix)), key=self.median)

    def describe(self, *names: str) -> str:
        """Medians in seconds, for the detail of a bar."""
        return ", ".join(f"{n} {self.median(n):.2f} s" for n in names) + f", {len(self.seconds[names[0]])} rounds"


def race(contenders: Mapping[str, Contender[T]], on: T, *, rounds: int, warm_up_on: T) -> Race:
    """Run all contenders on the same input, each round in another order; all must return the same bag of rows.

    Who runs behind whom changes, too: a run may be slower behind one of another kind than behind its own.

    Runs on a cheap input of the same shape come first, so that Spark compiles what it compiles once per query, and its
    Java machine what it finds hot.
    """
    result = Race({name: [] for name in contenders})
    names = list(contenders)
    _warm_up([partial(contenders[name], warm_up_on) for name in names], most=min(MOST_WARM_UPS, rounds + 1))
    for number in range(rounds):
        for name in _turns(names, number):
            began = time.perf_counter()
            found = answer(contenders[name](on))
            result.seconds[name].append(time.perf_counter() - began)
            if result.answer is None:
                result.answer = found
            elif result.answer != found:
                raise InternalError(f"{name} returned {found[0]} rows, or others, instead of {result.answer[0]}")
    return result


def _turns(names: Sequence[str], number: int) -> list[str]:
    """The order of a round: everybody is first in turn, and every other round goes backwards.

    >>> ["".join(_turns("abc", number)) for number in range(6)]
    ['abc', 'acb', 'cab', 'cba', 'bca', 'bac']
    """
    turn = number % len(names)
    order = [*names[turn:], *names[:turn]]
    return order[::-1] if number % 2 else order


def _warm_up(runs: Sequence[Callable[[], DataFrame]], *, most: int) -> None:
    """Run all until that is hardly getting faster, so many times at most."""
    before = float("inf")
    for _ in range(most):
        began = time.perf_counter()
        for once in runs:
            answer(once())
        seconds = time.perf_counter() - began
        if seconds > SETTLED * before:
            return
        before = seconds


def answer(df: DataFrame) -> Answer:
    """Number of rows and an order-independent checksum, computed where the rows are."""
    checksum = F.sum(F.xxhash64(*(F.col(f"`{c}`") for c in df.columns)).cast("decimal(38,0)"))
    row = df.agg(F.count(F.lit(1)), checksum).head()
    assert row is not None
    return int(row[0]), int(row[1] or 0)
