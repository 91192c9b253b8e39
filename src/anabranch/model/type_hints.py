"""How a function wants its rows, from its type hints, as Spark reads them."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from anabranch.model.predicates import Flavour

PANDAS = ("Series", "DataFrame")
BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def flavour_of(function: Callable[..., Any], columns: int | None = None) -> Flavour:
    """How a function wants its rows: what it returns says so, and the parameters that its columns fill.

    >>> def f(a: pa.Array) -> pa.Array: ...
    >>> flavour_of(f)
    'arrow'
    >>> def known(word: str, words: pa.Array = pa.array(["a"])) -> bool: ...
    >>> flavour_of(known, columns=1)
    'scalar'
    """
    found = {mark for hint in _hints(function, columns) for mark in _marks(hint)}
    if "pandas" in found:
        return "pandas_iterator" if "iterator" in found else "pandas"
    if "arrow" in found:
        return "arrow_iterator" if "iterator" in found else "arrow"
    return "scalar"


def _hints(function: Callable[..., Any], columns: int | None) -> list[Any]:
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    target = target if inspect.isroutine(target) else getattr(target, "__call__", target)  # noqa: B004
    try:
        hints = typing.get_type_hints(target)
    except Exception:
        hints = getattr(target, "__annotations__", {})
    wanted = [*_filled(function, columns), "return"]
    return [hints[name] for name in wanted if name in hints]


def _filled(function: Callable[..., Any], columns: int | None) -> list[str]:
    """Names of the parameters that columns fill: not those bound by a partial, or left at their defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind not in BY_NAME][:columns]


def _marks(hint: Any) -> Iterator[str]:
    """What a hint speaks of: pandas, arrow, iterator."""
    if isinstance(hint, typing.ForwardRef):
        hint = hint.__forward_arg__
    if isinstance(hint, str):  # of a name that cannot be resolved here
        for word in re.findall(r"[\w.]+", hint):
            yield _mark_of_name(word.rpartition(".")[2])
        return
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return
    if origin is collections.abc.Iterator:
        yield "iterator"
    if isinstance(origin, type):
        theirs = [c for c in origin.__mro__ if c.__module__.partition(".")[0] in ("pandas", "pyarrow")]
        yield from (_mark_of_name(c.__name__) for c in theirs)
    made_of = (hint.__supertype__,) if isinstance(hint, typing.NewType) else typing.get_args(hint)
    for part in made_of:
        yield from _marks(part)


def _mark_of_name(name: str) -> str:
    if name in PANDAS:
        return "pandas"
    found = getattr(pa, name, None)
    if isinstance(found, type) and issubclass(found, pa.Array | pa.ChunkedArray):
        return "arrow"
    return "iterator" if name == "Iterator" else ""
