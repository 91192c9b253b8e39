"""`window(ts, '5 seconds')` as Spark has it: the span of time that a row falls into, with a start and an end.

It is a value of its row, computed from its arguments alone: rows without a time have none. Spans are counted from 1970
on, in UTC. In a query that is grouped by it, `window.start` and `window.end` stand for it in Select and Having.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from anabranch.cql.scopes import Scope
from anabranch.model.time_units import UNITS, in_words, microseconds

NAME = "window"
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def expand_windows(select: exp.Select, scope: Scope) -> None:
    """Replace the calls of a query, and names that stand for the one in Group By, by what they mean."""
    group = select.args.get("group")
    grouped = list(_calls(group)) if group else []
    if grouped and not scope.holders(NAME) and scope.source(NAME) is None:
        _replace_names(select, grouped[0])
    for each in select.expressions:
        if _is_call(each):
            each.replace(exp.alias_(each.copy(), NAME))
    for call in list(_calls(select)):
        call.replace(_span_of(call, scope))


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == NAME


def _own(node: exp.Expr) -> Iterator[exp.Expr]:
    """Its parts, but for those of queries in it, which are bound on their own."""
    return node.walk(bfs=False, prune=lambda each: isinstance(each, exp.Query) and each is not node)


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    return filter(_is_call, _own(node))


def _replace_names(select: exp.Select, call: exp.Expr) -> None:
    for node in [*select.expressions, *filter(None, [select.args.get("having")])]:
        for column in [each for each in _own(node) if isinstance(each, exp.Column)]:
            first, *fields = column.parts
            if first.name.lower() == NAME:
                made: exp.Expr = call.copy()
                for field in fields:
                    made = exp.Dot(this=made, expression=exp.to_identifier(field.name, quoted=True))
                column.replace(made)


def _span_of(call: exp.Expr, scope: Scope) -> exp.Expr:
    """The start and the end of the span, by arithmetic in microseconds."""
    if len(call.expressions) not in (2, 3, 4):
        raise scope.context.error("window() takes a time and a length", call, "as in window(ts, '5 seconds')")
    time, *lengths = call.expressions
    length, *more = [_micros(each, call, scope) for each in lengths]
    slide, offset = [*more, length, 0][:2] if len(more) < 2 else more
    if slide != length:
        hint = (
            f"use a window on the stream, as in s1 [Range {in_words(length).title()} Slide {in_words(slide).title()}]"
        )
        raise scope.context.error("window() with a slide puts a row into several windows", call, hint)
    if not length:
        raise scope.context.error("window() needs a length above zero", call, "as in window(ts, '5 seconds')")
    micros = _function("unix_micros", exp.cast(time.copy(), "timestamp"))
    since = exp.Sub(this=micros.copy(), expression=exp.Literal.number(offset)) if offset else micros.copy()
    start = exp.Sub(this=micros, expression=_function("pmod", since, exp.Literal.number(length)))
    end = exp.Add(this=exp.paren(start.copy()), expression=exp.Literal.number(length))
    made = _function(
        "named_struct",
        exp.Literal.string("start"),
        _function("timestamp_micros", start),
        exp.Literal.string("end"),
        _function("timestamp_micros", end),
    )
    made.meta.update(call.meta)
    return made


def _function(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _micros(node: exp.Expr, call: exp.Expr, scope: Scope) -> int:
    """A length such as `'1 hour 30 minutes'`."""
    text = node.name.strip() if isinstance(node, exp.Literal) and node.is_string else ""
    found = _PARTS.findall(text)
    parts = [microseconds(number, unit) for number, unit in found]
    if not found or _PARTS.sub("", text) or None in parts:
        hint = f"as in window(ts, '5 seconds'); the units are {', '.join(UNITS)}"
        raise scope.context.error("window() needs lengths of time as texts", call, hint)
    return sum(part for part in parts if part is not None)
