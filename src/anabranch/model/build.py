"""Makes predicates: `predicate(...)`, `lookup(...)`, and `gather` for bare column expressions and SQL texts."""

from __future__ import annotations

import inspect
import math
import os
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from anabranch.calls.rate import Rate
from anabranch.calls.rules import CallRules, Cost, call_rules
from anabranch.errors import QueryError, suggest
from anabranch.model.column_text import column_text
from anabranch.model.predicates import Flavour, Kind, LookupPredicate, NativePredicate, Predicate, PythonPredicate
from anabranch.model.type_hints import flavour_of

# The numbers of `pyspark.util.PythonEvalType`, which the core does not import; UDFs of other types are not for rows.
UDF_FLAVOURS: dict[int, Flavour] = {
    100: "scalar",
    101: "scalar",
    200: "pandas",
    204: "pandas_iterator",
    250: "arrow",
    251: "arrow_iterator",
}

LEAST_LIMIT = 0.01


def predicate(
    function: Callable[..., Any] | Any,
    *columns: str,
    name: str | None = None,
    kind: Kind | None = None,
    returns: Any = None,
    keep: str | None = None,
    test: Callable[[Any], Any] | None = None,
    strict: bool = False,
    pinned: bool = False,
    time_limit: float | None = None,
    concurrency: int | None = None,
    rate: Rate | None = None,
    timeout: str | float | None = None,
    retries: int | None = None,
    cost: Cost | float | None = None,
    cache: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    version: str | None = None,
) -> Predicate:
    """A predicate from a Python function of some columns (or a named native one, from a column expression or SQL text).

    Type hints decide how the function is called, as in Spark: `pd.Series` and `pa.Array` get a batch of rows,
    `Iterator[...]` of them keeps its set-up (a model, say) between batches, anything else gets one value per row. An
    existing Spark UDF works too.

    Parameters
    ----------
    function
        Returns True, False or None (not true) per row; with `returns`, the value that `test` decides on.
    columns
        The columns to pass, in order; a column that another predicate keeps may be among them.
    name
        For reports and errors; the function's name by default.
    kind
        `"pure"` (a function's default), `"fallible"` or `"volatile"` (the default of a nondeterministic UDF); see
        `Predicate`. A column expression's kind is found by analysis unless given.
    returns
        Spark type of the value, as a string or DataType, where it is not boolean.
    keep
        Carry the value to the output under this name; it is computed once.
    test
        Decides on the value; called as the function is: per value, per Series or per array. A NULL value is not true.
    strict, pinned
        Keep it behind the predicates written before it; keep it exactly where it is written.
    time_limit
        Seconds that one call on a chunk of rows may take before the job fails with a clear error; at least 0.01.
    concurrency, rate, timeout, retries, cost, cache, batch, version
        Of a function that calls a model or a service, as any `async def` function does: see `CallRules`. It may return
        an `ab.Reply`, which tells what the call has cost.

    >>> def has_signature(payload: str) -> bool:
    ...     return "evil" in payload
    >>> predicate(has_signature, "payload").name
    'has_signature'
    """
    calling = {
        "concurrency": concurrency,
        "rate": rate,
        "timeout": timeout,
        "retries": retries,
        "cost": cost,
        "cache": cache,
        "batch": batch,
        "version": version,
    }
    if isinstance(function, str) or is_column(function):
        unused = {
            "columns": columns,
            "returns": returns,
            "keep": keep,
            "test": test,
            "time_limit": time_limit,
            **calling,
        }
        _refuse_for_columns([option for option, given in unused.items() if given not in (None, ())])
        return native(function, name=name, kind=kind, strict=strict, pinned=pinned)
    if kind is None:
        kind = "pure" if getattr(function, "deterministic", True) else "volatile"
    function, flavour, returns = _unwrap(function, returns, len(columns))
    name = name or str(getattr(function, "__name__", type(function).__name__))
    _check_kind(name, kind)
    _check_returns(name, returns, test)
    _check(name, columns, keep, time_limit)
    calls = _calls(name, function, flavour, calling)
    _check_parameters(name, function, flavour, columns)
    return PythonPredicate(
        name, kind, strict, pinned, function, columns, flavour, returns, keep, test, time_limit, calls
    )


