"""Answers of queries as JSON: the latest rows of a stream, the present rows of a relation.

They are read from the checkpoint without Spark, and once for all clients as long as the query has answered nothing new.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.model.names import TS

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine
    from anabranch.engine.reader import QueryReader

SPANS = (60, 3_600, 86_400, 30 * 86_400)
"""Seconds that are looked back, one after the other, until there are rows enough."""
MOST_CACHED = 64
LONGEST_TEXT = 2_000


class Results:
    """Reads answers of an engine's queries."""

    def __init__(self, engine: Engine) -> None:
        self._reader = engine.reader()
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, int, bool], tuple[object, dict[str, Any]]] = OrderedDict()

    def rows(self, query: Mapping[str, Any], limit: int, *, changes: bool = False) -> dict[str, Any]:
        """The answer of a query, as `Engine.overview` describes it: at most so many rows, the latest ones.

        Of a relation these are the rows that are there, or with `changes` its latest changes.
        """
        name = query["name"]
        key, state = (name, limit, changes), (query["rows"], query["position"], query["text"])
        with self._lock:
            known = self._cache.get(key)
        if known is not None and known[0] == state:
            return known[1]
        found = self._read(query, limit, changes)
        with self._lock:
            self._cache[key] = (state, found)
            while len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return found

    def _read(self, query: Mapping[str, Any], limit: int, changes: bool) -> dict[str, Any]:
        as_stream = query["is_stream"] or changes
        try:
            reader = self._reader.query(query["name"])
            table = _latest(reader, limit) if as_stream else reader.current()
        except QueryError:  # no tick has answered it yet
            return {"columns": [], "rows": [], "total": 0, "kind": "changes" if as_stream else "relation"}
        total = table.num_rows
        table = table.slice(max(0, total - limit)) if as_stream else table.slice(0, limit)
        return {
            "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
            "rows": [[plain(value) for value in row.values()] for row in table.to_pylist()],
            "total": total,
            "kind": "changes" if as_stream else "relation",
        }


def _latest(reader: QueryReader, limit: int) -> pa.Table:
    for seconds in SPANS:
        table = reader.latest(seconds * 1_000_000)
        if table.num_rows >= limit:
            break
    return table.sort_by(TS)


def plain(value: Any) -> Any:
    """A value as JSON has it; times are texts, in UTC.

    >>> plain([Decimal("1.50"), float("nan"), b"ab"])
    ['1.50', None, '6162']
    """
    match value:
        case None | bool() | str():
            return value[:LONGEST_TEXT] if isinstance(value, str) else value
        case int():
            return value if abs(value) < 2**53 else str(value)
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta() | Decimal():
            return str(value)
        case bytes():
            return value.hex()[:LONGEST_TEXT]
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return str(value)
