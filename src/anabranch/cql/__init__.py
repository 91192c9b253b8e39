"""CQL, the language of continuous queries: SQL with windows over streams, and with ways back to a stream."""

from __future__ import annotations

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, FunctionInfo
from anabranch.cql.dialect import CQL, parse_query
from anabranch.cql.problems import CQLError
from anabranch.cql.rendering import mermaid, render
from anabranch.logical_plan import WindowSpec

__all__ = ["CQL", "CQLError", "Catalog", "FunctionInfo", "WindowSpec", "bind", "mermaid", "parse_query", "render"]
