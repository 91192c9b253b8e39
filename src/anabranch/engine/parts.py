"""What the parts of one engine share."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from anabranch.engine.checkpoint import Checkpoint
from anabranch.engine.ingest import Ingest
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.registry import Registry
from anabranch.engine.result_store import ResultStore
from anabranch.engine.tick_history import TickHistory


@dataclass(frozen=True)
class EngineParts:
    """The state of an engine, by subject.

    Parameters
    ----------
    spark
        The user's session.
    checkpoint
        Has the manifest, which every tick replaces.
    registry
        Streams, relations, views and queries.
    ingest
        Takes batches of streams.
    runtime
        Compiles queries and knows their programs.
    results
        Holds answers and passes them on to sinks.
    history
        Holds what recent ticks have published.
    """

    spark: SparkSession
    checkpoint: Checkpoint
    registry: Registry
    ingest: Ingest
    runtime: QueryRuntime
    results: ResultStore
    history: TickHistory
