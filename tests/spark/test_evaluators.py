"""How one predicate is called in a worker, for every flavour: arguments, answers, errors, limits. No Spark job."""

from __future__ import annotations

import json
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, Row, StringType, StructType, TimestampType, VariantType, VariantVal

from anabranch.errors import DataError, ResourceError
from anabranch.model.arrays import Rows
from anabranch.model.predicates import Flavour
from anabranch.model.prefixes import PrefixSet
from anabranch.ordering.pipeline import Verdict
from anabranch.spark.filters.decode import ChunkColumns, converter
from anabranch.spark.filters.evaluators import BOOLEAN, Evaluator, IteratorAdapter
from anabranch.spark.filters.lookup import MemberTest, SessionRules, UnderPrefix
from anabranch.spark.schemas import arrow_type

VALUES = [5, None, 0, 7, -2, 9]
PLACE = re.compile(r" \(\S+, line \d+\)$")
FLAVOURS: tuple[Flavour, ...] = ("scalar", "pandas", "arrow", "pandas_iterator", "arrow_iterator")
each_flavour = pytest.mark.parametrize("flavour", FLAVOURS)


def columns(values: list[Any] | None = None, **more: pa.Array) -> ChunkColumns:
    arrays = {"a": pa.array(VALUES if values is None else values, type=pa.int64()), **more}
    return ChunkColumns(arrays, {}, "UTC", length=len(arrays["a"]))


def rows(*wanted: int) -> Rows:
    return np.array(wanted, dtype=np.int64)


