"""The daemon of Spark's Python workers, with all imported that workers need: they are forks of it.

A worker that raises is not used again. Tests let workers raise all the time, and one that starts anew imports Arrow,
pandas and our filters for longer than most tests take. Programs that tests start have Spark's own daemon.
"""

from __future__ import annotations

import pandas  # noqa: F401, ICN001
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark import daemon

import anabranch.engine.store
import anabranch.spark.filters.filter_task  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
