"""Everything that is registered with an engine, as its parts see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from sqlglot import exp

from anabranch.engine.inputs import StreamInput
from anabranch.engine.query import ContinuousQuery


@dataclass
class Registry:
    """Streams, relations, queries, views, and what functions return, by name."""

    streams: dict[str, StreamInput] = field(default_factory=dict)
    relations: dict[str, DataFrame] = field(default_factory=dict)
    queries: dict[str, ContinuousQuery] = field(default_factory=dict)
    views: dict[str, str | exp.Query] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
