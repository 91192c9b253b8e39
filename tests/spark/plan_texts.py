"""Plans as texts, on both kinds of sessions."""

from __future__ import annotations

import re
from typing import Any, Literal

from pyspark.sql import DataFrame

from anabranch.spark.connect import is_connect


def everything(df: DataFrame) -> str:
    """All plans of a DataFrame, and what is sent to a server of Spark Connect."""
    if is_connect(df):
        connect: Any = df
        sent = connect._plan.to_proto(connect.sparkSession.client).SerializeToString()
        return f"{connect._explain_string(extended=True)} {sent.decode('latin-1')}"
    return str(df._jdf.queryExecution().toString())


def plan_text(df: DataFrame, which: Literal["optimized", "physical"]) -> str:
    """The plan that Spark would run, before or after it has chosen operators."""
    if is_connect(df):
        found: Any = df._explain_string(extended=True)  # type: ignore[operator]
        title = "Optimized Logical Plan" if which == "optimized" else "Physical Plan"
        section = re.search(rf"== {title} ==\n(.*?)(\n\n==|\Z)", found, re.DOTALL)
        assert section is not None, found
        return section[1]
    run = df._jdf.queryExecution()
    return str((run.optimizedPlan() if which == "optimized" else run.executedPlan()).toString())