def in_flavour(flavour: Flavour, test: Callable[[Any], Any], kind: pa.DataType = BOOLEAN) -> Callable[..., Any]:
    """A function of one value, as a function of that flavour."""

    def plain(values: Any) -> list[Any]:
        return [test(None if v is None or v is pd.NA or v != v else v) for v in values]

    def pandas(values: pd.Series) -> pd.Series:
        return pd.Series(plain(values), dtype=object)

    def arrow(values: pa.Array) -> pa.Array:
        return pa.array(plain(values.to_pylist()), type=kind)

    def iterated(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield (pandas if flavour.startswith("pandas") else arrow)(batch)

    made: dict[str, Callable[..., Any]] = {"scalar": test, "pandas": pandas, "arrow": arrow}
    return made[flavour] if flavour in made else IteratorAdapter("it", iterated, one_column=True)


def evaluator(flavour: Flavour, test: Callable[[Any], Any], **options: Any) -> Evaluator:
    kind = options.pop("value_type", BOOLEAN)
    return Evaluator("it", in_flavour(flavour, test, kind), ("a",), flavour, kind, **options)


def said(verdict: Verdict) -> dict[int, str]:
    """What failures say, without the lines that said it."""
    return {at: PLACE.sub("", failure) for at, failure in (verdict.failures or {}).items()}


def test_a_failure_names_the_line_of_the_function_not_what_it_called() -> None:
    def parsed(text: int) -> bool:
        return bool(json.loads(f"{{{text}"))

    verdict = evaluator("scalar", parsed)(columns(), rows(0))
    line = parsed.__code__.co_firstlineno + 1
    assert verdict.failures is not None
    assert verdict.failures[0].startswith("JSONDecodeError: Expecting property name enclosed in double quotes")
    assert verdict.failures[0].endswith(f" (test_evaluators.py, line {line})")
    assert evaluator("scalar", len)(columns(), rows(0)).failures == {0: "TypeError: object of type 'int' has no len()"}


@each_flavour
def test_null_is_not_true(flavour: Flavour) -> None:
    verdict = evaluator(flavour, lambda v: None if v is None else v > 4)(columns(), rows(0, 1, 2, 3, 5))
    assert verdict.passed.tolist() == [True, False, False, True, True]
    assert verdict.failures is None


@each_flavour
def test_rows_come_in_the_order_asked_for(flavour: Flavour) -> None:
    verdict = evaluator(flavour, lambda v: v is not None and v > 6)(columns(), rows(5, 1, 3, 0))
    assert verdict.passed.tolist() == [True, False, True, False]


@each_flavour
def test_failures_are_pinned_to_their_rows(flavour: Flavour) -> None:
    verdict = evaluator(flavour, lambda v: 10 / v > 1)(columns(), rows(0, 1, 2, 3, 4))
    assert verdict.passed.tolist() == [True, False, False, True, False]
    assert verdict.failures is not None
    assert {at: message.split(":")[0] for at, message in verdict.failures.items()} == {
        1: "TypeError",
        2: "ZeroDivisionError",
    }


@each_flavour
def test_failing_everywhere(flavour: Flavour) -> None:
    def broken(v: Any) -> bool:
        raise KeyError("gone")

    verdict = evaluator(flavour, broken)(columns(), rows(*range(6)))
    assert not verdict.passed.any()
    assert said(verdict) == dict.fromkeys(range(6), "KeyError: 'gone'")


@each_flavour
def test_no_rows(flavour: Flavour) -> None:
    verdict = evaluator(flavour, lambda v: True)(columns(), rows())
    assert verdict.passed.tolist() == []
    assert verdict.passed.dtype == np.bool_


@each_flavour
def test_a_kept_value_is_decided_on_and_stored(flavour: Flavour) -> None:
    chunk = columns()
    function = in_flavour(flavour, lambda v: None if v is None else v * 2, pa.int64())
    test = in_flavour(flavour.removesuffix("_iterator"), lambda v: v is not None and v > 8)  # type: ignore[arg-type]
    judge = Evaluator("it", function, ("a",), flavour, pa.int64(), test, "double")
    verdict = judge(chunk, rows(0, 1, 2, 5))
    assert verdict.passed.tolist() == [True, False, False, True]
    assert chunk.array("double", rows(5, 1, 0)).to_pylist() == [18, None, 10]
    assert chunk.values("double", rows(0, 3, 5)) == [10, None, 18]
    assert chunk.spread("double", rows(0, 5)).to_pylist() == [10, None, None, None, None, 18]


def test_test_is_not_asked_about_null_values() -> None:
    asked = []

    def test(value: int) -> bool:
        asked.append(value)
        return value > 3

    judge = Evaluator("it", lambda v: v, ("a",), "scalar", pa.int64(), test)
    assert judge(columns(), rows(0, 1, 2)).passed.tolist() == [True, False, False]
    assert asked == [5, 0]


def test_errors_of_test_count_as_the_predicate_s() -> None:
    judge = Evaluator("it", lambda v: v, ("a",), "scalar", pa.int64(), lambda v: 1 // v > 0)
    verdict = judge(columns([None, 1, 0, 1]), rows(0, 1, 2, 3))
    assert verdict.passed.tolist() == [False, True, False, True]
    assert said(verdict) == {2: "ZeroDivisionError: integer division or modulo by zero"}


@given(
    st.lists(st.sampled_from(["yes", "no", "null", "fail"]), max_size=30),
    st.sampled_from(FLAVOURS),
    st.randoms(use_true_random=False),
)
def test_every_flavour_agrees_with_the_definition(fates: list[str], flavour: Flavour, random: Any) -> None:
    def judge(value: int) -> bool | None:
        fate = fates[int(value)]
        if fate == "fail":
            raise RuntimeError(int(value))
        return None if fate == "null" else fate == "yes"

    wanted = [i for i in range(len(fates)) if random.random() < 0.8]
    random.shuffle(wanted)
    verdict = evaluator(flavour, judge)(columns(list(range(len(fates)))), rows(*wanted))
    assert verdict.passed.tolist() == [fates[i] == "yes" for i in wanted]
    failing = {at: f"RuntimeError: {i}" for at, i in enumerate(wanted) if fates[i] == "fail"}
    assert said(verdict) == failing


def test_scalar_functions_are_called_once_per_row_even_if_some_fail() -> None:
    called = []

    def noting(value: int) -> bool:
        called.append(value)
        return 1 / value > 0

    verdict = Evaluator("it", noting, ("a",), "scalar", BOOLEAN)(columns([1, 0, 2, 0, 3]), rows(0, 1, 2, 3, 4))
    assert called == [1, 0, 2, 0, 3]
    assert sorted(verdict.failures or {}) == [1, 3]


def test_a_row_that_ends_an_iteration_fails_and_the_next_keep_their_places() -> None:
    judge = Evaluator("it", lambda v: next(i for i in (1, 2) if i == v) == 1, ("a",), "scalar", BOOLEAN)
    verdict = judge(columns([1, 0, 2, 1, 0]), rows(0, 1, 2, 3, 4))
    assert verdict.passed.tolist() == [True, False, False, True, False]
    assert verdict.failures == dict.fromkeys((1, 4), "StopIteration")


def test_a_function_of_no_columns_may_fail_on_some_rows() -> None:
    answers = iter([True, None, True])
    judge = Evaluator("it", lambda: {True: True}[next(answers)], (), "scalar", BOOLEAN)  # type: ignore[index]
    verdict = judge(columns(), rows(0, 1, 2))
    assert verdict.passed.tolist() == [True, False, True]
    assert said(verdict) == {1: "KeyError: None"}


def test_what_must_not_be_repeated_fails_as_a_whole() -> None:
    called = []

    def noting(a: pa.Array) -> pa.Array:
        called.append(len(a))
        raise ValueError("one of these")

    verdict = Evaluator("it", noting, ("a",), "arrow", BOOLEAN, repeatable=False)(columns(), rows(0, 1, 2))
    assert called == [3]
    assert said(verdict) == dict.fromkeys(range(3), "ValueError: one of these")


@pytest.mark.parametrize("count", [0, 2])
def test_scalar_functions_of_no_or_two_columns(count: int) -> None:
    names = ("a", "b")[:count]
    judge = Evaluator("it", lambda *v: len(v) == count and v != (0, "z"), names, "scalar", BOOLEAN)
    chunk = columns(b=pa.array(list("xyzxyz")))
    assert judge(chunk, rows(0, 2, 3)).passed.tolist() == [True, count == 0, True]


WRONG: list[tuple[str, Flavour, Any, str]] = [
    ("floats", "pandas", lambda s: s * 1.0, "predicate 'it' returned float64, expected bool"),
    ("texts", "pandas", lambda s: s.astype(str), "predicate 'it' returned"),
    ("shorter", "pandas", lambda s: s[:-1] > 0, "predicate 'it' returned 2 values for 3 rows"),
    ("one value", "pandas", lambda s: True, "predicate 'it' returned bool, not a column of 3 values"),
    (
        "frame",
        "pandas",
        lambda s: pd.DataFrame({"x": s}),
        "predicate 'it' returned DataFrame, not a column of 3 values",
    ),
    ("nothing", "arrow", lambda a: None, "predicate 'it' returned NoneType, not a column of 3 values"),
    ("integers", "arrow", lambda a: a, "predicate 'it' returned int64, expected bool"),
    ("longer", "arrow", lambda a: pa.array([True] * 4), "predicate 'it' returned 4 values for 3 rows"),
]


@pytest.mark.parametrize(("flavour", "function", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_answers_are_named(flavour: Flavour, function: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        Evaluator("it", function, ("a",), flavour, BOOLEAN)(columns([1, 0, 2]), rows(0, 1, 2))
    assert str(caught.value).startswith(message)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        ("x", pa.float64(), "str, expected double"),
        (2**70, pa.int64(), f"the number {2**70}, expected int64"),
        (1.5, pa.int64(), "float, expected int64"),
        ("\ud800", pa.string(), "str, expected string"),
        (3, pa.list_(pa.int64()), "int, expected list<item: int64>"),
    ],
)
def test_the_value_that_does_not_fit_is_named_not_its_neighbours(value: Any, kind: pa.DataType, found: str) -> None:
    fitting = {"double": 1.0, "int64": 1, "string": "s"}.get(str(kind), [1])
    judge = Evaluator("it", lambda v: value if v == 7 else fitting, ("a",), "scalar", kind, lambda v: True, "k")
    chunk = columns()
    verdict = judge(chunk, rows(0, 1, 3))
    assert verdict.failures == {2: f"it returned {found}; returns=... declares {kind}; return values of that type"}
    assert chunk.array("k", rows(0, 1, 3)).to_pylist() == [fitting, fitting, None]


@pytest.mark.parametrize(("answer", "found"), [("yes", "str"), (1, "int"), ([1], "list")])
def test_a_wrong_answer_on_one_row_is_a_failure_of_that_row(answer: Any, found: str) -> None:
    remedy = "return True, False or None; for another value give returns=... and test=..."
    said = f"it returned {found}, expected bool; {remedy}"
    plain = Evaluator("it", lambda v: answer if v == 7 else v == 5, ("a",), "scalar", BOOLEAN)
    verdict = plain(columns(), rows(0, 1, 3, 5))
    assert (verdict.passed.tolist(), verdict.failures) == ([True, False, False, False], {2: said})
    tested = Evaluator("it", lambda v: v, ("a",), "scalar", pa.int64(), lambda v: answer if v == 7 else v == 5)
    verdict = tested(columns(), rows(0, 1, 3, 5))
    assert (verdict.passed.tolist(), verdict.failures) == ([True, False, False, False], {2: said})


def test_values_that_python_does_not_have_are_failures_of_their_rows(recorder: Any) -> None:
    days = pa.array([0, 4_000_000, 1, None], pa.int32()).cast(pa.date32())
    texts = pa.array([b"n", b"n", bytes([255]), b"n"]).cast(pa.string(), safe=False)
    note, noted = recorder("calls")

    def judge(day: date | None, text: str) -> bool:
        note(str(day))
        return day is not None

    chunk = ChunkColumns({"day": days, "text": texts, "days": pa.array([[d] for d in days])}, {}, "UTC", length=4)
    verdict = Evaluator("it", judge, ("day", "text"), "scalar", BOOLEAN, keep="k")(chunk, rows(3, 0, 1, 2))
    assert verdict.passed.tolist() == [False, True, False, False]
    assert verdict.failures == {
        2: "the value of column 'day' cannot be read in Python: OverflowError: date value out of range",
        3: "the value of column 'text' cannot be read in Python: UnicodeDecodeError: 'utf-8' codec can't decode byte "
        "0xff in position 0: invalid start byte",
    }
    assert noted() == ["None", "1970-01-01"]
    assert chunk.failed(["k"], rows(0, 1, 2, 3)).tolist() == [False, True, True, False]  # type: ignore[union-attr]
    nested = Evaluator("it", lambda days: days == [], ("days",), "scalar", pa.int64(), lambda v: True)
    assert list(nested(chunk, rows(0, 1)).failures or {}) == [1]


@pytest.mark.parametrize(
    "answer",
    [
        lambda s: [v > 3 for v in s],
        lambda s: (s > 3).to_numpy(),
        lambda s: (s > 3).astype("boolean"),
        lambda s: pd.array(s > 3, dtype="bool[pyarrow]"),
        lambda s: pa.chunked_array([pa.array(s > 3)]),
        lambda s: (s > 3).astype(object),
    ],
)
def test_boolean_columns_of_any_make_are_taken(answer: Any) -> None:
    verdict = Evaluator("it", answer, ("a",), "pandas", BOOLEAN)(columns([5, 1, 4]), rows(0, 1, 2))
    assert verdict.passed.tolist() == [True, False, True]


# Limits


@each_flavour
def test_a_call_that_takes_too_long_is_interrupted(flavour: Flavour) -> None:
    began = time.monotonic()
    with pytest.raises(ResourceError) as caught:
        evaluator(flavour, lambda v: time.sleep(30), time_limit=0.1)(columns(), rows(0, 1))
    assert time.monotonic() - began < 10
    assert str(caught.value) == (
        "predicate 'it' took longer than its limit of 0.1 s on one chunk of rows\n"
        "  hint: raise time_limit=..., or find the row on which it hangs"
    )


def test_a_predicate_cannot_swallow_its_limit() -> None:
    def stubborn(value: int) -> bool:
        for _ in range(3):
            try:
                time.sleep(30)
            except BaseException:
                if _ < 1:
                    continue
                raise
        return True

    with pytest.raises(ResourceError, match="took longer"):
        evaluator("scalar", stubborn, time_limit=0.1)(columns(), rows(0))


def test_quick_calls_and_other_threads_are_left_alone() -> None:
    quick = evaluator("scalar", lambda v: True, time_limit=5)
    assert quick(columns(), rows(0)).passed.tolist() == [True]
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(quick(columns(), rows(0))))
    thread.start()
    thread.join()
    assert found[0].passed.tolist() == [True]


@each_flavour
def test_a_value_that_could_not_be_computed_is_neither_read_nor_rejected(flavour: Flavour) -> None:
    chunk = columns([1, 0, 2, 4])
    inverse = Evaluator("inverse", lambda v: 8 // v, ("a",), "scalar", pa.int64(), lambda v: True, keep="b")
    assert said(inverse(chunk, rows(0, 1, 2))) == {1: "ZeroDivisionError: integer division or modulo by zero"}
    read: list[Any] = []

    def large(value: Any) -> bool:
        read.append(value)
        return value is not None and value > 4

    reader = Evaluator("reader", in_flavour(flavour, large), ("b",), flavour, BOOLEAN, keep="c")
    verdict = reader(chunk, rows(0, 1, 2))
    assert verdict.passed.tolist() == [True, True, False]
    assert verdict.failures is None
    assert read == [8, 4]
    last = Evaluator("last", lambda v: False, ("c",), "scalar", BOOLEAN)
    assert last(chunk, rows(1, 2)).passed.tolist() == [True, False], "nor is what follows from it"


# Iterator-style functions


def test_iterators_keep_their_set_up_until_they_fail() -> None:
    started = []

    def batches(given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        started.append(1)
        for a in given:
            if 13 in a.to_pylist():
                raise ValueError(13)
            yield pc.greater(a, 0)

    judge = Evaluator("it", IteratorAdapter("it", batches, one_column=True), ("a",), "arrow_iterator", BOOLEAN)
    for _ in range(5):
        assert judge(columns([1, -1]), rows(0, 1)).passed.tolist() == [True, False]
    assert len(started) == 1
    assert said(judge(columns([1, 13]), rows(0, 1))) == {1: "ValueError: 13"}
    assert judge(columns([1, -1]), rows(0, 1)).passed.tolist() == [True, False]


def test_iterators_of_several_columns_get_tuples() -> None:
    def batches(given: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        for a, b in given:
            yield pc.greater(a, b)

    judge = Evaluator("it", IteratorAdapter("it", batches, one_column=False), ("a", "b"), "arrow_iterator", BOOLEAN)
    chunk = columns([1, 5], b=pa.array([2, 2]))
    assert judge(chunk, rows(0, 1)).passed.tolist() == [False, True]


def test_an_iterator_that_stops_early_fails_clearly() -> None:
    def once(given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield pc.is_valid(next(given))

    judge = Evaluator("it", IteratorAdapter("it", once, one_column=True), ("a",), "arrow_iterator", BOOLEAN)
    assert judge(columns([1]), rows(0)).passed.tolist() == [True]
    with pytest.raises(DataError, match="ended before it had answered every batch"):
        judge(columns([1]), rows(0))


@pytest.mark.parametrize("ahead", [list, lambda batches: zip(batches, batches, strict=True)])
def test_an_iterator_that_reads_ahead_fails_clearly(ahead: Callable[[Iterator[Any]], Any]) -> None:
    """Spark has the next batch ready; here the rows of the next one are not known before the answer to this one."""

    def batches(given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in ahead(given):
            yield pc.is_valid(batch)

    judge = Evaluator("it", IteratorAdapter("it", batches, one_column=True), ("a",), "arrow_iterator", BOOLEAN)
    for _ in range(2):
        with pytest.raises(DataError, match="'it' asked for another batch before it had answered the last one"):
            judge(columns([1]), rows(0))


def _identity(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def test_a_started_iterator_can_be_sent_on() -> None:
    fed = IteratorAdapter("it", _identity, one_column=True)
    assert fed([1]) == [1]
    assert "_running" in fed.__dict__
    assert fed.__getstate__()["_running"] is None
    assert pickle.loads(pickle.dumps(IteratorAdapter("it", len, one_column=True)))._running is None  # type: ignore[arg-type]


# Columns


def test_each_row_is_decoded_once() -> None:
    decoded = []

    def convert(value: Any) -> Any:
        decoded.append(value)
        return value

    chunk = ChunkColumns({"t": pa.array([[1], [2], None, [3]])}, {"t": convert}, "UTC", length=4)
    assert chunk.values("t", rows(3, 0)) == [[3], [1]]
    assert chunk.values("t", rows(0, 1, 2, 3)) == [[1], [2], None, [3]]
    assert decoded == [[3], [1], [2]]


@pytest.mark.parametrize("values", [["x"], ["x", "y"], [1], [1, 2], [0.5, 1.5], ["x", None]])
def test_values_of_a_user_s_own_type_are_always_converted(values: list[Any]) -> None:
    chunk = ChunkColumns({"t": pa.array(values)}, {"t": lambda value: ("own", value)}, "UTC", length=len(values))
    wanted = [None if value is None else ("own", value) for value in values]
    assert chunk.values("t", np.arange(len(values))) == wanted


NESTED: list[tuple[pa.Array, Any, Any]] = [
    (pa.array([[3, 1]]), None, [3, 1]),
    (pa.array([[[3], None]]), None, [[3], None]),
    (pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int64()))), dict, {"k": [1]}),
    (pa.array([{"x": [2, 1]}]), lambda value: Row(**value), Row(x=[2, 1])),
    (pa.array([{"x": 2}]), None, {"x": 2}),
]


@pytest.mark.parametrize(("array", "convert", "wanted"), NESTED, ids=lambda of: str(getattr(of, "type", "")))
def test_what_one_function_does_to_a_value_the_next_does_not_see(array: pa.Array, convert: Any, wanted: Any) -> None:
    chunk = ChunkColumns({"t": array}, {"t": convert} if convert else {}, "UTC", length=1)
    for _ in range(3):
        (value,) = chunk.values("t", rows(0))
        assert value == wanted
        assert type(value) is type(wanted)
        changed = value[0] if isinstance(value, Row) else value
        changed.clear()


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.bool_(), pa.string()])
def test_series_may_be_changed_in_place(kind: pa.DataType) -> None:
    def in_place(s: Any) -> Any:
        s[0] = s[1]
        return s == s[1]

    array = pa.array([0, 1, 0]).cast(kind)
    chunk = ChunkColumns({"a": array}, {}, "UTC", length=3)
    for _ in range(2):
        verdict = Evaluator("it", in_place, ("a",), "pandas", BOOLEAN)(chunk, rows(0, 1, 2))
        assert (verdict.passed.tolist(), verdict.failures) == ([True, True, False], None)
    assert array.equals(pa.array([0, 1, 0]).cast(kind))


def test_series_are_those_of_spark_s_pandas_udfs() -> None:
    instants = pa.array([0, None, 3_600_000_000], type=pa.timestamp("us", tz="UTC"))
    nested = pa.array([{"x": 1, "y": "p"}, {"x": 2, "y": None}, {"x": 3, "y": "r"}])
    chunk = ChunkColumns({"t": instants, "s": nested}, {}, "Asia/Tokyo", length=3)
    times = chunk.series("t", rows(2, 0))
    assert times.tolist() == [pd.Timestamp("1970-01-01 10:00:00"), pd.Timestamp("1970-01-01 09:00:00")]
    assert chunk.series("s", rows(2, 0)).to_dict("list") == {"x": [3, 1], "y": ["r", "p"]}


def test_converters_are_only_there_where_arrow_and_spark_differ() -> None:
    assert converter(LongType()) is None
    assert converter(StringType()) is None
    assert converter(TimestampType()) is not None
    convert = converter(StructType().add("a", LongType()).add("b", StringType()))
    assert convert is not None
    assert repr(convert({"a": 1, "b": None})) == "Row(a=1, b=None)"


# Look-ups


@given(
    st.lists(st.one_of(st.none(), st.integers(-4, 4)), max_size=20),
    st.lists(st.integers(-4, 4)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([pa.int64(), pa.int32(), pa.int8(), pa.float64(), pa.decimal128(6, 2)]),
)
def test_members_agree_with_the_definition(
    probed: list[int | None], values: list[int], negate: bool, many: bool, kind: pa.DataType
) -> None:
    table = pa.array([*values, *(range(100, 2000) if many else [])], type=pa.int64())
    found = MemberTest(table, negate=negate)(pa.array(probed, type=kind))
    assert found.to_pylist() == [None if v is None else (v in values) != negate for v in probed]


@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        (pa.array(["x"]), pa.array([1]), "'it' looks up values of type int64 among values of type string"),
        (pa.array([1]), pa.array(["x"]), "'it' looks up values of type string among values of type int64"),
        (pa.array([b"x"]), pa.array(["x"]), "'it' looks up values of type string among values of type binary"),
    ],
)
def test_values_of_another_kind_are_refused(values: pa.Array, column: pa.Array, message: str) -> None:
    with pytest.raises(DataError) as caught:
        MemberTest(values, name="it")(column)
    assert str(caught.value) == f"{message}\n  hint: bring both to one type: cast the column, or convert the values"


MIDNIGHT = datetime(2024, 6, 1)  # noqa: DTZ001 - a local time
TOKYO = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([MIDNIGHT]),
        pa.array([MIDNIGHT.date()]),
        pa.array([MIDNIGHT.replace(tzinfo=TOKYO)], pa.timestamp("us", "UTC")),
    ],
)
@pytest.mark.parametrize("kind", [pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us"), pa.date32()])
def test_local_times_are_looked_up_in_the_session_s_zone(values: pa.Array, kind: pa.DataType) -> None:
    local = pa.array([MIDNIGHT, MIDNIGHT + timedelta(days=1)])
    column = pc.assume_timezone(local, "Asia/Tokyo") if getattr(kind, "tz", None) else local.cast(kind)
    assert MemberTest(values, rules=SessionRules("Asia/Tokyo"))(column).to_pylist() == [True, False]


@pytest.mark.parametrize("make", [pd.Series, np.array])
def test_local_times_that_a_predicate_returns_are_of_the_session_s_zone(make: Callable[[Any], Any]) -> None:
    chunk = ChunkColumns({"a": pa.array([1])}, {}, "Asia/Tokyo", length=1)
    local = np.array([MIDNIGHT], dtype="datetime64[us]")
    kind = pa.timestamp("us", "UTC")
    judge = Evaluator("it", lambda a: make(local), ("a",), "pandas", kind, lambda v: pd.Series([True]), keep="t")
    assert judge(chunk, rows(0)).passed.tolist() == [True]
    assert chunk.array("t", rows(0)).to_pylist() == [MIDNIGHT.replace(tzinfo=TOKYO)]


def test_a_test_gets_the_very_times_that_the_function_returned() -> None:
    chunk = ChunkColumns({"a": pa.array([1])}, {}, "Asia/Tokyo", length=1)
    asked: list[pd.Series] = []

    def test(times: pd.Series) -> pd.Series:
        asked.append(times)
        return times == pd.Timestamp(MIDNIGHT)

    kind = pa.timestamp("us", "UTC")
    judge = Evaluator("it", lambda a: pd.Series([MIDNIGHT]), ("a",), "pandas", kind, test, keep="t")
    assert judge(chunk, rows(0)).passed.tolist() == [True]
    assert asked[0].tolist() == [pd.Timestamp(MIDNIGHT)]
    assert chunk.array("t", rows(0)).to_pylist() == [MIDNIGHT.replace(tzinfo=TOKYO)]


# Returned values


def kept(function: Any, kind: pa.DataType, flavour: Flavour = "pandas") -> Any:
    """The value that a function returns for one row, as it is kept, in a session of Tokyo."""
    chunk = ChunkColumns({"a": pa.array([1])}, {}, "Asia/Tokyo", length=1)
    test = (lambda v: True) if flavour == "scalar" else lambda v: [True]
    judge = Evaluator("it", function, ("a",), flavour, kind, test, keep="k")
    verdict = judge(chunk, rows(0))
    return chunk.array("k", rows(0)).to_pylist()[0] if not verdict.failures else verdict.failures[0]


INSTANT = pa.timestamp("us", "UTC")
LOCAL, SAME = pd.Timestamp(MIDNIGHT), MIDNIGHT.replace(tzinfo=TOKYO)


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        ([LOCAL, None, pd.NaT], pa.list_(INSTANT), [SAME, None, None]),
        (np.array([LOCAL], dtype="datetime64[us]"), pa.list_(INSTANT), [SAME]),
        ([LOCAL.tz_localize("UTC")], pa.list_(INSTANT), [SAME + timedelta(hours=9)]),
        ({"k": LOCAL}, pa.map_(pa.string(), INSTANT), [("k", SAME)]),
        ({"t": LOCAL}, pa.struct([("t", INSTANT)]), {"t": SAME}),
        (np.nan, pa.list_(INSTANT), None),
    ],
)
def test_local_times_inside_values_are_of_the_session_s_zone(value: Any, kind: pa.DataType, found: Any) -> None:
    assert kept(lambda a: pd.Series([value], dtype=object), kind) == found


