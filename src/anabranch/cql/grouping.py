"""Grouping: keys and arguments are computed below, aggregates replaced by columns above.

Differs from Spark
------------------
`approx_count_distinct` counts exactly, and quantiles may be exact: both are within the error that is asked for.
`median` and `percentile` interpolate between values, which the plan's quantile does not, so they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.cql.expressions import column, read, scalar
from anabranch.cql.functions import is_aggregate
from anabranch.cql.problems import span
from anabranch.cql.scopes import Context
from anabranch.logical_plan import Aggregate, Aggregation, Plan, Project, Scalar
from anabranch.operators.aggregate_functions import SQL_NAMES, SqlName


@dataclass
class Grouping:
    """Collects the aggregates of a query while its expressions are rewritten to read them.

    Parameters
    ----------
    context
        Names and the text for errors.
    keys
        Bound expressions of Group By.
    """

    context: Context
    keys: Sequence[exp.Expr]
    _below: dict[str, Scalar] = field(default_factory=dict)
    _key_names: list[str] = field(default_factory=list)
    _found: list[tuple[exp.Expr, Aggregation]] = field(default_factory=list)
    _plain: bool = True

    def __post_init__(self) -> None:
        self._key_names = [self._below_name(each, "key") for each in self.keys]

    def rewrite(self, bound: exp.Expr, alias: str | None = None) -> exp.Expr:
        """An expression above the aggregation; `alias` names an aggregate that is the whole expression."""
        for key, name in zip(self.keys, self._key_names, strict=True):
            if bound.unnest() == key.unnest():
                return _in_place_of(bound, column(name))
        if isinstance(bound, exp.Filter) or is_aggregate(bound):
            return _in_place_of(bound, column(self._aggregation(bound, alias)))
        if isinstance(bound, exp.Column):
            shown = bound.meta.get("shown", bound.name)
            hint = f"add {shown} to Group By, or aggregate it, as in Max({shown})"
            raise self.context.error(f"column {shown!r} is neither grouped nor aggregated", bound, hint)
        copy = bound.copy()
        for child, original in zip(list(copy.iter_expressions()), list(bound.iter_expressions()), strict=True):
            child.replace(self.rewrite(original))
        return copy

    def over(self, plan: Plan) -> Plan:
        """The aggregation of a plan's rows."""
        if not self._plain:
            plan = Project(plan, tuple(self._below.items()))
        return Aggregate(plan, tuple(dict.fromkeys(self._key_names)), tuple(each for _, each in self._found))

    def _below_name(self, bound: exp.Expr, base: str) -> str:
        """The column that an expression has below the aggregation."""
        plain = bound.unnest()
        if isinstance(plain, exp.Column):
            self._below.setdefault(plain.name, read(plain.name))
            return plain.name
        text = scalar(bound, self.context)
        for name, each in self._below.items():
            if each == text:
                return name
        self._plain = False
        name = self.context.names.fresh(base)
        self._below[name] = text
        return name

    def _aggregation(self, call: exp.Expr, alias: str | None) -> str:
        for each, aggregation in self._found:
            if each == call:
                return aggregation.name
        function, argument, distinct, parameter = self._read(call)
        below = None if argument is None else self._below_name(argument, "argument")
        name = self.context.names.fresh(alias or function)
        self.context.note("aggregate", name, call)
        self._found.append((call, Aggregation(name, function, below, distinct, parameter)))
        return name

    def _read(self, call: exp.Expr) -> tuple[str, exp.Expr | None, bool, float | None]:
        """Function, argument, whether distinct, and parameter of a call."""
        inner = call.this if isinstance(call, exp.Filter) else call
        called = SQL_NAMES.get(inner.name)
        if called is None:
            what = f"the aggregate {inner.name!r} is not supported"
            raise self.context.error(what, call, f"there are {', '.join(SQL_NAMES)}")
        argument, distinct = self._argument(inner, called)
        if called.condition:
            argument = _only_if(exp.Literal.number(1), exp.Literal.number(1) if argument is None else argument)
        if isinstance(call, exp.Filter):
            argument = _only_if(argument or exp.Literal.number(1), call.expression.this)
        nested = argument is not None and any(is_aggregate(each) for each in argument.walk())
        if nested:
            raise self.context.error("an aggregate inside an aggregate", call, "compute the inner one in a subquery")
        return called.function.name, argument, distinct, self._fraction(inner) if called.function.fraction else None

    def _argument(self, inner: exp.Expr, called: SqlName) -> tuple[exp.Expr | None, bool]:
        """What is aggregated, None for rows as such, and whether each value counts once."""
        arguments = inner.expressions
        distinct = called.distinct
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = arguments[0].expressions, True
        if not 1 <= len(arguments) <= called.most_arguments:
            hint = "combine columns, as in concat(a, b)"
            raise self.context.error(f"{inner.name} takes one argument here", inner, hint)
        argument = arguments[0].unnest()
        rows = inner.name == "count" and not distinct and isinstance(argument, exp.Star | exp.Literal)
        return (None if rows else argument), distinct

    def _fraction(self, inner: exp.Expr) -> float:
        node = inner.expressions[1] if len(inner.expressions) > 1 else None
        if isinstance(node, exp.Literal) and not node.is_string and 0 <= float(node.name) <= 1:
            return float(node.name)
        raise self.context.error("a quantile needs one number from 0 to 1", inner, "as in approx_percentile(a, 0.9)")


def _in_place_of(bound: exp.Expr, column: exp.Column) -> exp.Column:
    """A column that stands where an expression stood."""
    start, end = span(bound)
    column.meta.update({} if start is None else {"start": start, "end": end})
    return column


def _only_if(value: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """The value where the condition holds, else NULL."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
