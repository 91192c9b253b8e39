"""Column names as Spark reads them: a dot in a name reaches into a struct, unless a column is called just so.

Names are the same in any case of letters, unless the session is case-sensitive.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.model.names import quoted


def folding(spark: SparkSession) -> Callable[[str], str]:
    """Makes names equal that are the same to a session."""
    return str if spark.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def unused_name(df: DataFrame, wish: str) -> str:
    """A name that no column of a DataFrame has."""
    taken = {c.lower() for c in df.columns}
    while wish.lower() in taken:
        wish += "_"
    return wish


def column(df: DataFrame, name: str) -> Column:
    """The column that a user means by a name."""
    return F.col(written(df, name))


def written(df: DataFrame, name: str) -> str:
    """How the column that a user means by a name is written for Spark."""
    return quoted(name) if name.lower() in (c.lower() for c in df.columns) else name
