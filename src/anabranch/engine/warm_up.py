"""Python workers, and hosts of cells, that are there when they are needed.

A worker's first task waits until it has started and imported Arrow and pandas, and until the host of its cell has
imported our operators, which takes seconds. While the driver still makes plans, they can do so already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.spark.continuous.hosted_task import FAMILY, start_hosts

_begun: set[str] = set()


def warm_up(spark: SparkSession) -> None:
    """Let the workers of a session start in the background, once; a job that needs them earlier waits."""
    application, tasks = spark.sparkContext.applicationId, spark.sparkContext.defaultParallelism
    if application in _begun:
        return
    _begun.add(application)
    thread = threading.Thread(target=_start, args=(spark, tasks), name="anabranch-warm-up", daemon=True)
    thread.start()


def _start(spark: SparkSession, tasks: int) -> None:
    with suppress(Exception):  # a session that is stopped meanwhile needs no workers
        spark.range(0, tasks, 1, tasks).mapInArrow(partial(_import, FAMILY), "id long").collect()


def _import(family: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import anabranch.engine.store  # noqa: F401

    start_hosts(family)

    pa.array([0.0]).to_pandas()
    yield from batches