@pytest.mark.parametrize("names", [["n", "t"], [1, 0]])
def test_a_frame_is_a_column_of_structs(names: list[Any]) -> None:
    frame = pd.DataFrame({names[0]: [7], "more" if names[0] == "n" else 2: [0], names[1]: [LOCAL]})
    kind = pa.struct([("t", INSTANT), ("n", pa.int64())])
    assert kept(lambda a: frame if names[0] == "n" else frame[[0, 1]], kind) == {"t": SAME, "n": 7}
    with pytest.raises(DataError, match="'it' returned a DataFrame without the column 'n'"):
        kept(lambda a: frame.iloc[:, [2]], kind)


@pytest.mark.parametrize(
    "kind",
    [BOOLEAN, pa.string(), pa.binary(), pa.int64(), pa.date32(), pa.decimal128(9, 2), INSTANT, pa.list_(INSTANT)],
)
@pytest.mark.parametrize("dtype", ["float64", "Int64", object])
def test_a_result_without_any_value_is_taken_whatever_pandas_makes_of_it(kind: pa.DataType, dtype: Any) -> None:
    missing = pd.NA if dtype == "Int64" else np.nan
    assert kept(lambda a: pd.Series([missing], dtype=dtype), kind) is None


@pytest.mark.parametrize("kind", [BOOLEAN, pa.string(), pa.binary()])
def test_numbers_are_no_truths_texts_or_bytes(kind: pa.DataType) -> None:
    with pytest.raises(DataError, match=f"returned float64, expected {kind}"):
        kept(lambda a: pd.Series([0.5]), kind)


