"""A script as a list of statements.

>>> [type(each).__name__ for each in parse("Show Streams; Select k From s1 -- all of it")]
['Show', 'SelectStatement']
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.cql.declarations import (
    CreateQuery,
    CreateRelation,
    CreateStream,
    CreateView,
    DropStatement,
    Explain,
    Pause,
    Resume,
    SelectStatement,
    Show,
    Sink,
    Statement,
)
from anabranch.cql.dialect import parse_nodes, written
from anabranch.cql.problems import CQLError, span

__all__ = [
    "CreateQuery",
    "CreateRelation",
    "CreateStream",
    "CreateView",
    "DropStatement",
    "Explain",
    "Pause",
    "Resume",
    "SelectStatement",
    "Show",
    "Sink",
    "Statement",
    "parse",
]


def parse(text: str) -> list[Statement]:
    """The statements of a script, separated by semicolons.

    Raises
    ------
    CQLError
        If some text is no statement; it shows the place.
    """
    return [_statement(node, text) for node in parse_nodes(text)]


def _statement(node: exp.Expr, text: str) -> Statement:
    if "statement" in node.meta:
        statement: Statement = node.meta["statement"]
        return statement
    if not isinstance(node, exp.Query):
        start, end = span(node)
        raise CQLError("this is no statement", source=text, start=start, end=end)
    return SelectStatement(written(node), node)
