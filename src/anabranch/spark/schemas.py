"""Schemas of Spark as those of Arrow, on every version of Spark."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# In Spark 4.0 times are in UTC by themselves, and there is no such parameter.
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns, times in UTC."""
    return to_arrow_schema(schema, **IN_UTC)