def lookup(
    column: str,
    values: Any,
    *,
    on: str | None = None,
    match: typing.Literal["exact", "prefix"] | None = None,
    negate: bool = False,
    name: str | None = None,
    pinned: bool = False,
) -> LookupPredicate:
    """Whether a column's value is a member of a set, a column of a table, or under an address prefix.

    Parameters
    ----------
    column
        The column whose values are looked up.
    values
        A set, list, pandas, Polars or Arrow table or column, or a small Spark DataFrame (collected once, when first
        used).
    on
        The table's column, where it has more than one.
    match
        `"exact"` (default), or `"prefix"`: the values are networks such as `10.2.0.0/16`, whole addresses, or leading
        text such as `10.2.`
    negate
        Keep the rows that are *not* found. NULL is neither found nor not found.

    >>> lookup("dst", {"10.1.0.7"}).name
    'lookup(dst)'
    """
    if not isinstance(column, str):
        raise QueryError(f"lookup needs the name of a column, not {type(column).__name__}")
    if isinstance(values, str | bytes):
        raise QueryError(
            f"lookup needs a set or table of values, not the text {values!r}", hint="write {...} around it"
        )
    if is_column(values):
        raise QueryError(
            f"lookup needs a set or table of values, not the column {column_text(values)}",
            hint="pass the DataFrame that has it: df.select(...)",
        )
    if isinstance(values, Iterator):
        values = list(values)  # an iterator ends after one pass, and a predicate may be used again
    if match is None and on == "prefix":  # once it meant both; a guess could return the wrong rows
        raise QueryError(
            "lookup has on='prefix' and no match: on names a column",
            hint="match='prefix' matches prefixes; for a column named 'prefix' add match='exact' or match='prefix'",
        )
    if match not in (None, "exact", "prefix"):
        raise QueryError(f"lookup has match={match!r}", hint="use match='exact' or match='prefix'")
    name = name or f"lookup({column})"
    return LookupPredicate(
        name, pinned=pinned, column=column, values=values, on=on, match=match or "exact", negate=negate
    )


def native(
    column: Any, *, name: str | None = None, kind: Kind | None = None, strict: bool = False, pinned: bool = False
) -> NativePredicate:
    """A Spark column expression, or SQL text, as a predicate; its text is its name unless one is given."""
    name = name or column_text(column)
    _check_kind(name, kind)
    return NativePredicate(name, kind or "pure", strict, pinned, column, declared=kind is not None)


def gather(items: Iterable[Any]) -> tuple[Predicate, ...]:
    """Predicates from what was passed to `where`; repeated expressions get numbered names.

    >>> gather([lambda x: x])
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: a function is not a predicate by itself
      hint: name its columns: ab.predicate(function, "column")
    """
    found: list[Predicate] = []
    for item in items:
        if isinstance(item, Predicate):
            found.append(item)
        elif isinstance(item, str) or is_column(item):
            found.append(_fresh(native(item), found))
        elif callable(item):
            raise QueryError(
                "a function is not a predicate by itself", hint='name its columns: ab.predicate(function, "column")'
            )
        elif isinstance(item, list | tuple):
            raise QueryError(f"a {type(item).__name__} is not a predicate", hint="unpack it: ab.where(df, *predicates)")
        else:
            raise QueryError(
                f"{type(item).__name__} is not a predicate: {item!r}",
                hint="use a Spark column expression, SQL text, ab.predicate or ab.lookup",
            )
    return tuple(found)


def is_column(item: Any) -> bool:
    """Whether something is a Spark column, without importing Spark."""
    return any(c.__name__ == "Column" and c.__module__.startswith("pyspark.sql") for c in type(item).__mro__)


def _unwrap(function: Any, returns: Any, columns: int) -> tuple[Callable[..., Any], Flavour, Any]:
    """The function inside a Spark UDF, with the flavour and type it was declared with."""
    returns = returns.strip() if isinstance(returns, str) else returns
    inner = getattr(function, "func", None)
    if inner is not None and hasattr(function, "evalType"):
        if function.evalType not in UDF_FLAVOURS:
            raise QueryError(
                f"{getattr(inner, '__name__', 'it')!r} is a UDF of groups, tables or windows, not of rows",
                hint="a predicate answers for every row: use udf, arrow_udf, or pandas_udf from Series to Series",
            )
        declared = function.returnType
        default = None if declared.simpleString() == "boolean" else declared
        return inner, UDF_FLAVOURS[function.evalType], returns or default
    if not callable(function):
        raise QueryError(f"a predicate needs a function or a column expression, not {type(function).__name__}")
    return function, flavour_of(function, columns), returns


