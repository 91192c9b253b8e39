"""Column names as Spark reads them: a dot in a name reaches into a struct, unless a column is called just so."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def quoted(name: str) -> str:
    """A name that `F.col` takes literally, dots and all.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def unused_name(df: DataFrame, wish: str) -> str:
    """A name that no column of a DataFrame has."""
    taken = {c.lower() for c in df.columns}
    while wish.lower() in taken:
        wish += "_"
    return wish


def column(df: DataFrame, name: str) -> Column:
    """The column that a user means by a name."""
    literal = name.lower() in (c.lower() for c in df.columns)
    return F.col(quoted(name) if literal else name)
