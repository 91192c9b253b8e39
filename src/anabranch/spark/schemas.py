"""Schemas of Spark as those of Arrow, on every version of Spark, and frames that have nothing but a schema."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

# In Spark 4.0 times are in UTC by themselves, and there is no such parameter.
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type, times in UTC."""
    return to_arrow_type(kind, **IN_UTC)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns, times in UTC."""
    return to_arrow_schema(schema, **IN_UTC)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows; `createDataFrame` would import pandas and make an RDD."""
    assert spark._jvm is not None
    columns = spark._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(spark._jvm.java.util.ArrayList(), columns), spark)
