"""Texts of expressions with other names for columns, and without their constants.

>>> substituted("`size_1` > 5 AND `dst_2` = 'x'", {"size_1": "packets.size", "dst_2": "packets.dst"})
"packets.size > 5 AND packets.dst = 'x'"
>>> substituted("`size_1` > 5", {"size_1": "packets.size"}, constant=placeholder), constants("`size_1` > 5")
('packets.size > ?', ('5',))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

CONSTANTS = (TokenType.NUMBER, TokenType.STRING)


def placeholder(_: str) -> str:
    """Any constant."""
    return "?"


def substituted(sql: str, names: Mapping[str, str], *, constant: Callable[[str], str] | None = None) -> str:
    """The text with columns called otherwise, but for fields of structs; `constant` rewrites constants, if given."""
    parts, last = [], 0
    for kind, text, start, end in _tokens(sql):
        if kind in CONSTANTS and constant is not None:
            parts += [sql[last:start], constant(sql[start:end])]
        elif kind == TokenType.IDENTIFIER and text in names:
            parts += [sql[last:start], names[text]]
        else:
            continue
        last = end
    return "".join((*parts, sql[last:]))


def constants(sql: str) -> tuple[str, ...]:
    """Numbers and texts of an expression, as they are written."""
    return tuple(sql[start:end] for kind, _, start, end in _tokens(sql) if kind in CONSTANTS)


def _tokens(sql: str) -> Iterator[tuple[TokenType, str, int, int]]:
    """Tokens with their places; what follows a dot is a field, not a column."""
    previous = None
    for token in Spark().tokenize(sql):
        if previous != TokenType.DOT:
            yield token.token_type, token.text, token.start, token.end + 1
        previous = token.token_type
