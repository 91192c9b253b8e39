"""The demo's last part: the console on the packets as a stream, until it is interrupted."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import anabranch as ab
from anabranch.cli import packets
from anabranch.errors import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PERIOD_SECONDS = 2.0
QUERIES = {
    "busy": "Select port, Count(*) As n From packets [Range 10 Minutes] Group By port",
    "traffic": "Select port, Count(*) As packets From packets [Range 10 Minutes] Group By port",
    "suspicious": """Select src, dst, port From packets
Where signature(payload) And encoded(payload) And anonymous(payload)""",
}
Wait = Callable[[Any], None]


def until_interrupted(_: Any) -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()


def run(
    spark: SparkSession,
    hours: Sequence[Path],
    folder: Path,
    console: Console,
    *,
    wait: Wait = until_interrupted,
    home: Path | None = None,
) -> None:
    """Serve the console while the packets come, a file after the other.

    Parameters
    ----------
    wait
        Returns when the console may go; called with its service.
    home
        The folder of its tokens.
    """
    incoming = folder / "incoming"
    incoming.mkdir()
    source = spark.readStream.schema(spark.read.parquet(str(hours[0])).schema)
    engine = ab.Engine(spark, folder / "console")
    engine.stream("packets", source.parquet(str(incoming)), timestamp="ts", sequence="seq")
    for function in (packets.signature, packets.encoded, packets.anonymous):
        engine.function(function.__name__, function)
    for name, text in QUERIES.items():
        engine.query(text, name=name).start()
    try:
        service = engine.serve(port=0, home=home)
    except MissingExtra as missing:
        console.print(f"The console is left out: {missing}", markup=False)
        engine.stop()
        return
    stopping = threading.Event()
    feed = threading.Thread(target=_bring, args=(hours, incoming, stopping), name="packets", daemon=True)
    feed.start()
    console.print(f"\nThe console, while the packets come again: {service.url}", soft_wrap=True, highlight=False)
    console.print("See Decisions and River as the hours change; Ctrl-C ends the demo.")
    try:
        wait(service)
    except KeyboardInterrupt:
        console.print("stopping")
    finally:
        stopping.set()
        feed.join()
        service.stop()
        engine.stop()


def _bring(hours: Sequence[Path], incoming: Path, stopping: threading.Event) -> None:
    """Copy the files one after the other."""
    for number, file in enumerate(chain.from_iterable(sorted(hour.glob("*.parquet")) for hour in hours)):
        hidden = incoming / f".{number:05}"
        shutil.copyfile(file, hidden)
        hidden.rename(incoming / f"{number:05}.parquet")
        if stopping.wait(PERIOD_SECONDS):
            return
