"""NEXMark through the engine: all nine queries at once, and two of them as streams that come in pieces."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.benches.nexmark import race
from anabranch.benches.nexmark.answers import QUERIES, RELATIONS, Row, at, expected
from anabranch.benches.nexmark.events import SECOND, ZERO, Nexmark, generate
from anabranch.engine.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = ("person", "auction", "bid")
INSTANTS = 20
PIECES = 3


@pytest.fixture(scope="module")
def data() -> Nexmark:
    """Half a minute: three periods of the longest window."""
    return generate(6000, seed=11, rate=200)


@pytest.fixture(scope="module")
def answers(spark: SparkSession, data: Nexmark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[Row]]:
    engine = Engine(spark, tmp_path_factory.mktemp("nexmark"))
    for name in STREAMS:
        rows = spark.createDataFrame(getattr(data, name)).repartition(2)
        engine.stream(name, rows, timestamp="ts", sequence="seq")
    for name, text in QUERIES.items():
        engine.query(text, name)
    return {name: bag(answer) for name, answer in engine.run_batch().items()}


def bag(answer: DataFrame) -> Counter[Row]:
    """Rows, with times in microseconds."""
    return Counter(map(tuple, answer.withColumn("_ts", F.unix_micros("_ts")).collect()))


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in RELATIONS])
def test_streams_are_those_of_the_other_engine(name: str, data: Nexmark, answers: dict[str, Counter[Row]]) -> None:
    assert answers[name] == expected(name, data)
    assert answers[name]


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_are_those_of_the_other_engine_at_instants(
    name: str, data: Nexmark, answers: dict[str, Counter[Row]]
) -> None:
    times = sorted({row[-2] for row in answers[name]})
    assert len(times) > INSTANTS
    for t in [*times[:: len(times) // INSTANTS], times[len(times) // 2] - 1, data.end]:
        now: Counter[Row] = Counter()
        for (*row, time, sign), n in answers[name].items():
            now[tuple(row)] += (n if sign == "+" else -n) * (time <= t)
        assert min(now.values()) >= 0
        assert +now == at(name, data, t), t


@pytest.mark.full(reason="streams in pieces are in every tier: random queries, restarts and kills")
def test_streams_in_pieces_give_the_same_up_to_the_watermark(
    spark: SparkSession, data: Nexmark, tmp_path: Path
) -> None:
    engine = Engine(spark, tmp_path / "state")
    for name in STREAMS:
        table: pa.Table = getattr(data, name)
        in_pieces(table, tmp_path / name)
        schema = spark.createDataFrame(table.slice(0, 1)).schema
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))
        engine.stream(name, source, timestamp="ts", sequence="seq", skew="1 second")
    queries = [engine.query(QUERIES[name], name) for name in ("q5", "q8")]
    for query in queries:
        query.start()
    for query, streams in zip(queries, (("bid",), ("person", "auction")), strict=True):
        query.await_idle()
        complete = min(pc.max(getattr(data, name)["ts"]).cast(pa.int64()).as_py() for name in streams) - SECOND
        want = Counter({row: n for row, n in expected(query.name, data).items() if row[-1] < complete})
        assert bag(query.to_dataframe()) == want
        assert len(want) > PIECES
    assert not any(engine.late(name).count() for name in STREAMS)
    engine.stop()


def in_pieces(table: pa.Table, folder: Path) -> None:
    """Files of rows in the order in which they arrive, each up to a second after its time."""
    rng = np.random.default_rng(3)
    arrival = table["ts"].cast(pa.int64()).to_numpy() + rng.integers(0, SECOND, len(table), endpoint=True)
    order = np.argsort(arrival)
    folder.mkdir()
    for place, rows in enumerate(np.array_split(order, PIECES)):
        path = folder / f"{place}.parquet"
        pq.write_table(table.take(pa.array(rows)), path)
        # Spark reads files by age, which it knows in milliseconds.
        os.utime(path, (ZERO // SECOND + place, ZERO // SECOND + place))


@pytest.mark.full(reason="about a bench, not about what users run")
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "q9",
            """Select b.auction, b.bidder, b.price, 1
            From auction a Join bid b On a.id = b.auction And b.ms Between a.ms And a.expires
            Qualify row_number() Over (Partition By a.id Order By b.price Desc, b.seq) = 1""",
        ),
        (
            "q7",
            """Select auction, bidder, price From bid Where auction >= 0
            Qualify price = max(price) Over (Partition By ceil(ms / 10000))""",
        ),
    ],
)
def test_the_race_asks_what_it_says(spark: SparkSession, tmp_path: Path, name: str, answer: str) -> None:
    files = race._write(tmp_path / "in", 5_000)
    _, found = race._ours(spark, race.QUERIES[name], files, tmp_path / "out")
    with duckdb.connect() as db:
        for stream, columns in race.COLUMNS.items():
            names = ["ms", *(column for column, _ in columns)]
            db.execute(f"Create Table {stream} As From read_csv('{files.whole(stream)}', names = {names})")
        assert Counter(map(tuple, found.collect())) == Counter(db.execute(answer).fetchall())
