"""What sessions of Spark Connect have instead of Java objects: the plan, as a text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors import ResourceError
from anabranch.spark.quiet_errors import quiet_errors


def is_connect(item: Any) -> bool:
    """Whether a DataFrame or a session speaks to a server by Spark Connect."""
    return type(item).__module__.startswith("pyspark.sql.connect")


def plan_text(df: DataFrame, section: str) -> str:
    """A part of what `explain(extended=True)` prints: the `Analyzed` or the `Optimized` plan."""
    text: str = df._explain_string(extended=True)  # type: ignore[operator]
    found = re.search(rf"== {section} Logical Plan ==\n(.*?)\n\n==", text, re.DOTALL)
    return found[1] if found else ""


@cache
def observes(spark: SparkSession) -> bool:
    """Whether a server of Spark Connect hands back what is observed, as Spark does; others are asked once."""
    if spark.conf.get("spark.app.id", None) is not None:
        return True
    from pyspark.sql.connect.observation import Observation

    try:
        with quiet_errors():
            spark.range(1).observe(Observation(), F.count(F.lit(1)).alias("rows")).collect()  # type: ignore[arg-type]
    except PySparkException:
        return False
    return True


def require_classic(spark: SparkSession) -> None:
    """Refuse a session of Spark Connect for continuous queries, and say what would work."""
    if is_connect(spark):
        raise ResourceError(
            "continuous queries need a classic SparkSession: they make plans through Spark's Java objects, and their "
            "ticks run on the driver, beside Spark",
            hint="run the engine on the driver's machine, with SparkSession.builder.getOrCreate() or "
            "ab.local_session(); filters (ab.where, ab.Filter) and answers (ab.open) work with Spark Connect",
        )