def test_variants_are_kept_also_beside_rows_that_do_not_pass() -> None:
    kind = arrow_type(VariantType())
    chunk = columns([1, 2, 3])
    judge = Evaluator("it", lambda v: VariantVal(b"v", b"m") if v < 3 else None, ("a",), "scalar", kind, bool, keep="k")
    assert judge(chunk, rows(0, 2)).failures is None
    spread = chunk.spread("k", rows(0)).cast(kind)
    assert spread.to_pylist() == [{"value": b"v", "metadata": b"m"}, None, None]
    assert chunk.series("k", rows(0)).map(repr).tolist() == ["VariantVal(b'v', b'm')"]


TOO_LONG = (
    "it returned the number 123456789.1, expected decimal128(10, 2); returns=... declares decimal128(10, 2); "
    "return numbers that need no more digits (round them)"
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1.005", Decimal("1.00")),
        ("1.015", Decimal("1.02")),
        ("12345678.999", Decimal("12345679.00")),
        ("1E+2", Decimal("100.00")),
        ("NaN", None),
        ("123456789.1", TOO_LONG),
    ],
)
def test_decimals_of_single_values_are_rounded_as_in_spark(value: str, found: Any) -> None:
    assert kept(lambda a: Decimal(value), pa.decimal128(10, 2), "scalar") == found
    if found is not TOO_LONG:
        assert kept(lambda a: [Decimal(value)], pa.list_(pa.decimal128(10, 2)), "scalar") == [found]


def test_decimals_of_whole_columns_have_to_fit_as_in_spark() -> None:
    with pytest.raises(DataError) as caught:
        kept(lambda a: pd.Series([Decimal("1.005")]), pa.decimal128(10, 2))
    assert str(caught.value) == (
        "predicate 'it' returned the number 1.005, expected decimal128(10, 2)\n"
        "  hint: returns=... declares decimal128(10, 2); return numbers that need no more digits (round them)"
    )


def test_prefixes_need_text() -> None:
    with pytest.raises(DataError, match="'it' looks for prefixes in values of type int64"):
        UnderPrefix(PrefixSet(["1"]), name="it")(pa.array([1]))
    assert UnderPrefix(PrefixSet(["1"]))(pa.nulls(2, pa.string())).to_pylist() == [None, None]
