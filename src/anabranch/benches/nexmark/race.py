"""`anabranch bench nexmark`: NEXMark's queries with joins and windows, against Flink on the same rows.

Times are milliseconds here, and queries the same in both languages: windows of ten seconds have ten thousand of them.
Relations (q4, q9) are compared as they are at the end. A last row of each stream, long after the
others, lets time be complete for all of them; it is in no answer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches import flink
from anabranch.benches.csv_contest import Contender, Files, contest, write
from anabranch.benches.harness import run
from anabranch.benches.nexmark.events import Nexmark, generate
from anabranch.measure import Bar, at_least, informed

SEED = 20_260_024
BATCHES = 5
FEW_EVENTS = 200
RATE = 10_000
LAST_MILLIS = 20_000
NOBODY = -1
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "person": tuple(zip(("seq", "id", "name", "city", "state"), ("BIGINT", "BIGINT", *3 * ("STRING",)), strict=True)),
    "auction": tuple((name, "BIGINT") for name in ("seq", "id", "seller", "category", "expires")),
    "bid": tuple((name, "BIGINT") for name in ("seq", "auction", "bidder", "price")),
}
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}
"""What Flink's own runs of NEXMark set."""


@dataclass(frozen=True)
class Query:
    """A query in both languages.

    Parameters
    ----------
    streams
        What it reads.
    cql, flink
        Its texts.
    columns
        Names and types of the answer, as Flink declares them.
    relation
        Whether it answers with a relation that changes, not with a stream.
    """

    streams: tuple[str, ...]
    cql: str
    flink: str
    columns: str
    relation: bool = False

    @property
    def names(self) -> list[str]:
        """Of the columns of the answer."""
        return [column.split()[0] for column in self.columns.split(", ")]


_VALID = "A.id = B.auction And B.ms >= A.ms And B.ms <= A.expires"
_BEST = "B.price * 1000000000 - B.seq"  # of equal prices, the first one
_COUNTS = "(Select auction, Count(*) As n From bid [Range 9999 Milliseconds Slide 2 Seconds] Group By auction)"
_LATER = "INTERVAL '0.001' SECOND(1, 3)"  # windows begin behind a full second, and end with one
_FLINK_COUNTS = f"""
    (SELECT auction, COUNT(*) AS n, window_start, window_end
     FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND, {_LATER}))
     GROUP BY auction, window_start, window_end)"""
QUERIES = {
    "q3": Query(
        ("person", "auction"),
        """
Select Istream(P.name, P.city, P.state, A.id) From auction As A, person As P
Where A.seller = P.id And A.category = 10 And P.state In ('OR', 'ID', 'CA')""",
        """
SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
        "name STRING, city STRING, state STRING, id BIGINT",
    ),
    "q4": Query(
        ("auction", "bid"),
        f"""
Select M.category, Sum(M.price) As total, Count(*) As auctions
From (Select A.id, A.category, Max(B.price) As price From auction As A, bid As B
      Where {_VALID} Group By A.id, A.category) As M
Group By M.category""",
        f"""
SELECT category, SUM(price), COUNT(*)
FROM (SELECT A.id, A.category, MAX(B.price) AS price FROM auction A, bid B WHERE {_VALID} GROUP BY A.id, A.category)
GROUP BY category""",
        "category BIGINT, total BIGINT, auctions BIGINT",
        relation=True,
    ),
    "q5": Query(
        ("bid",),
        f"""
Select Rstream(C.auction, C.n) From {_COUNTS} As C, (Select Max(D.n) As m From {_COUNTS} As D) As M Where C.n = M.m""",
        f"""
SELECT C.auction, C.n FROM {_FLINK_COUNTS} C
JOIN (SELECT MAX(n) AS m, window_start, window_end FROM {_FLINK_COUNTS} GROUP BY window_start, window_end) M
ON C.window_start = M.window_start AND C.window_end = M.window_end AND C.n = M.m""",
        "auction BIGINT, n BIGINT",
    ),
    "q7": Query(
        ("bid",),
        """
Select Istream(B.auction, B.bidder, B.price) From bid [Range 9999 Milliseconds Slide 10 Seconds] As B,
    (Select Max(price) As top From bid [Range 9999 Milliseconds Slide 10 Seconds]) As M
Where B.price = M.top""",
        f"""
SELECT B.auction, B.bidder, B.price
FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, {_LATER}))) B
JOIN (SELECT MAX(price) AS top, window_start, window_end
      FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, {_LATER})) GROUP BY window_start, window_end) M
ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.price = M.top""",
        "auction BIGINT, bidder BIGINT, price BIGINT",
    ),
    "q8": Query(
        ("person", "auction"),
        """
