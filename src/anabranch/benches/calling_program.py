"""A program that asks a server about many texts; benches and tests kill it, or its workers."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.model_server import ask


def ask_all(address: str, cache: str, rows: int) -> None:
    """Ask about so many texts."""

    async def score(text: str) -> ab.Reply:
        value, tokens = await ask(address, text)
        return ab.Reply(value, tokens=tokens, money=tokens * 1e-6)

    # With up to four attempts per task, as on a cluster.
    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.range(0, rows, 1, 6).select("id", F.concat(F.lit("t"), "id").alias("text"))
    scored = ab.predicate(score, "text", returns="double", test=lambda s: s > 0.5, concurrency=16, cache=cache)
    print(ab.where(frame, scored).count())


if __name__ == "__main__":
    ask_all(sys.argv[1], sys.argv[2], int(sys.argv[3]))
