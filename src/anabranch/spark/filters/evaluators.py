"""How one predicate is called on the rows of a chunk, for every flavour of function, with its errors pinned to rows."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.calls.client import CallClient
from anabranch.calls.messages import message
from anabranch.errors import DataError, ResourceError
from anabranch.model.arrays import Mask, Rows
from anabranch.model.predicates import Flavour
from anabranch.ordering.pipeline import Verdict
from anabranch.spark.filters.decode import ChunkColumns, true_mask
from anabranch.spark.filters.encode import encoder, instants

BOOLEAN = pa.bool_()
MISFITS = (ArithmeticError, TypeError, ValueError, pa.ArrowException)

RawVerdict = tuple[pa.Array, pa.Array, dict[int, str]]
"""Who passed, the values, and who failed (place among the rows -> message)."""


@dataclass(frozen=True)
class Evaluator:
    """A predicate, ready to run in a worker.

    Parameters
    ----------
    name
        For messages.
    function, columns, flavour
        What to call, on which columns, and with which kind of values.
    value_type
        Arrow type of what the function returns (boolean where it decides itself).
    test
        Turns the value into the decision; called as the function is (per value, per Series, per array).
    keep
        Name of the column that the value becomes, if it is carried on.
    time_limit
        Seconds that one call on a chunk may take.
    repeatable
        Whether rows may be passed again to find those on which a vectorised call failed; a volatile predicate's may
        not, so that all rows of the call count as failed.
    caller
        Has the function called by another process, which keeps its answers; it takes the function's place.
    """

    name: str
    function: Callable[..., Any]
    columns: tuple[str, ...]
    flavour: Flavour
    value_type: pa.DataType
    test: Callable[[Any], Any] | None = None
    keep: str | None = None
    time_limit: float | None = None
    repeatable: bool = True
    caller: CallClient | None = None

    def __call__(self, columns: ChunkColumns, rows: Rows) -> Verdict:
        """Judge some rows of a chunk; a kept value is added to the chunk's columns.

        A row for which an argument could not be computed is not judged, and so not rejected: it is for the predicate
        that failed to say what becomes of it.
        """
        unknown = columns.failed(self.columns, rows)
        if unknown is not None and unknown.any():
            return self._judge_others(columns, rows, unknown)
        judge = self._scalar if self.flavour == "scalar" else self._vectorised
        passed, values, failures = judge(columns, rows)
        if self.keep is not None:
            columns.keep(self.keep, rows, values, failed=rows[list(failures)])
        bill = None if self.caller is None else self.caller.take_bill()
        return Verdict(true_mask(passed), failures or None, bill)

    def _judge_others(self, columns: ChunkColumns, rows: Rows, unknown: Mask) -> Verdict:
        places = np.flatnonzero(~unknown)
        verdict = self(columns, rows[places])
        if self.keep is not None:
            without = rows[unknown]
            columns.keep(self.keep, without, pa.nulls(len(without), self.value_type), failed=without)
        passed = np.ones(len(rows), dtype=np.bool_)
        passed[places] = verdict.passed
        failures = {int(places[at]): said for at, said in (verdict.failures or {}).items()}
        return replace(verdict, passed=passed, failures=failures or None)

    def _scalar(self, columns: ChunkColumns, rows: Rows) -> RawVerdict:
        arguments = [columns.values(name, rows) for name in self.columns]
        unreadable = columns.unreadable(self.columns, rows)
        if unreadable:
            return self._scalar_of_others(columns, rows, unreadable)
        with _time_limit(self.name, self.time_limit):
            values, failures = self._values(arguments, len(rows))
        if self.test is None:
            array, misfits = self._fitting(values, self.value_type)
            return array, array, misfits | failures
        if self.caller is not None:  # its test must not meet what it was not written for: answers are kept
            values, failures = self._without_misfits(values, failures)
        known = [i for i, v in enumerate(values) if v is not None]
        with _time_limit(self.name, self.time_limit):
            verdicts, refused = _call_each(self.test, [[values[i] for i in known]], len(known))
        passed: list[Any] = [None] * len(values)
        for i, verdict in zip(known, verdicts, strict=True):
            passed[i] = verdict
        failures |= {known[at]: said for at, said in refused.items()}
        decided, undecided = self._fitting(passed, BOOLEAN)
        kept, misfits = self._fitting(values if self.keep is not None else [], self.value_type)
        return decided, kept, undecided | misfits | failures

    def _without_misfits(self, values: list[Any], failures: dict[int, str]) -> tuple[list[Any], dict[int, str]]:
        _, misfits = self._fitting(values, self.value_type)
        return [None if at in misfits else value for at, value in enumerate(values)], misfits | failures

    def _values(self, arguments: Sequence[list[Any]], rows: int) -> tuple[list[Any], dict[int, str]]:
        if self.caller is not None:
            return self.caller(arguments, rows)
        return _call_each(self.function, arguments, rows)

    def _scalar_of_others(self, columns: ChunkColumns, rows: Rows, unreadable: dict[int, str]) -> RawVerdict:
        """Rows with a value that Python does not have fail without a call."""
        others = np.delete(np.arange(len(rows)), list(unreadable))
        passed, values, failures = self._scalar(columns, rows[others])
        places = np.full(len(rows), -1)
        places[others] = np.arange(len(others))
        spread = pa.array(places, mask=places < 0)
        failures = unreadable | {int(others[at]): said for at, said in failures.items()}
        return passed.take(spread), values.take(spread) if len(values) == len(others) else values, failures

    def _fitting(self, values: list[Any], kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
        """Values of a type; where one does not fit, halve them until those that do not stand alone, as failures."""
        try:
            return _converted(values, kind), {}
        except MISFITS:
            if len(values) == 1:
                remedy = _remedy(kind) if self.caller is None else f"{_remedy(kind)}; {self.caller.renewal()}"
                return pa.nulls(1, kind), {0: f"it returned {_misfit(values, kind)}, expected {kind}; {remedy}"}
        half = len(values) // 2
        (left, wrong_left), (right, wrong_right) = (self._fitting(v, kind) for v in (values[:half], values[half:]))
        return pa.concat_arrays([left, right]), wrong_left | {half + at: said for at, said in wrong_right.items()}

    def _vectorised(self, columns: ChunkColumns, rows: Rows) -> RawVerdict:
        """Call once; where that fails, halve the rows until the failing ones stand alone."""
        if not len(rows):
            return pa.array([], BOOLEAN), pa.array([], self.value_type), {}
        try:
            values, passed = self._call_once(columns, rows)
            return passed, values, {}
        except (DataError, ResourceError):
            raise
        except Exception as error:
            if len(rows) == 1 or not self.repeatable:
                failures = dict.fromkeys(range(len(rows)), message(error))
                return pa.nulls(len(rows), BOOLEAN), pa.nulls(len(rows), self.value_type), failures
        half = len(rows) // 2
        left, right = self._vectorised(columns, rows[:half]), self._vectorised(columns, rows[half:])
        failures = left[2] | {half + at: said for at, said in right[2].items()}
        return pa.concat_arrays([left[0], right[0]]), pa.concat_arrays([left[1], right[1]]), failures

    def _call_once(self, columns: ChunkColumns, rows: Rows) -> tuple[pa.Array, pa.Array]:
        fetch = columns.series if self.flavour.startswith("pandas") else columns.array
        arguments = [fetch(name, rows) for name in self.columns]
        with _time_limit(self.name, self.time_limit):
            result = self.function(*arguments)
        values = self._array(result, len(rows), self.value_type, columns.time_zone)
        if self.test is None:
            return values, values
        with _time_limit(self.name, self.time_limit):
            verdicts = self.test(result)
        passed = self._array(verdicts, len(rows), BOOLEAN, columns.time_zone)
        return values, pa.compute.if_else(values.is_valid(), passed, pa.scalar(None, BOOLEAN))

    def _array(self, result: Any, length: int, kind: pa.DataType, time_zone: str) -> pa.Array:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        frame = pa.types.is_struct(kind) and hasattr(result, "iloc") and result.ndim > 1
        if not hasattr(result, "__len__") or (getattr(result, "ndim", 1) != 1 and not frame):
            raise DataError(
                f"predicate {self.name!r} returned {type(result).__name__}, not a column of {length} values",
                hint="a pandas or Arrow predicate returns one value per row",
            )
        if len(result) != length:
            raise DataError(
                f"predicate {self.name!r} returned {len(result)} values for {length} rows",
                hint="a pandas or Arrow predicate returns one value per row, in the same order",
            )
        if frame:
            return self._struct(result, kind, time_zone)
        if isinstance(result, pa.Array) and result.type == kind:
            return result
        if isinstance(result, pa.Array) and kind == BOOLEAN and not pa.types.is_null(result.type):
            raise self._wrong_type(str(result.type), kind)
        return self._typed(result, kind, time_zone)

    def _struct(self, frame: Any, kind: pa.DataType, time_zone: str) -> pa.Array:
        """A DataFrame as structs, as in Spark: its columns by their names, if they have any, or in order."""
        named = any(isinstance(name, str) for name in frame.columns)
        there = list(frame.columns) if named else [field.name for field in kind][: frame.shape[1]]
        missing = [field.name for field in kind if field.name not in there]
        if missing:
            raise DataError(
                f"predicate {self.name!r} returned a DataFrame without the column {missing[0]!r}", hint=_remedy(kind)
            )
        parts = [self._typed(frame.iloc[:, there.index(field.name)], field.type, time_zone) for field in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind))

    def _typed(self, values: Any, kind: pa.DataType, time_zone: str) -> pa.Array:
        try:
            if isinstance(values, pa.Array):
                return values.cast(kind)
            if _is_misfit(values, kind):
                raise TypeError
            return _converted(values, kind, time_zone)
        except MISFITS as error:
            if hasattr(values, "dtype") and bool(_nulls(values).all()):  # floats for pandas, whatever they would be
                return pa.nulls(len(values), kind)
            raise self._wrong_type(_misfit(values, kind, time_zone), kind) from error

    def _wrong_type(self, found: str, kind: pa.DataType) -> DataError:
        return DataError(f"predicate {self.name!r} returned {found}, expected {kind}", hint=_remedy(kind))


def _call_each(
    function: Callable[..., Any], arguments: Sequence[list[Any]], rows: int
) -> tuple[list[Any], dict[int, str]]:
    """Call a function row by row, exactly once per row; an exception becomes that row's message."""
    values: list[Any] = []
    failures: dict[int, str] = {}
    columns = arguments or [[None] * rows]
    pending = map(function if arguments else lambda _: function(), *columns)
    while len(values) < rows:
        try:
            values.extend(pending)  # what came before an exception stays
            said = "StopIteration"  # raised by the function; `extend` takes it for the end
        except Exception as error:
            said = message(error)
        if len(values) < rows:
            failures[len(values)] = said
            values.append(None)
    return values, failures