Select Istream(P.id, P.name, A.id As auction) From person [Range 10 Seconds] As P, auction [Range 10 Seconds] As A
Where P.id = A.seller""",
        """
SELECT P.id, P.name, A.id FROM person P, auction A
WHERE P.id = A.seller AND A.ts BETWEEN P.ts - INTERVAL '10' SECOND AND P.ts + INTERVAL '10' SECOND""",
        "id BIGINT, name STRING, auction BIGINT",
    ),
    "q9": Query(
        ("auction", "bid"),
        f"""
Select B.auction, B.bidder, B.price
From (Select A.id, Max({_BEST}) As best From auction As A, bid As B Where {_VALID} Group By A.id) As W, bid As B
Where B.auction = W.id And {_BEST} = W.best""",
        f"""
SELECT auction, bidder, price
FROM (SELECT B.auction, B.bidder, B.price,
             ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.seq ASC) AS place
      FROM auction A, bid B WHERE {_VALID})
WHERE place = 1""",
        "auction BIGINT, bidder BIGINT, price BIGINT",
        relation=True,
    ),
    "q20": Query(
        ("auction", "bid"),
        """
Select Istream(B.auction, B.bidder, B.price, A.seller, A.expires) From bid As B, auction As A
Where B.auction = A.id And A.category = 10""",
        """
SELECT B.auction, B.bidder, B.price, A.seller, A.expires FROM bid B JOIN auction A ON B.auction = A.id
WHERE A.category = 10""",
        "auction BIGINT, bidder BIGINT, price BIGINT, seller BIGINT, expires BIGINT",
    ),
}


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every query: see `harness.run`."""
    return run([nexmark], quick=quick, json_path=json_path)


