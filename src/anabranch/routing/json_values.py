"""Values of attributes as JSON and back: what JSON has no literal for is a text beside the name of its type.

>>> to_json(date(2026, 3, 1)), from_json({"date": "2026-03-01"})
({'date': '2026-03-01'}, datetime.date(2026, 3, 1))
>>> [to_json(v) for v in ("north", True, 3, 0.5, None, float("inf"))]
['north', True, 3, 0.5, None, {'float': 'inf'}]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

from anabranch.errors import InternalError

READERS: Mapping[str, Callable[[str], Any]] = {
    "float": float,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "decimal": Decimal,
    "binary": bytes.fromhex,
}


def to_json(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, float) and not isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):  # which is a date, too
        zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
        return {"timestamp": value.isoformat()} | ({"zone": zone} if zone else {})
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    raise InternalError(f"no JSON for a {type(value).__name__}, the value of an attribute")


def from_json(data: Any) -> Any:
    """What `to_json` wrote."""
    if not isinstance(data, Mapping):
        return data
    kind = next(iter(data))
    value = READERS[kind](data[kind])
    return value.astimezone(ZoneInfo(data["zone"])) if "zone" in data else value
