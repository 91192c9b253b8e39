"""Races: contenders on the same rows, interleaved, with the answers compared.

The machine is noisy, so a ratio is the median of the ratios of neighbouring runs, and every race can carry an A/A
control: the same contender twice, whose ratio shows how far chance goes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.errors import InternalError

T = TypeVar("T")
Contender = Callable[[T], DataFrame]
Answer = tuple[int, int]


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

    A first run on a small input of the same shape lets Spark compile what it compiles once per query.
    """
    result = Race({name: [] for name in contenders})
    names = list(contenders)
    for name in names:
        answer(contenders[name](warm_up_on))
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began = time.perf_counter()
            found = answer(contenders[name](on))
            result.seconds[name].append(time.perf_counter() - began)
            if result.answer is None:
                result.answer = found
            elif result.answer != found:
                raise InternalError(f"{name} returned {found[0]} rows, or others, instead of {result.answer[0]}")
    return result


def answer(df: DataFrame) -> Answer:
    """Number of rows and an order-independent checksum, computed where the rows are."""
    checksum = F.sum(F.xxhash64(*(F.col(f"`{c}`") for c in df.columns)).cast("decimal(38,0)"))
    row = df.agg(F.count(F.lit(1)), checksum).head()
    assert row is not None
    return int(row[0]), int(row[1] or 0)
