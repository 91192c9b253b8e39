"""The demo's third part: a bank whose balances are right at every instant, not only in the end.

Credits and debits are two aggregates of the same transfers, and a join of both. An engine in which one of them is ahead
of the other shows money that has left one account and not yet reached the other.

References
----------
J. Brandon, *Internal consistency in streaming systems*, 2021.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import anabranch as ab
from anabranch.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCOUNTS = 10
BATCHES = 4
TRANSFERS = 200
QUERY = """
    Select c.account, c.credit - d.debit As balance
    From (Select receiver As account, Sum(amount) As credit From transfers [Range Unbounded] Group By receiver) As c,
         (Select sender As account, Sum(amount) As debit From transfers [Range Unbounded] Group By sender) As d
    Where c.account = d.account
"""
BEGIN = datetime(2026, 1, 1, 9, tzinfo=UTC)
SCHEMA = "seq long, ts timestamp, sender long, receiver long, amount long"


def run(spark: SparkSession, folder: Path, console: Console) -> list[int]:
    """Let the bank run, print the sum of all balances, and return it at every instant at which one changes."""
    console.print(f"\nA bank: {TRANSFERS} transfers between {ACCOUNTS} accounts, credits joined with debits")
    console.print(QUERY.strip("\n"), style="bright_black", markup=False)
    rows = transfers(random.Random(10))
    write(rows, folder / "transfers")
    engine = ab.Engine(spark, folder / "bank")
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "transfers"))
    engine.stream("transfers", source, timestamp="ts", sequence="seq")
    query = engine.query(QUERY, "balances")
    query.start()
    query.await_idle()
    engine.stop()
    found = sums(ab.open(folder / "bank").query("balances").rows())
    wrong = [total for total in found if total != 0]
    if wrong or not found:
        raise InternalError(
            f"the sum of all balances is {wrong or 'nowhere to be seen'}",
            hint="this must never happen; please report it",
        )
    console.print(f"The sum of all balances at each of {len(found)} instants: [bold]0[/], and never anything else.")
    return found


def transfers(rng: random.Random) -> list[tuple[int, datetime, int, int, int]]:
    """At first every account sends to the next, all at once; then some send to others."""
    rows = [(number, BEGIN, number, (number + 1) % ACCOUNTS, 100) for number in range(ACCOUNTS)]
    for number in range(ACCOUNTS, TRANSFERS):
        sender, receiver = rng.sample(range(ACCOUNTS), 2)
        rows.append((number, BEGIN + timedelta(seconds=number // 2), sender, receiver, rng.randint(1, 50)))
    return rows


def write(rows: Sequence[tuple[int, datetime, int, int, int]], folder: Path) -> None:
    """Write transfers into several files, which come one after the other."""
    folder.mkdir(parents=True)
    names = [each.split()[0] for each in SCHEMA.split(", ")]
    kinds = [pa.int64(), pa.timestamp("us", "UTC"), *[pa.int64()] * 3]
    for number in range(BATCHES):
        some = rows[len(rows) * number // BATCHES : len(rows) * (number + 1) // BATCHES]
        columns = [pa.array(values, kind) for values, kind in zip(zip(*some, strict=True), kinds, strict=True)]
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns, names=names), path)
        os.utime(path, (number + 1, number + 1))  # Spark reads files in the order of their times


def sums(changes: pa.Table) -> list[int]:
    """The sum of all balances after each instant of a changelog.

    >>> changes = pa.table({"balance": [5, -5, 5, 7], "_ts": [1, 1, 2, 2], "_op": ["+", "+", "-", "+"]})
    >>> sums(changes)
    [0, 2]
    """
    moved: dict[datetime, int] = {}
    for row in changes.select(["balance", "_ts", "_op"]).to_pylist():
        moved[row["_ts"]] = moved.get(row["_ts"], 0) + (row["balance"] if row["_op"] == "+" else -row["balance"])
    total, found = 0, []
    for instant in sorted(moved):
        total += moved[instant]
        found.append(total)
    return found
