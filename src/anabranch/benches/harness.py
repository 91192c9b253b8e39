"""Races: contenders on the same rows, interleaved, with the answers compared.

The machine is noisy, so a ratio is the median of the ratios of neighbouring runs, and every race can carry an A/A
control: the same contender twice, whose ratio shows how far chance goes. A race ends when more rounds would hardly move
a ratio, or when it has taken its time.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors import InternalError
from anabranch.measure import Bar, exit_code, table, write_json
from anabranch.spark.session import local_session

MOST_WARM_UPS = 4
ENOUGH_ROUNDS = 5
FEWEST_ROUNDS = 3
RACE_SECONDS = 15.0
CLOSE_RACE_SECONDS = 30.0
"""Where a few percent are the question."""
TIGHT = 0.01
CONTROL_WITHIN = 0.02
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
        return statistics.median(_ratios(self.seconds[slower], self.seconds[faster]))

    def fastest(self, prefix: str = "") -> str:
        """Name of the contender with the smallest median, among those whose name starts with a prefix."""
        return min((n for n in self.seconds if n.startswith(prefix)), key=self.median)

    def describe(self, *names: str) -> str:
        """Medians in seconds, for the detail of a bar."""
        return ", ".join(f"{n} {self.median(n):.2f} s" for n in names) + f", {len(self.seconds[names[0]])} rounds"


def race(
    contenders: Mapping[str, Contender[T]], on: T, *, rounds: int, warm_up_on: T, seconds: float = RACE_SECONDS
) -> Race:
    """Run all contenders on the same input, each round in another order; all must return the same bag of rows.

    There are so many rounds at most: a race is over when it is `settled`, and after so many seconds anyway.

    Who runs behind whom changes, too: a run may be slower behind one of another kind than behind its own.

    Runs on a cheap input of the same shape come first, so that Spark compiles what it compiles once per query, and its
    Java machine what it finds hot.
    """
    result = Race({name: [] for name in contenders})
    names = list(contenders)
    _warm_up([partial(contenders[name], warm_up_on) for name in names], most=min(MOST_WARM_UPS, rounds + 1))
    started = time.perf_counter()
    for number in range(rounds):
        if over(result.seconds, time.perf_counter() - started, seconds):
            break
        for name in turns(names, number):
            began = time.perf_counter()
            found = answer(contenders[name](on))
            result.seconds[name].append(time.perf_counter() - began)
            if result.answer is None:
                result.answer = found
            elif result.answer != found:
                raise InternalError(f"{name} returned {found[0]} rows, or others, instead of {result.answer[0]}")
    return result


def over(seconds: Mapping[str, Sequence[float]], elapsed: float, limit: float = RACE_SECONDS) -> bool:
    """Whether a race needs no more rounds, or has taken its time.

    >>> over({"ours": [1.0, 1.1, 1.0], "plain": [2.0, 3.1, 1.0]}, elapsed=5.0)
    False
    >>> over({"ours": [1.0, 1.1, 1.0], "plain": [2.0, 3.1, 1.0]}, elapsed=25.0)
    True
    """
    rounds = min(map(len, seconds.values()))
    return settled(seconds) or (rounds >= FEWEST_ROUNDS and elapsed >= limit)


def settled(seconds: Mapping[str, Sequence[float]]) -> bool:
    """Whether all ratios are known to a percent, and who ran twice was as fast both times.

    >>> settled({"ours": [1.01, 2.0, 1.0, 1.5, 3.02], "best": [1.0, 2.0, 1.0, 1.49, 3.0]})
    True
    >>> settled({"best": [1.0] * 5, "best again": [1.1] * 5})
    False
    """
    if min(map(len, seconds.values())) < ENOUGH_ROUNDS:
        return False
    tight = all(_margin(_ratios(seconds[a], seconds[b])) <= TIGHT for a, b in combinations(seconds, 2))
    controls = [(name, name.removesuffix(" again")) for name in seconds if name.endswith(" again")]
    return tight and all(
        abs(statistics.median(_ratios(seconds[again], seconds[name])) - 1) <= CONTROL_WITHIN for again, name in controls
    )


def _ratios(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(some, others, strict=True)]


def _margin(ratios: Sequence[float]) -> float:
    """How far off the median may be, relative to it: two standard errors, by the median deviation."""
    middle = statistics.median(ratios)
    deviation = statistics.median(abs(r / middle - 1) for r in ratios)
    return 2 * 1.253 * 1.4826 * deviation / math.sqrt(len(ratios))


def turns(names: Sequence[str], number: int) -> list[str]:
    """The order of a round: everybody is first in turn, and every other round goes backwards.

    >>> ["".join(turns("abc", number)) for number in range(6)]
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
