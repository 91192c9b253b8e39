"""Two streams of files that an engine joins and counts, and what it has to answer: see `killed_engine.py`."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.cql.dialect import parse_query
from cql.answers import before, expected
from cql.oracle import Oracle
from cql.streams import SECOND, Row, Stream
from spark.killed_engine import QUERIES

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = int(ZERO.timestamp()) * SECOND
SKEW = SECOND
ARROW = pa.schema([("seq", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("a", pa.int64())])


def written(folder: Path, files: int, rng: random.Random) -> list[Stream]:
    """Two streams of files, one second each, disordered within the skew."""
    streams = []
    for name in ("lefts", "rights"):
        rows: list[Row] = []
        for number in range(files):
            times = [number * SECOND + rng.randrange(SECOND) for _ in range(6)]
            new = [(len(rows) + i, BEGIN + t, rng.randrange(4), rng.randrange(9)) for i, t in enumerate(times)]
            rows += new
            path = folder / name / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            stamped = [(s, ZERO + timedelta(microseconds=t - BEGIN), k, a) for s, t, k, a in new]
            columns = [
                pa.array(values, each.type) for values, each in zip(zip(*stamped, strict=True), ARROW, strict=True)
            ]
            pq.write_table(pa.table(columns, schema=ARROW), path)
            os.utime(path, (number + 1, number + 1))
        streams.append(Stream(name, (("k", "bigint"), ("a", "bigint")), tuple(rows), skew=SKEW))
    return streams


def delivered(folder: Path, name: str) -> Counter[Row]:
    if not (folder / "out" / name).exists():
        return Counter()
    table = pq.read_table(folder / "out" / name, partitioning=None)
    values = zip(*(table[column].to_pylist() for column in table.column_names if column[0] != "_"), strict=True)
    times = table["_ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    weights = table["_op"].to_pylist() if "_op" in table.column_names else ["+"] * len(table)
    return Counter((*row, time_, 1 if op == "+" else -1) for row, time_, op in zip(values, times, weights, strict=True))


def assert_exact(folder: Path, streams: list[Stream]) -> None:
    oracle = Oracle(streams)
    for name, text in QUERIES.items():
        ast = parse_query(text)
        shown = [max(row[1] for row in stream.rows) for stream in streams if stream.name in text]
        until = max(shown) + 1 if name == "picked" else min(shown) - SKEW
        want, got = before(expected(oracle, ast), until), delivered(folder, name)
        assert got == want, f"{name}: lost {want - got}, more than wanted {got - want}"
