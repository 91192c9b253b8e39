"""Adaptive, multi-route query processing for Spark.

>>> import anabranch as ab
>>> signature = ab.predicate(lambda payload: "evil" in payload, "payload", name="signature")

`ab.where(df, signature, ...)` filters a DataFrame by predicates whose order adapts while it runs; `ab.report` of the
DataFrame that it returns says what they did. An `ab.Filter` can be applied again, saved and loaded.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from anabranch.calls.rate import Rate
from anabranch.calls.reply import Reply
from anabranch.config import OrderingConfig
from anabranch.errors import AnabranchError, MissingExtra, QueriesFailed
from anabranch.model.build import lookup, predicate
from anabranch.model.stream_times import ARRIVAL, AutoSkew

if TYPE_CHECKING:
    from anabranch.console.watching import watch
    from anabranch.engine.engine import Engine
    from anabranch.engine.reader import open as open
    from anabranch.mesh.config import MeshConfig
    from anabranch.spark.continuous.replay import replay
    from anabranch.spark.filters.filter import Filter, where
    from anabranch.spark.filters.reporting import report
    from anabranch.spark.session import local_session

__version__ = "0.1.0"
__all__ = [
    "ARRIVAL",
    "AnabranchError",
    "AutoSkew",
    "Engine",
    "Filter",
    "MeshConfig",
    "OrderingConfig",
    "QueriesFailed",
    "Rate",
    "Reply",
    "local_session",
    "lookup",
    "predicate",
    "replay",
    "report",
    "watch",
    "where",
]

_NEED_SPARK = {
    "Engine": "engine.engine",
    "Filter": "spark.filters.filter",
    "local_session": "spark.session",
    "replay": "spark.continuous.replay",
    "report": "spark.filters.reporting",
    "watch": "console.watching",
    "where": "spark.filters.filter",
}
_ON_FIRST_USE = {"MeshConfig": "mesh.config", "open": "engine.reader"}
"""`open` is not in `__all__`: `from anabranch import *` leaves Python's own `open` alone."""


def __getattr__(name: str) -> Any:
    """Load what needs Spark on first use, so that the rest works without it; and what takes long to load."""
    if name in _ON_FIRST_USE:
        return getattr(import_module(f"anabranch.{_ON_FIRST_USE[name]}"), name)
    if name not in _NEED_SPARK:
        raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra("pyspark", "spark", needed_for=f"anabranch.{name}") from None
    if name == "Engine" and find_spec("py4j") is None:
        raise MissingExtra("py4j", "spark", needed_for="continuous queries, which run on a classic SparkSession")
    if name == "Engine" and find_spec("sqlglot") is None:
        raise MissingExtra("sqlglot", "cql", needed_for="anabranch.Engine")
    return getattr(import_module(f"anabranch.{_NEED_SPARK[name]}"), name)