def _calls(name: str, function: Any, flavour: Flavour, calling: dict[str, Any]) -> CallRules | None:
    """The rules of a function that calls; None for any other one."""
    given = [option for option, value in calling.items() if value is not None]
    if not given and not inspect.iscoroutinefunction(function):
        return None
    if flavour != "scalar":
        option = f"has {given[0]}, and " if given else "is async, and "
        raise QueryError(
            f"predicate {name!r} {option}takes whole columns",
            hint="a function that calls gets one row at a time, or lists of values with batch=...",
        )
    return call_rules(name, calling)


def _check_kind(name: str, kind: Any) -> None:
    """Refuse what is not a string; `Predicate` refuses strings that are not kinds."""
    if kind is not None and not isinstance(kind, str):
        raise QueryError(
            f"predicate {name!r} has kind {kind!r}", hint=suggest(str(kind), typing.get_args(Kind), "kinds")
        )


def _check_returns(name: str, returns: Any, test: Any) -> None:
    if _is_user_defined(returns):
        raise QueryError(
            f"predicate {name!r} returns {returns.simpleString()}, a user-defined type, which predicates cannot return",
            hint='return its parts, e.g. returns="array<double>" for a vector',
        )
    if test is not None and not callable(test):
        raise QueryError(
            f"predicate {name!r} has test={test!r}, which is not a function", hint="e.g. test=lambda value: value > 0.5"
        )
    boolean = returns is None or str(returns).lower() in ("boolean", "bool", "booleantype()")
    if not boolean and test is None:
        raise QueryError(
            f"predicate {name!r} returns {returns}, and has no test that decides on the value",
            hint="give test=..., e.g. test=lambda value: value > 0.5",
        )


def _is_user_defined(kind: Any) -> bool:
    """Whether a type of Spark is a user's own, or has one inside, without importing Spark."""
    if any(c.__name__ == "UserDefinedType" for c in type(kind).__mro__):
        return True
    inside = [getattr(kind, part) for part in ("elementType", "keyType", "valueType") if hasattr(kind, part)]
    inside += [field.dataType for field in getattr(kind, "fields", ())]
    return any(map(_is_user_defined, inside))


def _check(name: str, columns: Sequence[Any], keep: Any, time_limit: Any) -> None:
    wrong = [c for c in columns if not isinstance(c, str)]
    if wrong:
        raise QueryError(
            f"a column of predicate {name!r} is given as {type(wrong[0]).__name__}, not by name",
            hint="pass column names",
        )
    if keep is not None and keep in columns:
        raise QueryError(
            f"predicate {name!r} reads {keep!r}, the column that it keeps", hint="give keep=... a new name"
        )
    if keep is not None and not (isinstance(keep, str) and keep):
        raise QueryError(
            f"predicate {name!r} has keep={keep!r}", hint="keep is the name of the column that gets the value"
        )
    if time_limit is not None and not (isinstance(time_limit, int | float) and LEAST_LIMIT <= time_limit < math.inf):
        raise QueryError(
            f"predicate {name!r} has time_limit={time_limit!r}",
            hint=f"use a number of seconds, at least {LEAST_LIMIT}",
        )


def _refuse_for_columns(options: Sequence[str]) -> None:
    if options:
        raise QueryError(
            f"a column expression takes no {options[0]}: Spark evaluates it by itself",
            hint="it takes name, kind, strict and pinned; compute values with withColumn, or in a Python function",
        )


def _check_parameters(name: str, function: Callable[..., Any], flavour: Flavour, columns: Sequence[str]) -> None:
    """Refuse a function whose signature does not take its columns; some built-in ones have none."""
    if inspect.isasyncgenfunction(function) or (flavour == "scalar" and inspect.isgeneratorfunction(function)):
        raise QueryError(
            f"predicate {name!r} is a generator, which does not return a result",
            hint="use a function that returns one; a generator of batches takes and yields Iterator[pd.Series]",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    given = 1 if flavour.endswith("_iterator") else len(columns)
    try:
        signature.bind(*range(given))
    except TypeError as error:
        noun = "column" if len(columns) == 1 else "columns"
        raise QueryError(
            f"predicate {name!r} cannot be called with {len(columns)} {noun}: {error}",
            hint="name one column for each parameter: ab.predicate(function, 'first', 'second')",
        ) from None


def _fresh(item: NativePredicate, found: Sequence[Predicate]) -> NativePredicate:
    taken = {p.name for p in found}
    names = (item.name if i == 1 else f"{item.name} #{i}" for i in range(1, len(found) + 2))
    name = next(n for n in names if n not in taken)
    return replace(item, name=name)
