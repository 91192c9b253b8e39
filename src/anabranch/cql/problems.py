"""Errors in a query that show the place: what is wrong, line and column, the line itself underlined, and a hint.

>>> raise CQLError("unknown column 'kk'", source="Select kk From s1", start=7, end=8, hint="did you mean 'k'?")
Traceback (most recent call last):
    ...
anabranch.cql.problems.CQLError: unknown column 'kk' at line 1, column 8
  Select kk From s1
         ^^
  hint: did you mean 'k'?
"""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token

from anabranch.errors import QueryError

KEYWORDS = (
    "Select Distinct From Where Group By Having Union All Except Intersect Join On Using As And Or Not In Exists "
    "Istream Dstream Rstream Create Stream Relation Query View Timestamp Skew Arrival Sequence Idle Retain Into With "
    "Drop Pause Resume Insert Delete Show Explain Queries Streams Relations Views Sharing Advice"
).split()
CLOSE = 0.7
MISSING = "the statement ends too early"


class CQLError(QueryError):
    """A text that is not a query, or an invalid query; knows its `line` and `column`, counted from 1."""

    line: int | None = None
    column: int | None = None

    def __init__(
        self, what: str, *, source: str = "", start: int | None = None, end: int | None = None, hint: str | None = None
    ) -> None:
        if source and start is not None:
            self.line, self.column = place(source, start)
            what = f"{what} at line {self.line}, column {self.column}\n{underlined(source, start, end)}"
        super().__init__(what, hint=hint)


class PlacedParseError(ParseError):
    """A parse error that remembers the tokens around it; without `token` the text ends there."""

    def __init__(self, message: str, token: Token | None, before: Token | None, first: Token | None) -> None:
        super().__init__(message, [{"description": message}])
        self.token = token
        self.before = before
        self.first = first


def place(source: str, start: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1."""
    return source.count("\n", 0, start) + 1, start - (source.rfind("\n", 0, start) + 1) + 1


def underlined(source: str, start: int, end: int | None) -> str:
    """The line around an offset, with a mark under the text from `start` to `end` (inclusive)."""
    first = source.rfind("\n", 0, start) + 1
    line = source[first:].split("\n", 1)[0].rstrip()
    width = max(1, min((start if end is None else end) - start + 1, len(line) - (start - first)))
    blank = "".join("\t" if c == "\t" else " " for c in line[: start - first]).ljust(start - first)
    return f"  {line}\n  {blank}{'^' * width}"


def span(node: exp.Expr) -> tuple[int | None, int | None]:
    """First and last offset of what a node was parsed from, as far as its parts know."""
    known = [each.meta for each in node.walk() if "start" in each.meta]
    if not known:
        return None, None
    return min(meta["start"] for meta in known), max(meta["end"] for meta in known)


def problem(what: str, node: exp.Expr | None, source: str, hint: str | None = None) -> CQLError:
    """An error about a node of a parsed query."""
    start, end = (None, None) if node is None else span(node)
    return CQLError(what, source=source, start=start, end=end, hint=hint)


def from_tokenizer(error: TokenError, source: str) -> CQLError:
    """An error for text that falls into no tokens, such as a quote that is never closed."""
    start = len(source.rstrip()) - 1 if error.end is None else min(error.end, len(source)) - 1
    what = "the text cannot be split into words"
    return CQLError(what, source=source, start=max(start, 0), hint="close every quote and comment")


def from_parser(error: ParseError, source: str) -> CQLError:
    """An error for text that is not a statement; a word that is nearly a keyword is pointed at."""
    if not isinstance(error, PlacedParseError):
        return CQLError(str(error).split("\n", 1)[0])
    token, before = error.token, error.before
    for suspect in (before, token, error.first):
        close = suspect and get_close_matches(suspect.text.title(), KEYWORDS, n=1, cutoff=CLOSE)
        if suspect and close and suspect.text.title() not in KEYWORDS:
            return CQLError(
                f"unexpected {suspect.text!r}",
                source=source,
                start=suspect.start,
                end=suspect.end,
                hint=f"did you mean {close[0]!r}?",
            )
    return at_token(_description(error), source, token, before, _parser_hint(error))


def at_token(what: str, source: str, token: Token | None, before: Token | None, hint: str | None) -> CQLError:
    """An error that shows a token, or, where the text ends, the place behind the last one."""
    start = token.start if token else before.end + 1 if before else 0
    return CQLError(what, source=source, start=start, end=token.end if token else None, hint=hint)


def _description(error: PlacedParseError) -> str:
    message = str(error)
    if not error.token:
        return MISSING
    if message.startswith(("Required keyword", "Expecting )")):
        return f"something is missing at {error.token.text!r}"
    if "Unexpected token" in message:
        return f"unexpected {error.token.text!r}"
    return message[:1].lower() + message[1:].split(". ", 1)[0]


def _parser_hint(error: PlacedParseError) -> str | None:
    if str(error).startswith("Expecting )"):
        return "a closing parenthesis is expected here or before"
    return None