def nexmark(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Events per second of each query, ours divided by Flink's."""
    events, rounds = (300_000, 1) if quick else (1_000_000, 2)
    python = flink.python()
    given, small = (_write(folder / str(count), count) for count in (events, FEW_EVENTS))
    bars, ratios = [], []
    for name, query in QUERIES.items():
        contenders: dict[str, Contender] = {"ours": partial(_ours, spark, query)}
        if python is not None:
            contenders["Flink"] = partial(_flink, spark, python, query, small)
        contenders["ours again"] = contenders["ours"]
        race = contest(contenders, given, small, folder, rounds)
        rows = sum(_events(given, stream) for stream in query.streams)
        note = f"{rows:,} events: {race.describe(*contenders)}, {race.answer[0] if race.answer else 0:,} answers"
        bars.append(informed(f"{name}: A/A control", race.ratio("ours again", "ours"), note))
        if python is not None:
            ratios.append(race.ratio("Flink", "ours"))
            bars.append(at_least(f"{name}: events/s of ours / Flink", ratios[-1], 1.0, note))
        else:
            bars.append(informed(f"{name}: events/s of ours", rows / race.median("ours"), note))
    if ratios:
        mean = statistics.geometric_mean(ratios)
        bars.append(at_least("geometric mean of events/s, ours / Flink", mean, 2.0, ", ".join(QUERIES)))
    return bars


def _events(files: Files, stream: str) -> int:
    with files.whole(stream).open("rb") as lines:
        return sum(1 for _ in lines)


def _write(folder: Path, events: int) -> Files:
    """Batches that end at the same times in all streams."""
    made: Nexmark = generate(events, SEED, rate=RATE)
    tables = {name: _table(name, getattr(made, name)) for name in COLUMNS}
    first, last = (pick(table["ms"].to_numpy()) for pick, table in ((min, tables["bid"]), (max, tables["bid"])))
    ends = np.linspace(first, last + 1, BATCHES + 1)[1:-1]
    batches = {}
    for name, table in tables.items():
        cuts = [0, *np.searchsorted(table["ms"].to_numpy(), ends), len(table)]
        parts = [table.slice(begin, end - begin) for begin, end in pairwise(cuts)]
        batches[name] = [*parts[:-1], pa.concat_tables([parts[-1], _last_row(table, int(last) + LAST_MILLIS)])]
    return write(folder, COLUMNS, batches)


def _table(stream: str, events: pa.Table) -> pa.Table:
    columns = {"ms": _millis(events["ts"])}
    for name, _ in COLUMNS[stream]:
        columns[name] = _millis(events[name]) if name == "expires" else events[name]
    return pa.table(columns)


def _millis(times: pa.ChunkedArray) -> pa.Array:
    return pa.array(times.cast(pa.int64()).to_numpy() // 1000)


def _last_row(table: pa.Table, millis: int) -> pa.Table:
    """A row that matches nobody, at a time after all others."""
    row = {name: NOBODY if pa.types.is_integer(table.schema.field(name).type) else "" for name in table.column_names}
    return pa.Table.from_pylist([row | {"ms": millis}], schema=table.schema)


def _ours(spark: SparkSession, query: Query, given: Files, out: Path) -> tuple[float, DataFrame]:

    engine = ab.Engine(spark, out / "state")
    for name in query.streams:
        rows = given.read(spark, name).withColumn("ms", F.unix_millis("ts"))
        engine.stream(name, rows, timestamp="ts", sequence="seq")
    running = engine.query(query.cql, name="q")
    began = time.perf_counter()
    running.start(sink="parquet", path=str(out / "answer"))
    running.await_idle()
    seconds = time.perf_counter() - began
    engine.stop()
    written, columns = out / "answer", f"{query.columns}, _op STRING"
    found = spark.read.parquet(str(written)) if written.exists() else spark.createDataFrame([], columns)
    sign = F.when(F.col("_op") == "+", 1).otherwise(-1) if query.relation else F.lit(1)
    return seconds, _answer(found.select(*query.names, sign.alias("sign")), query)


def _flink(
    spark: SparkSession, python: str, query: Query, small: Files, given: Files, out: Path
) -> tuple[float, DataFrame]:
    seconds = flink.seconds(
        python,
        out,
        given.for_flink(query.streams),
        small.for_flink(query.streams),
        query.columns,
        query.flink,
        format="debezium-json" if query.relation else "csv",
        settings=MINI_BATCHES,
    )
    if not query.relation:
        return seconds, _answer(
            spark.read.schema(query.columns).csv(str(out / "answer")).withColumn("sign", F.lit(1)), query
        )
    row = f"struct<{', '.join(column.replace(' ', ':') for column in query.columns.split(', '))}>"
    changes = spark.read.schema(f"before {row}, after {row}, op string").json(str(out / "answer"))
    after = changes.where("after is not null").select("after.*", F.lit(1).alias("sign"))
    before = changes.where("before is not null").select("before.*", F.lit(-1).alias("sign"))
    return seconds, _answer(after.unionByName(before), query)


def _answer(changes: DataFrame, query: Query) -> DataFrame:
    """The bag of rows that changes lead to, without those of the last row."""
    first = query.names[0]
    kept = changes if dict(changes.dtypes)[first] == "string" else changes.where(F.col(first) != NOBODY)
    if not query.relation:
        return kept.drop("sign")
    return kept.groupBy(*query.names).agg(F.sum("sign").alias("copies")).where("copies <> 0")
