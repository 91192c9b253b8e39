"""What predicates return, as values that Arrow makes the same of as Spark does."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import VariantVal

from anabranch.spark.filters.decode import Converter, is_variant, nullable, same

LOCAL: dict[str, Any] = {"ambiguous": False, "nonexistent": "shift_forward"}
"""Which instant a local time is when the clock is changed: an hour that comes twice is meant the second time."""


def encoder(kind: pa.DataType, time_zone: str | None = None) -> Converter | None:
    """From what a Python UDF of Spark may return to what Arrow makes the same of; `None` where nothing differs.

    Parameters
    ----------
    kind
        What the function returns.
    time_zone
        Session time zone, for a function of whole columns: a time without a zone is of that one. Without it, for a
        function of single values, such a time is of the process, and decimals are rounded. Both are as in Spark.

    >>> from datetime import UTC, datetime
    >>> now = datetime.now()
    >>> encoder(pa.list_(pa.timestamp("us", "UTC")))([now, None]) == [now.astimezone(UTC), None]
    True
    >>> encoder(pa.decimal128(10, 2))(Decimal("1.005"))
    Decimal('1.00')
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _process_instant if time_zone is None else partial(_session_instant, time_zone)
    if pa.types.is_decimal(kind) and time_zone is None:
        return partial(_rounded, Decimal(1).scaleb(-kind.scale), Context(prec=kind.precision, rounding=ROUND_HALF_EVEN))
    if pa.types.is_map(kind):
        key, item = nullable(encoder(kind.key_type, time_zone)), nullable(encoder(kind.item_type, time_zone))
        return None if key is item else lambda value: {key(k): item(v) for k, v in dict(value).items()}
    if pa.types.is_list(kind) and (element := encoder(kind.value_type, time_zone)):
        each = nullable(element)
        return lambda value: [each(v) for v in value]
    if pa.types.is_struct(kind):
        return _variant_parts if is_variant(kind) else _struct_encoder(kind, time_zone)
    return None


def _struct_encoder(kind: pa.DataType, time_zone: str | None) -> Converter | None:
    fields = {field.name: nullable(encoder(field.type, time_zone)) for field in kind}
    if all(convert is same for convert in fields.values()):
        return None
    return lambda value: {
        name: convert(of) for (name, convert), of in zip(fields.items(), _parts(value, fields), strict=True)
    }


def _parts(value: Any, names: Iterable[str]) -> Iterable[Any]:
    return [value.get(name) for name in names] if isinstance(value, dict) else value


def _variant_parts(value: Any) -> Any:
    return {"value": value.value, "metadata": value.metadata} if isinstance(value, VariantVal) else value


def _rounded(unit: Decimal, context: Context, value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    return None if value.is_nan() else value.quantize(unit, context=context)


def _process_instant(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _session_instant(time_zone: str, value: Any) -> Any:
    import pandas as pd

    if not isinstance(value, datetime | np.datetime64):
        return value
    time: Any = pd.Timestamp(value)
    if pd.isna(time):
        return None
    return (time if time.tzinfo else time.tz_localize(time_zone, **LOCAL)).to_pydatetime(warn=False)


def instants(series: Any, time_zone: str) -> Any:
    """Local times as instants: they are of the session's time zone, as in Spark's pandas UDFs."""
    import pandas as pd

    if getattr(series.dtype, "kind", "") != "M" or getattr(series.dtype, "tz", None) is not None:
        return series
    return pd.Series(series).dt.tz_localize(time_zone, **LOCAL)
