"""Adaptive, multi-route query processing for Spark.

>>> import anabranch as ab
>>> signature = ab.predicate(lambda payload: "evil" in payload, "payload", name="signature")

`ab.where(df, signature, ...)` filters a DataFrame by predicates whose order adapts while it runs; `ab.Filter` keeps the
report, the events and the rows set aside.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from anabranch.config import OrderingConfig
from anabranch.errors import AnabranchError, MissingExtra, QueriesFailed
from anabranch.model.build import lookup, predicate

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine
    from anabranch.spark.filter import Filter, where
    from anabranch.spark.replay import replay
    from anabranch.spark.session import local_session

__version__ = "0.1.0"
__all__ = [
    "AnabranchError",
    "Engine",
    "Filter",
    "OrderingConfig",
    "QueriesFailed",
    "local_session",
    "lookup",
    "predicate",
    "replay",
    "where",
]

_NEED_SPARK = {
    "Engine": "engine.engine",
    "Filter": "spark.filter",
    "local_session": "spark.session",
    "replay": "spark.replay",
    "where": "spark.filter",
}


def __getattr__(name: str) -> Any:
    """Load what needs Spark on first use, so that the rest works without it."""
    if name not in _NEED_SPARK:
        raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra("pyspark", "spark", needed_for=f"anabranch.{name}") from None
    if name == "Engine" and find_spec("sqlglot") is None:
        raise MissingExtra("sqlglot", "cql", needed_for="anabranch.Engine")
    return getattr(import_module(f"anabranch.{_NEED_SPARK[name]}"), name)
