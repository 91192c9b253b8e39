"""The demo's second part: a continuous query on the same packets, as they come hour by hour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import anabranch as ab
from anabranch.cli.live import watch
from anabranch.cli.tables import rich_table

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

QUERY = """
    Select Rstream(net, Count(*) As packets, Count(Distinct src) As sources)
    From (Select substring_index(dst, '.', 2) As net, src From packets [Range 30 Minutes Slide 30 Minutes]) As recent
    Group By net Having Count(*) > {least}
"""
WORTH_TELLING = 0.05


def run(spark: SparkSession, hours: Sequence[Path], rows: int, folder: Path, console: Console) -> list[Row]:
    """Run the query over the packets as a stream, show how far it is, and print the busiest networks."""
    least = int(WORTH_TELLING * rows / (2 * len(hours)))
    text = QUERY.format(least=least)
    console.print(
        "\nA continuous query: networks with more than a share of the last half hour's packets, every half hour"
    )
    console.print(text.strip("\n"), style="bright_black", markup=False)
    source = spark.readStream.schema(spark.read.parquet(str(hours[0])).schema)
    stream = source.option("maxFilesPerTrigger", len(list(hours[0].glob("*.parquet")))).parquet(
        str(hours[0].parent / "*")
    )
    engine = ab.Engine(spark, folder / "continuous")
    engine.stream("packets", stream, timestamp="ts", sequence="seq")
    query = engine.query(text, name="busy")

    def answered() -> None:
        query.start()
        query.await_idle()

    seconds = watch(console, "continuous ", answered, lambda: engine.rows_taken("packets") / rows)
    found = query.to_dataframe().orderBy("_ts", "net").collect()
    engine.stop()
    last = [row for row in found if row["_ts"] == found[-1]["_ts"]]
    console.print(_table(last))
    console.print(f"The latest answer; those before it had {len(found) - len(last):,} rows.")
    console.print(f"{rows:,} packets in {seconds:.1f} s; the answer is the same however they are cut into batches.")
    return found


def _table(found: Sequence[Row]) -> Table:
    rows = ((f"{row['_ts']:%H:%M}", row["net"], f"{row['packets']:,}", f"{row['sources']:,}") for row in found)
    return rich_table(("at", "network", "packets", "sources"), rows, left=("at", "network"))
