"""What statements may do when they come over HTTP.

Scripts of the operator's own files are not restricted. Statements of a client are: no functions that run Java, files
only below folders that the operator has named, no sources or sinks but files, and no subqueries where Spark would read
them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.cql import statements as cql
from anabranch.cql.dialect import parse
from anabranch.cql.problems import problem
from anabranch.errors import QueryError
from anabranch.formats import FILE_FORMATS, REPLAY

FORBIDDEN = frozenset({"reflect", "java_method", "try_reflect", "input_file_name"})
"""Functions of Spark's that run Java methods by name, or tell of the operator's files."""
FILES = (*FILE_FORMATS, "orc", "text", REPLAY)
HARMLESS = ("rate", "rate-micro-batch")
OWN_OPTIONS = {"path", "format", "speed", "timestamp", "retain", "header", "sep", "maxfilespertrigger", "multiline"}
OWN_OPTIONS |= {"rowspersecond", "rowsperbatch", "numpartitions", "timestampformat", "dateformat", "nullvalue"}


def allowed_statements(text: str, folders: Sequence[Path]) -> list[cql.Statement]:
    """The statements of a text, if all of them may come over HTTP.

    >>> [type(each).__name__ for each in allowed_statements("Show Queries; Pause busy", [])]
    ['Show', 'Pause']
    >>> allowed_statements("Select reflect('java.lang.System', 'exit', 0) From s", [])
    Traceback (most recent call last):
        ...
    anabranch.cql.problems.CQLError: function 'reflect' is not allowed over HTTP at line 1, column 8
      Select reflect('java.lang.System', 'exit', 0) From s
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: register it from a file or a program
    """
    found = parse(text)
    for statement in found:
        match statement:
            case cql.CreateStream() | cql.CreateRelation():
                _check_files(statement.name, statement.format, statement.options, folders, sink=False)
            case cql.CreateQuery():
                _check_query(statement.ast, text)
                if statement.sink is not None:
                    _check_files(statement.name, statement.sink.format, statement.sink.options, folders, sink=True)
            case cql.CreateView() | cql.SelectStatement():
                _check_query(statement.ast, text)
            case cql.Explain(target=cql.SelectStatement(ast=ast)):
                _check_query(ast, text)
            case cql.InsertStatement():
                for value in (value for row in statement.rows for value in row):
                    _check_expression(value)
            case cql.DeleteStatement():
                _check_expression(statement.condition)
    return found


def check_query(text: str) -> None:
    """Refuse a query that calls what must not be called over HTTP."""
    for statement in parse(text):
        if isinstance(statement, cql.SelectStatement | cql.CreateQuery | cql.CreateView):
            _check_query(statement.ast, text)


def _check_query(tree: exp.Expr, text: str) -> None:
    for node in tree.walk():
        name = _called(node)
        if name in FORBIDDEN:
            raise problem(
                f"function {name!r} is not allowed over HTTP", node, text, "register it from a file or a program"
            )


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _check_expression(sql: str) -> None:
    """An expression that Spark evaluates by itself: constants, columns, harmless functions."""
    try:
        tree = sqlglot.parse_one(sql, read="spark")
    except SqlglotError:
        raise QueryError(f"{sql!r} cannot be read", hint="give constants, or a plain condition") from None
    for node in tree.walk():
        if isinstance(node, exp.Query | exp.Table) or _called(node) in FORBIDDEN:
            raise QueryError(
                "a subquery, or a function that runs Java, is not allowed over HTTP",
                hint="give constants, or a plain condition",
            )


def _check_files(name: str, kind: str, options: cql.Options, folders: Sequence[Path], *, sink: bool) -> None:
    if sink and kind == "memory":
        return
    if kind.lower() in HARMLESS and not sink:
        return
    if kind.lower() not in FILES:
        raise QueryError(
            f"{'sinks' if sink else 'sources'} of the kind {kind!r} are not allowed over HTTP",
            hint="put the statement into the file that anabranch serve reads",
        )
    for key, value in options:
        if key.lower() not in OWN_OPTIONS:
            raise QueryError(f"option {key!r} of {name!r} is not allowed over HTTP", hint="leave it out")
        if key.lower() == "path":
            require_below(value, folders, name)


def require_below(path: str, folders: Sequence[Path], name: str) -> None:
    """Refuse a path that is not below one of some folders, links resolved."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file") or parts.netloc or any(each in path for each in "*?[]{},\0"):
        raise QueryError(f"the path of {name!r} is not a plain path", hint="name a folder or a file")
    real = Path(unquote(parts.path) if parts.scheme else path).resolve()
    if not any(real == folder.resolve() or real.is_relative_to(folder.resolve()) for folder in folders):
        known = ", ".join(map(str, folders)) or "none"
        raise QueryError(
            f"the path of {name!r} is outside the folders that are allowed",
            hint=f"allowed are: {known}; the operator adds one with --allow DIR",
        )
