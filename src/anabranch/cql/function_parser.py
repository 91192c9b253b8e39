"""Calls of functions are kept as they are written: what a function is called, and what it does, is Spark's business.

sqlglot knows hundreds of functions under names of its own, and translates them. Here a call is an `Anonymous` node with
the written name in lower case, but for calls with a syntax of their own, such as `Cast(a As Long)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot._typing import E
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

SYNTAXES = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")
WITH_UNIT = ("DATEADD", "DATE_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMEDIFF")
WITHOUT_PARENTHESES = (
    TokenType.CURRENT_DATE,
    TokenType.CURRENT_TIMESTAMP,
    TokenType.CURRENT_USER,
    TokenType.SESSION_USER,
)


def _with_unit(name: str, args: list[exp.Expr]) -> exp.Expr:
    """The first of three arguments is a unit of time, as in `date_add(Month, 1, ts)`."""
    if len(args) == 3 and isinstance(args[0], exp.Column) and not args[0].table:
        args = [exp.Var(this=args[0].name), *args[1:]]
    return exp.Anonymous(this=name, expressions=args)


def _exists(args: list[exp.Expr]) -> exp.Expr:
    """`Exists ((Select ...) Union (Select ...))` begins like a call of the function on arrays."""
    if len(args) == 1 and isinstance(args[0], exp.Query):
        return exp.Exists(this=args[0])
    return exp.Anonymous(this="exists", expressions=args)


class FunctionParser(SparkParser):
    """Parses expressions of Spark's SQL."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: partial(_with_unit, name.lower()) for name in WITH_UNIT},
        "EXISTS": _exists,
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in SYNTAXES
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {
        token: partial(exp.Anonymous, this=token.name.lower()) for token in WITHOUT_PARENTHESES
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
    }

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # `array(a, b)[0]` is a part of an array

    def expression(self, instance: E, token: Token | None = None, comments: list[str] | None = None) -> E:
        """A finished node; calls get the name in lower case, and without parentheses a place."""
        bare = isinstance(instance, exp.Anonymous) and "expressions" not in instance.args
        if isinstance(instance, exp.Anonymous) and isinstance(instance.this, str):
            instance.set("this", instance.this.lower())
        return super().expression(instance, self._prev if bare else token, comments)
