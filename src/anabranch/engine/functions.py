"""Functions of the user's in queries: Spark evaluates them in select lists, adaptive filters in conditions.

Conditions that call none are ordered in the same filters. `in_network(address, network)` is there without being
registered.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from anabranch.calls.client import CallClient
from anabranch.calls.rules import CallRules, call_rules
from anabranch.errors import DataError, QueryError, suggest
from anabranch.expressions import Scalar
from anabranch.model.build import native, predicate
from anabranch.model.names import quoted, without_number
from anabranch.model.predicates import Predicate, PythonPredicate
from anabranch.model.prefixes import IN_NETWORK, in_network
from anabranch.spark.filters.admission import value_type
from anabranch.spark.filters.calling import FilterCalls
from anabranch.spark.filters.filter import Filter


@dataclass(frozen=True)
class Negated:
    """`Not f(...)`; what is NULL stays so."""

    function: Callable[..., Any]

    def __call__(self, *values: Any) -> bool | None:
        """The opposite."""
        found = self.function(*values)
        return None if found is None else not found


def _is_false(value: bool) -> bool:
    return not value


@dataclass(frozen=True)
class Calling:
    """A function that calls a model or a service, as Spark calls it in select lists: on a batch of rows at a time."""

    client: CallClient
    kind: pa.DataType

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """The answers; an error ends the query."""
        values, failures = self.client([column.to_pylist() for column in columns], len(columns[0]))
        if failures:
            raise DataError(
                f"function {self.client.name!r} has no answer: {next(iter(failures.values()))}",
                hint='let it return None for such rows, or register it with on_error="null"',
            )
        return pa.array(values, self.kind)


class Functions:
    """Registered functions, and the filters that call them: a filter goes on learning from tick to tick."""

    def __init__(self, spark: SparkSession, added: Callable[[], None] = lambda: None) -> None:
        self._spark = spark
        self._added = added
        self._functions: dict[str, tuple[Callable[..., Any], str]] = {}
        self._rules: dict[str, CallRules] = {}
        self._filters: dict[tuple[str, tuple[Scalar, ...]], Filter] = {}
        self._functions[IN_NETWORK] = (in_network, "boolean")
        spark.udf.register(IN_NETWORK, F.udf(in_network, "boolean", useArrow=False))

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._functions)

    def add(self, name: str, function: Callable[..., Any], returns: str, calling: dict[str, Any]) -> None:
        """Register a function, with what was said about its calls."""
        if not calling and not inspect.iscoroutinefunction(function):
            self._spark.udf.register(name, F.udf(function, returns))
        else:
            self._rules[name] = _rules(name, calling)
            self._spark.udf.register(name, self._calling(name, function, returns))
        self._functions[name] = (function, returns)
        self._added()

    def _calling(self, name: str, function: Callable[..., Any], returns: str) -> Any:
        """The function as Spark calls it in select lists."""
        predicate = PythonPredicate(name, function=function, returns=returns, calls=self._rules[name])
        calls = FilterCalls([predicate], "auto", minimize="time", budget=None, limit=None, scope="")
        client = calls.client(predicate)
        assert client is not None
        run = Calling(client, value_type(predicate))

        def answers(*columns: pa.Array) -> pa.Array:
            return run(*columns)

        return F.arrow_udf(answers, returns)  # type: ignore[attr-defined]

    def apply(self, query: str, df: DataFrame, conditions: Sequence[Scalar]) -> DataFrame:
        """Rows for which all conditions are true; their order adapts."""
        key = (query, tuple(conditions))
        if key not in self._filters:
            names = Counter(shown(each) for each in conditions)
            named = {each: shown(each) if names[shown(each)] == 1 else each.sql for each in conditions}
            self._filters[key] = Filter(*(self._predicate(each, name) for each, name in named.items()))
        return self._filters[key].apply(df)

    def filters(self, query: str) -> list[Filter]:
        """The filters of a query that have been applied so far."""
        return self.filters_by_query().get(query, [])

    def filters_by_query(self) -> dict[str, list[Filter]]:
        """The filters of all queries that have been applied so far; any thread may ask."""
        found: dict[str, list[Filter]] = {}
        for (name, _), each in list(self._filters.items()):
            found.setdefault(name, []).append(each)
        return found

    def _predicate(self, condition: Scalar, name: str) -> Predicate:
        """A call of a function with columns is a predicate of its own; in other expressions Spark calls functions."""
        call = condition.tree.unnest()
        negated = isinstance(call, exp.Not)
        call = call.this.unnest() if negated else call
        known = {name.lower(): found for name, found in self._functions.items()}
        if not isinstance(call, exp.Anonymous) or call.name.lower() not in known:
            return native(F.expr(condition.sql), name=name)
        function, returns = known[call.name.lower()]
        if returns != "boolean" or not all(map(_is_column, call.expressions)):
            return native(F.expr(condition.sql), name=name)
        columns = [each.name for each in call.expressions]
        rules = next((rules for known, rules in self._rules.items() if known.lower() == call.name.lower()), None)
        if rules is not None:
            test = _is_false if negated else None
            return PythonPredicate(name, function=function, columns=tuple(columns), test=test, calls=rules)
        return predicate(Negated(function) if negated else function, *columns, name=name)


def _rules(name: str, calling: dict[str, Any]) -> CallRules:
    on_error = calling.get("on_error", "raise")
    if on_error not in ("raise", "null"):
        raise QueryError(f"function {name!r} has on_error={on_error!r}", hint='use on_error="raise" or on_error="null"')
    known = ["on_error", *(f.name for f in fields(CallRules) if f.name not in ("kept_as", "error_is_null"))]
    options = {option: value for option, value in calling.items() if option != "on_error"}
    for option in options:
        if option not in known:
            raise QueryError(f"function {name!r} has no option {option!r}", hint=suggest(option, known, "options"))
    return replace(call_rules(name, options), kept_as=name, error_is_null=on_error == "null")


def _is_column(argument: exp.Expr) -> bool:
    """Whether an argument is a whole column: a field of a struct is written behind a dot."""
    return isinstance(argument, exp.Column) and not argument.table


def shown(condition: Scalar) -> str:
    """A condition as its user knows it, without the numbers that make the names of columns unique.

    >>> shown(Scalar.parsed("NOT odd(`size_2`)")), shown(Scalar.parsed("odd(`id.orig_h_3`)"))
    ('NOT odd(size)', 'odd(`id.orig_h`)')
    """
    bare = {name: without_number(name) for name in condition.columns}
    return condition.shown({name: base if base.isidentifier() else quoted(base) for name, base in bare.items()})
