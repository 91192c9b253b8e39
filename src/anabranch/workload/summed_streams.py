"""Groups that need no rows: counts and sums of what slides together are made as rows come.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> text = "Select dst, Sum(size * 8) As bits From packets [Range 10 Minutes{}] Group By dst"
>>> plans = [bind(text.format(slide), catalog, "q").plan for slide in (" Slide 1 Minute", "")]
>>> types = {"packets": {"dst": "string", "size": "bigint"}}
>>> [sums_suffice(plan, types) for plan in plans if isinstance(plan, Aggregate)]
[True, False]
>>> sums_suffice(with_slide(plans[1], 60_000_000), types)
True

Notes
-----
The rule is that of `planning/reading.py`, where types come from Spark. Here only columns, and sums, differences and
products of them, are known to be integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from anabranch.logical_plan import Aggregate, Filter, Plan, Project, Scan, Window, walk
from anabranch.operators.aggregate_functions import FUNCTIONS, Needs
from anabranch.planning.rules import with_inputs
from anabranch.planning.shapes import slides

INTEGERS = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")
INTEGER_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Neg, exp.Paren)

Types = Mapping[str, Mapping[str, str]]
"""Of columns, by stream and name, in Spark's SQL."""
Node = TypeVar("Node", bound=Plan)


def sums_suffice(plan: Aggregate, types: Types) -> bool:
    """Whether groups are computed from sums that are made as rows come: then their stream's rows are not kept."""
    if not slides(plan.input) or any(isinstance(node, Filter) for node in walk(plan.input)):
        return False
    functions = [(each, FUNCTIONS[each.function]) for each in plan.aggregations]
    if not all(function.additive and not each.distinct for each, function in functions):
        return False
    summed = [each.argument for each, function in functions if each.argument and function.needs is not Needs.COUNTS]
    return all(_is_integer(plan.input, name, types) for name in summed)


def with_slide(plan: Node, slide: int) -> Node:
    """A plan whose windows slide by so many microseconds."""
    made = with_inputs(plan, tuple(with_slide(each, slide) for each in plan.inputs))
    return replace(made, slide=slide) if isinstance(made, Window) else made  # type: ignore[return-value]


def would_suffice(plan: Aggregate, types: Types) -> bool:
    """Whether sums would be enough if the window did slide, which it does not."""
    windows = [each for each in walk(plan.input) if isinstance(each, Window)]
    moves = len(windows) == 1 and bool(windows[0].span) and windows[0].slide is None
    return moves and sums_suffice(with_slide(plan, 1), types)


def row_scans(plan: Plan, types: Types, *, sliding: bool = False) -> Iterator[Scan]:
    """The scans of a plan whose rows are read, and not only sums; if `sliding`, even if all windows did slide."""
    if isinstance(plan, Scan):
        yield plan
        return
    if isinstance(plan, Aggregate) and (sums_suffice(plan, types) or (sliding and would_suffice(plan, types))):
        return
    for each in plan.inputs:
        yield from row_scans(each, types, sliding=sliding)


def _is_integer(plan: Plan, name: str, types: Types) -> bool:
    match plan:
        case Scan():
            there = next(there for there, unique in plan.renamed if unique == name)
            return types.get(plan.name, {}).get(there, "").lower() in INTEGERS
        case Window():
            return _is_integer(plan.input, name, types)
        case Project():
            return _computes_integer(dict(plan.items)[name].tree, plan.input, types)
        case _:
            return False


def _computes_integer(node: exp.Expr, plan: Plan, types: Types) -> bool:
    if isinstance(node, exp.Column):
        return not node.table and _is_integer(plan, node.name, types)
    if isinstance(node, exp.Literal):
        return bool(node.is_int)
    parts = [each for each in (node.this, node.args.get("expression")) if each is not None]
    return isinstance(node, INTEGER_ARITHMETIC) and all(_computes_integer(each, plan, types) for each in parts)