def _converted(values: Any, kind: pa.DataType, time_zone: str | None = None) -> pa.Array:
    """Values as an array of a type; with the session's time zone, those of a function of whole columns."""
    pandas_like = hasattr(values, "dtype")
    if pandas_like and kind == BOOLEAN and values.dtype == np.bool_:
        return pa.array(np.asarray(values))  # has no NULL to look for
    if pandas_like and time_zone is not None and _is_instant(kind):
        values = instants(values, time_zone)
    if (encode := encoder(kind, time_zone)) and not (pandas_like and values.dtype.kind == "M"):
        missing = _nulls(values) if pandas_like else [value is None for value in values]
        values = [None if null else encode(value) for value, null in zip(values, missing, strict=True)]
    if not pa.types.is_integer(kind):
        return pa.array(values, type=kind, from_pandas=pandas_like)
    found = pa.array(values, from_pandas=pandas_like)  # asked for integers at once, Arrow makes 1 of 1.5
    if not (pa.types.is_integer(found.type) or pa.types.is_floating(found.type) or pa.types.is_null(found.type)):
        raise TypeError(f"{found.type} values for {kind}")
    return found.cast(kind)


def _is_misfit(values: Any, kind: pa.DataType) -> bool:
    """Whether a Series cannot have values of a type, by its dtype; Arrow would take numbers for truths or bytes."""
    if not hasattr(values, "dtype"):
        return False
    if kind == BOOLEAN:
        return values.dtype.kind not in "bO"
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return values.dtype.kind == "f" and not numeric


