"""Functions of the user's in queries: Spark evaluates them in select lists, adaptive filters in conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.model.continuous import Scalar
from anabranch.spark.filter import Filter


class Functions:
    """Registered functions, and the filters that call them: a filter goes on learning from tick to tick."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._functions: dict[str, tuple[Callable[..., Any], str]] = {}
        self._filters: dict[tuple[str, tuple[Scalar, ...]], Filter] = {}

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._functions)

    def add(self, name: str, function: Callable[..., Any], returns: str) -> None:
        """Register a function."""
        self._functions[name] = (function, returns)
        self._spark.udf.register(name, F.udf(function, returns))

    def apply(self, query: str, df: DataFrame, conditions: Sequence[Scalar]) -> DataFrame:
        """Rows for which all conditions are true; their order adapts."""
        key = (query, tuple(conditions))
        if key not in self._filters:
            self._filters[key] = Filter(*(F.expr(each.sql) for each in conditions))
        return self._filters[key].apply(df)
