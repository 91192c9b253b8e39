"""CQL as a dialect of sqlglot: Spark's SQL with windows, relation-to-stream operators, and declarations.

>>> query = parse_query("Select Istream(a) From s1 [Range 1 Minute] As x")
>>> query.meta["to_stream"], query.args["from_"].this.meta["window"].span
('istream', 60000000)

References
----------
A. Arasu, S. Babu, J. Widom, *The CQL Continuous Query Language*, VLDB Journal 15(2), 2006.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from anabranch.cql.problems import CQLError, from_parser, from_tokenizer, problem
from anabranch.cql.statement_parser import StatementParser
from anabranch.cql.statements import SelectStatement, Statement


class CQL(Spark):
    """Spark's SQL, extended."""

    class Tokenizer(Spark.Tokenizer):
        """Splits declarations into tokens too, which Spark's dialect keeps as one text.

        Double quotes enclose names, as in the SQL standard: texts have single ones, which are doubled within: 'it''s'.
        """

        COMMANDS: ClassVar[set[TokenType]] = set()
        QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']

    Parser = StatementParser


def parse_nodes(text: str) -> list[exp.Expr]:
    """The statements of a script as syntax trees, each with the script as `meta["source"]`."""
    dialect = CQL()
    try:
        nodes = dialect.parse(text)
    except TokenError as error:
        raise from_tokenizer(error, text) from None
    except ParseError as error:
        raise from_parser(error, text) from None
    except RecursionError:
        raise CQLError("the query is nested too deeply", hint="split it with Create View") from None
    found = [node for node in nodes if node is not None and not isinstance(node, exp.Semicolon)]
    for node in found:
        node.meta["source"] = text
    return found


def parse(text: str) -> list[Statement]:
    """The statements of a script, separated by semicolons.

    >>> [type(each).__name__ for each in parse("Show Streams; Select k From s1 -- all of it")]
    ['Show', 'SelectStatement']

    Raises
    ------
    CQLError
        If some text is not a statement; it shows the place.
    """
    return [_statement(node, text) for node in parse_nodes(text)]


def _statement(node: exp.Expr, text: str) -> Statement:
    if "statement" in node.meta:
        statement: Statement = node.meta["statement"]
        return statement
    if not isinstance(node, exp.Query):
        raise problem("this is not a statement", node, text)
    return SelectStatement(written(node), node)


def written(query: str | exp.Query) -> str:
    """The text of a query, without what stands around it in a script."""
    if isinstance(query, str):
        return query
    source: str = query.meta.get("source", "")
    first, last = query.meta.get("text_at", (0, len(source) - 1))
    return source[first : last + 1]


def parse_query(text: str) -> exp.Query:
    """A single query."""
    nodes = parse_nodes(text)
    if len(nodes) != 1:
        raise CQLError(f"one query is expected, and there are {len(nodes)} statements", hint="Select ... From ...")
    node = nodes[0]
    if not isinstance(node, exp.Query):
        raise CQLError("a query is expected", source=text, start=len(text) - len(text.lstrip()), hint="Select ...")
    return node
