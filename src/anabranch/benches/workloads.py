"""Rows whose predicates' outcomes are known beforehand, so that the best order can be computed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import anabranch as ab
from anabranch.model.arrays import BoolMatrix, Order
from anabranch.model.predicates import Predicate
from anabranch.ordering import expected_cost

FILES = 8
COSTED_ROWS = 20_000


@dataclass(frozen=True)
class Workload:
    """A table with one column per predicate that hides its outcome, and what each predicate costs.

    The outcome is the last bit of a random number: nobody can tell it from the value without calling the predicate.

    Parameters
    ----------
    name
        For tables.
    passes
        One row per row, one column per predicate: True where it passes.
    microseconds
        Cost of one call of each predicate.
    path
        Folder with the rows as Parquet files, in order.
    spark
        The session that reads them.
    attributes
        Further columns.
    """

    name: str
    passes: BoolMatrix
    microseconds: tuple[float, ...]
    path: Path
    spark: SparkSession
    attributes: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of predicates."""
        return len(self.microseconds)

    def read(self) -> DataFrame:
        """The rows; with their schema given, no job looks for it."""
        schema = from_arrow_schema(pq.read_schema(next(self.path.glob("*.parquet"))))
        return self.spark.read.schema(schema).parquet(str(self.path))

    def rehearsal(self) -> Workload:
        """The same rows, judged by predicates that cost nothing."""
        return replace(self, microseconds=(0.0,) * self.width)

    def predicates(self, order: Sequence[int] | None = None) -> list[Predicate]:
        """The predicates for Anabranch, as written or in another order."""
        order = range(self.width) if order is None else order
        return [ab.predicate(spinning(self.microseconds[i]), f"p{i}", name=f"p{i}") for i in order]

    def plain(self) -> DataFrame:
        """Spark's own way: one filter of all Python UDFs."""
        condition: Column = F.lit(True)
        for i, cost in enumerate(self.microseconds):
            condition = condition & F.udf(spinning(cost), "boolean")(f"p{i}")
        return self.read().where(condition)

    def chained(self) -> DataFrame:
        """A chain of filters that Spark may not merge, as people write it to get short-circuiting."""
        df = self.read()
        for i, cost in enumerate(self.microseconds):
            df = df.where(F.udf(spinning(cost), "boolean").asNondeterministic()(f"p{i}"))
        return df

    def adaptive(self, policy: str = "auto", order: Sequence[int] | None = None) -> DataFrame:
        """Anabranch; its routes may look at the further columns."""
        named = list(self.attributes) or None
        return ab.where(self.read(), *self.predicates(order), policy=policy, attributes=named)

    def best_order(self) -> Order:
        """The cheapest single order for all rows, by the known outcomes."""
        return min(self.orders(), key=self.cost)

    def cost(self, order: Sequence[int]) -> float:
        """Microseconds per row of an order, by rows from everywhere."""
        return expected_cost(order, ~self.passes[:: 1 + len(self.passes) // COSTED_ROWS], np.array(self.microseconds))

    def orders(self) -> Iterator[Order]:
        """All orders (for narrow workloads)."""
        return itertools.permutations(range(self.width))


def spinning(microseconds: float) -> Callable[[int], bool]:
    """A predicate that takes a given time, whatever the machine, and returns the last bit of its argument."""
    seconds = microseconds / 1e6

    def spin(hidden: int) -> bool:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return hidden & 1 == 1

    return spin


def build(
    spark: SparkSession,
    name: str,
    passes: BoolMatrix,
    microseconds: Sequence[float],
    folder: Path,
    attributes: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Workload:
    """Write a workload's rows, in order, as a few files of equal size."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    attributes = attributes or {}
    hidden = np.random.default_rng(len(passes)).integers(0, 1 << 40, passes.shape) * 2 + passes
    for number, part in enumerate(np.array_split(np.arange(len(passes)), FILES)):
        columns = {"id": part, **{f"p{i}": hidden[part, i] for i in range(passes.shape[1])}}
        columns |= {key: values[part] for key, values in attributes.items()}
        pq.write_table(pa.table(columns), path / f"part-{number:03d}.parquet")
    return Workload(name, passes, tuple(microseconds), path, spark, attributes)


def independent(rows: int, rates: Sequence[float], rng: np.random.Generator) -> BoolMatrix:
    """Predicates that pass at given rates, independently."""
    return rng.random((rows, len(rates))) < np.array(rates)


def correlated(rows: int, rng: np.random.Generator) -> BoolMatrix:
    """Three predicates that drop the same half, and a fourth that drops the other half, at nearly equal rates."""
    same = rng.random(rows) < 0.5
    slip = rng.random((rows, 3)) < 0.02
    other = ~same ^ (rng.random(rows) < 0.03)
    return np.column_stack([same[:, None] ^ slip, other])


def rotating(rows: int, rates: Sequence[float], period: int, rng: np.random.Generator) -> BoolMatrix:
    """Rates that move on to the next predicate after every period."""
    phase = np.arange(rows) // period
    table = np.array([np.roll(rates, shift) for shift in range(len(rates))])
    return rng.random((rows, len(rates))) < table[phase % len(rates)]


def grouped(rows: int, width: int, rng: np.random.Generator, *, factor: int = 2, agree: float = 0.8) -> BoolMatrix:
    """The correlation model of the thesis: groups of filters that give the same result on a share of the rows."""
    lead = rng.random((rows, -(-width // factor))) < 0.5
    passes = np.repeat(lead, factor, axis=1)[:, :width]
    follower = np.arange(width) % factor > 0
    return passes ^ ((rng.random((rows, width)) > agree) & follower)
