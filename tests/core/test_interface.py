"""What users hold: nothing of how it is computed shows."""

from __future__ import annotations

from typing import Any

from anabranch.cql import Catalog, bind
from anabranch.engine.query import ContinuousQuery

INNER = {"needs", "reads", "summaries", "direct"}


def test_a_query_shows_nothing_of_how_it_is_computed() -> None:
    text, host = "Select k From s [Rows 5]", None
    query: Any = ContinuousQuery(host, bind(text, Catalog(streams={"s": ("ts", "k")}), "q"), text)  # type: ignore[arg-type]
    assert not INNER & set(dir(query))
