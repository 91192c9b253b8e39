"""Properties of logical plans that hold at all times: whether rows only enter, and which columns are never NULL.

`Not In` is simpler where no NULL can come: a row without a value there has been dropped before.

>>> from anabranch.logical_plan import Scalar
>>> cars = Window(Scan("cars", "stream", (("sid", "sid_1"),)))
>>> on_road = Filter(cars, (Scalar.parsed("`sid_1` + 1 > 0"),))
>>> never_null(cars, "sid_1"), never_null(on_road, "sid_1")
(False, True)
>>> grows(on_road), grows(Window(cars.input, rows=5))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from anabranch.logical_plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Scan,
    SetOperation,
    ToStream,
    Window,
)
from anabranch.operators.aggregate_functions import FUNCTIONS

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def grows(plan: Plan) -> bool:
    """Whether rows enter a relation and never leave it; with a slide they enter later, and stay as well."""
    for node in _above_streams(plan):
        bounded = isinstance(node, Window) and not node.unbounded
        shrinks = isinstance(node, Aggregate) or (isinstance(node, SetOperation) and node.kind == "except")
        changes = isinstance(node, Scan) and node.changing
        if bounded or shrinks or changes or (isinstance(node, Member) and node.negated):
            return False
    return True


def _above_streams(plan: Plan) -> Iterator[Plan]:
    """The nodes down to streams: whatever makes a stream, the stream itself only grows."""
    if isinstance(plan, ToStream):
        return
    yield plan
    for each in plan.inputs:
        yield from _above_streams(each)


def never_null(plan: Plan, name: str) -> bool:
    """Whether a column of a plan holds no NULL, at no time; not everything that could be known is found."""
    match plan:
        case Filter():
            tested = any(name in _refuses_null(each.tree) for each in plan.conditions)
            return tested or never_null(plan.input, name)
        case Project():
            source = dict(plan.items)[name].column
            return source is not None and never_null(plan.input, source)
        case Join():
            key = any(name == column for columns in plan.keys for _, column in columns)
            return key or any(name in each.columns and never_null(each, name) for each in plan.inputs)
        case Member():
            paired = not plan.negated and any(name == own for own, _ in plan.pairs)
            return paired or never_null(plan.input, name)
        case Aggregate():
            valued = any(name == each.name and FUNCTIONS[each.function].never_null for each in plan.aggregations)
            return valued or (name in plan.keys and never_null(plan.input, name))
        case Window() | Distinct() | ToStream():
            return never_null(plan.input, name)
        case SetOperation():
            place = plan.columns.index(name)
            return all(never_null(each, each.columns[place]) for each in plan.inputs)
        case Scan():
            return False


def _refuses_null(condition: exp.Expr) -> set[str]:
    """Columns without whose value a condition is not true."""
    match condition:
        case exp.Paren():
            return _refuses_null(condition.this)
        case exp.And():
            return _refuses_null(condition.this) | _refuses_null(condition.expression)
        case exp.Not(this=exp.Is(this=exp.Column() as column, expression=exp.Null())):
            return {column.name}
        case _ if type(condition) in COMPARISONS:
            return _passes_null_on(condition.this) | _passes_null_on(condition.expression)
        case _:
            return set()


def _passes_null_on(expression: exp.Expr) -> set[str]:
    """Columns without whose value an expression has none."""
    if isinstance(expression, exp.Column):
        return {expression.name}
    if isinstance(expression, exp.Paren | exp.Neg):
        return _passes_null_on(expression.this)
    if type(expression) in ARITHMETIC:
        return _passes_null_on(expression.this) | _passes_null_on(expression.expression)
    return set()