def _nulls(values: Any) -> Any:
    import pandas as pd

    return pd.isna(values)


def _remedy(kind: pa.DataType) -> str:
    if kind == BOOLEAN:
        return "return True, False or None; for another value give returns=... and test=..."
    if pa.types.is_decimal(kind):
        return f"returns=... declares {kind}; return numbers that need no more digits (round them)"
    return f"returns=... declares {kind}; return values of that type"


def _is_instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _misfit(values: Any, kind: pa.DataType, time_zone: str | None = None) -> str:
    """What the first value that does not fit a type is, for a message."""
    if _is_misfit(values, kind):
        return str(values.dtype)
    for value in values:
        try:
            _converted([value], kind, time_zone)
        except MISFITS:
            integer = isinstance(value, int) and not isinstance(value, bool) and pa.types.is_integer(kind)
            decimal = isinstance(value, Decimal) and pa.types.is_decimal(kind)
            return f"the number {value}" if integer or decimal else type(value).__name__
    return "values of several types"


class _TimeIsUp(BaseException):
    """Passes through a predicate's own `except Exception`."""


@contextmanager
def _time_limit(name: str, seconds: float | None) -> Iterator[None]:
    """Interrupt a call that takes too long. Needs the main thread, where Spark's workers run user code."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    # The alarm repeats: foreign code may swallow an exception that is raised while it runs.
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    except _TimeIsUp:
        raise ResourceError(
            f"predicate {name!r} took longer than its limit of {seconds} s on one chunk of rows",
            hint="raise time_limit=..., or find the row on which it hangs",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_TAKEN = object()


class IteratorAdapter:
    """Calls an iterator-style function (`Iterator[Series] -> Iterator[Series]`) one batch at a time.

    The function is started once and keeps what it set up before its loop, a model for example, until it fails.

    >>> def running(batches):
    ...     for number, batch in enumerate(batches):
    ...         yield [number] * len(batch)
    >>> call = IteratorAdapter("running", running, one_column=True)
    >>> call(["a", "b"]), call(["c"])
    ([0, 0], [1])
    """

    def __init__(self, name: str, function: Callable[[Iterator[Any]], Iterator[Any]], *, one_column: bool) -> None:
        self._name = name
        self._function = function
        self._one_column = one_column
        self._running: Iterator[Any] | None = None
        self._next: Any = _TAKEN

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None, "_next": None}

    def __call__(self, *columns: Any) -> Any:
        """Feed one batch and take its answer."""
        self._next = columns[0] if self._one_column else columns
        if self._running is None:
            self._running = iter(self._function(self._batches()))
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            raise self._refused("ended before it had answered every batch") from None
        except BaseException:
            self._running = None
            raise

    def _batches(self) -> Iterator[Any]:
        while True:
            if self._next is _TAKEN:
                raise self._refused("asked for another batch before it had answered the last one")
            batch, self._next = self._next, _TAKEN
            yield batch

    def _refused(self, what: str) -> DataError:
        return DataError(
            f"the Iterator-style predicate {self._name!r} {what}",
            hint="it yields one result for every batch, before it takes the next: later rows depend on what it answers",
        )
