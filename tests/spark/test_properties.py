"""Any predicates, any policy, any cut into batches: the rows of the definition, in process and through Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import anabranch as ab
from anabranch.errors import DataError
from anabranch.model.predicates import Flavour, Kind, Predicate, PythonPredicate, constraints
from anabranch.ordering import Precedence
from anabranch.routing.policies import BY_CONTENT, NAMES, ROUTING
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.value_classes import ValueClasses, ValueSplit
from anabranch.spark.filters.batch_verdict import BatchVerdict
from anabranch.spark.filters.evaluators import BOOLEAN, Evaluator, IteratorAdapter
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.task_spec import ErrorRules, OrderingRules, StartingPoint, TaskInput, TaskOrigin
from tiers import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Bag = Callable[[DataFrame], Counter[str]]
EAGER = ab.OrderingConfig(profile_probability=0.6, window_tuples=50, minimum_profiles=5)
FABRIC, WINDOWS = "mesh by the fabric", ab.MeshConfig(executor="fabric", window_tuples=7, route_tolerance=0.3)
YES, NO, NULL, FAIL, UNREAD = range(5)
PLACE = " (test_properties.py, line "
"""The last one is that of a term on a row for which what it reads could not be computed."""
FLAVOURS: list[Flavour] = ["scalar", "pandas", "arrow", "pandas_iterator", "arrow_iterator"]
identities = count()
policies = st.sampled_from(sorted([*NAMES, FABRIC]))
kinds: st.SearchStrategy[Kind] = st.sampled_from(["pure", "pure", "fallible", "volatile"])


# In process: a worker's task on Arrow batches


@dataclass(frozen=True)
class Term:
    """A predicate over row numbers whose fate on every row is drawn; it may keep a value, and read another's."""

    flavour: Flavour
    kind: Kind
    strict: bool
    keeps: bool
    reads: int | None


terms = st.builds(
    Term,
    st.sampled_from(FLAVOURS),
    kinds,
    st.integers(0, 4).map(lambda n: n == 0),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 4)),
)


class Script:
    """Fates of all rows under all terms, the calls that were made, and the outcome by definition."""

    def __init__(self, terms: list[Term], rows: int, seed: int, failing: float) -> None:
        rng = np.random.default_rng(seed)
        rates = [(*rate * (1 - failing), failing) for rate in rng.dirichlet((6, 2, 1), size=len(terms))]
        self.terms = terms
        self.fates = np.array([rng.choice(4, size=rows, p=rate) for rate in rates], dtype=np.int64).reshape(
            len(terms), rows
        )
        for f, term in enumerate(terms):
            if term.reads is not None:
                self.fates[f, np.isin(self.fates[term.reads], (FAIL, UNREAD))] = UNREAD
        self.calls: list[list[int]] = [[] for _ in terms]

    def judge(self, f: int, row: int, read: Any) -> Any:
        """The answer of a term on a row: a truth value, or the value that it keeps."""
        self.calls[f].append(row)
        fate = self.fates[f, row]
        if fate == FAIL:
            raise ValueError(f"{f} on {row}")
        assert fate != UNREAD
        assert read is None or read == kept_value(self._reads(f), row)
        if self.terms[f].keeps:
            return {YES: kept_value(f, row), NO: -kept_value(f, row), NULL: None}[fate]
        return {YES: True, NO: False, NULL: None}[fate]

    def _reads(self, f: int) -> int:
        read = self.terms[f].reads
        assert read is not None
        return read

    def definition(self) -> tuple[list[int], dict[int, tuple[str, str]]]:
        passed, failed = [], {}
        for row, fates in enumerate(self.fates.T.tolist()):
            if all(fate == YES for fate in fates):
                passed.append(row)
            elif not {NO, NULL} & set(fates):
                f = fates.index(FAIL)
                failed[row] = (f"t{f}", f"ValueError: {f} on {row}")
        return passed, failed


def kept_value(f: int, row: int) -> int:
    return row * 10 + f + 1


def evaluator(script: Script, f: int) -> Evaluator:
    term = script.terms[f]
    read = None if term.reads is None else f"k{term.reads}"

    def each(rows: Any, reads: Any) -> list[Any]:
        pairs = zip(rows, reads if read else [None] * len(rows), strict=True)
        return [script.judge(f, int(row), None if v is None or v != v else int(v)) for row, v in pairs]

    def scalar(row: int, value: Any = None) -> Any:
        return script.judge(f, row, value)

    kind = pa.int64() if term.keeps else BOOLEAN

    def batch(rows: Any, values: Any = None) -> Any:
        if term.flavour.startswith("pandas"):
            return pd.Series(each(rows, values), dtype="Int64" if term.keeps else object)
        return pa.array(each(rows.to_pylist(), values.to_pylist() if read else None), type=kind)

    def batches(given: Iterator[Any]) -> Iterator[Any]:
        for columns in given:
            yield batch(*columns) if read else batch(columns)

    function: Any = scalar if term.flavour == "scalar" else batch
    if term.flavour.endswith("iterator"):
        function = IteratorAdapter("it", batches, one_column=read is None)
    keep = f"k{f}" if term.keeps else None
    test = _positive[term.flavour.split("_")[0]] if term.keeps else None
    return Evaluator(f"t{f}", function, ("row", read) if read else ("row",), term.flavour, kind, test, keep)


_positive: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda value: value > 0,
    "pandas": lambda values: values > 0,
    "arrow": lambda values: pa.compute.greater(values, 0),
}


def readable(terms: list[Term]) -> list[Term]:
    """Drop what cannot be: reading what nobody keeps, or in a circle."""

    def cleared(f: int, term: Term) -> Term:
        there = term.reads is not None and term.reads < f and terms[term.reads].keeps
        return term if there else Term(term.flavour, term.kind, term.strict, term.keeps, None)

    return [cleared(f, term) for f, term in enumerate(terms)]


def task(script: Script, name: str, quarantine: bool) -> FilterTask:
    policy = "mesh" if name == FABRIC else name
    predicates: list[Predicate] = [
        PythonPredicate(
            f"t{f}",
            t.kind,
            strict=t.strict,
            columns=("row",) if t.reads is None else ("row", f"k{t.reads}"),
            keep=f"k{f}" if t.keeps else None,
        )
        for f, t in enumerate(script.terms)
    ]
    precedence = Precedence(len(predicates), constraints(predicates))
    unprofiled = frozenset(f for f, t in enumerate(script.terms) if t.kind == "volatile" or t.strict)
    return FilterTask(
        identity=f"property {next(identities)}",
        part=tuple(range(len(predicates))),
        evaluators=tuple(evaluator(script, f) for f in range(len(predicates))),
        kept=tuple((f"k{f}", LongType()) for f, t in enumerate(script.terms) if t.keeps),
        input=TaskInput({"row": LongType(), "kind": LongType()}, ("kind",) if policy in BY_CONTENT else ()),
        ordering=OrderingRules(policy, EAGER, precedence, unprofiled, WINDOWS if name == FABRIC else None),
        origin=TaskOrigin("test"),
        start=StartingPoint(plan=routes(precedence, len(script.fates[0])) if policy in ROUTING else None),
        errors=ErrorRules("errors" if quarantine else None),
    )


def routes(precedence: Precedence, seed: int) -> RoutePlan:
    """Rows of two kinds out of three take orders of their own; those of the third, and without a kind, another."""
    rng = np.random.default_rng(seed)
    orders = tuple(precedence.legal(rng.permutation(precedence.filters).tolist()) for _ in range(3))
    return RoutePlan(ValueClasses((ValueSplit("kind", (0, 1)),), np.array([1, 2, 0])), orders, "content")


def run(job: FilterTask, rows: int, most: int) -> list[BatchVerdict]:
    numbers = np.arange(rows)
    kinds = pa.array([None if row % 11 == 0 else row % 3 for row in range(rows)], pa.int64())
    return list(job.run((pa.array(numbers[at : at + most]), kinds.slice(at, most)) for at in range(0, rows, most)))


@examples(3)
@given(
    terms=st.lists(terms, min_size=1, max_size=5).map(readable),
    policy=policies,
    rows=st.integers(0, 250),
    most=st.sampled_from([1, 7, 100, 1000]),
    seed=st.integers(0, 2**16),
    failing=st.sampled_from([0.0, 0.0, 0.02, 0.4]),
)
def test_a_task_gives_the_rows_of_the_definition(
    terms: list[Term], policy: str, rows: int, most: int, seed: int, failing: float
) -> None:
    script = Script(terms, rows, seed, failing)
    batches = run(task(script, policy, quarantine=True), rows, most)
    passed, failed = script.definition()
    starts = [at * most for at in range(len(batches))]
    assert [at + row for at, b in zip(starts, batches, strict=True) for row in np.flatnonzero(b.mask)] == passed
    reported = {at + row: why for at, b in zip(starts, batches, strict=True) for row, why in b.failed.items()}
    assert {row: (e.predicate, str(e.message).partition(PLACE)[0]) for row, e in reported.items()} == failed
    check_kept(script, batches, set(passed))
    check_calls(script)


def check_kept(script: Script, batches: list[BatchVerdict], passed: set[int]) -> None:
    keepers = [f for f, t in enumerate(script.terms) if t.keeps]
    kept = [
        np.concatenate([np.array(b.kept()[i].to_pylist()) for b in batches])
        for i in range(len(keepers) if batches else 0)
    ]
    for f, values in zip(keepers, kept, strict=False):
        assert [int(values[row]) for row in sorted(passed)] == [kept_value(f, row) for row in sorted(passed)]


def check_calls(script: Script) -> None:
    """Volatile terms run once on exactly the rows that no earlier one rejects, strict ones on no others."""
    rejects = (script.fates == NO) | (script.fates == NULL)
    for f, term in enumerate(script.terms):
        living = np.flatnonzero(~rejects[:f].any(axis=0) & (script.fates[f] != UNREAD)).tolist()
        if term.kind == "volatile" and term.flavour == "scalar":
            assert sorted(script.calls[f]) == living
        if term.strict or term.kind == "volatile":
            assert set(script.calls[f]) <= set(living)
        if term.flavour == "scalar":
            assert max(Counter(script.calls[f]).values(), default=1) == 1


@examples(1.5)
@given(
    terms=st.lists(terms, min_size=1, max_size=4).map(readable),
    policy=policies,
    rows=st.integers(1, 200),
    seed=st.integers(0, 2**16),
)
def test_a_task_raises_where_a_failure_counts(terms: list[Term], policy: str, rows: int, seed: int) -> None:
    script = Script(terms, rows, seed, failing=0.02)
    _, failed = script.definition()
    if not failed:
        run(task(script, policy, quarantine=False), rows, 64)
        return
    first = min(failed)
    name, message = failed[first]
    with pytest.raises(DataError) as caught:
        run(task(script, policy, quarantine=False), rows, 64)
    assert str(caught.value).startswith(
        f"predicate {name!r} failed on a row that no other predicate rejects: {message}{PLACE}"
    )


# Through Spark


@dataclass(frozen=True)
class Condition:
    """The same condition for Anabranch and for plain Spark, with the column that it adds, if any."""

    ours: Predicate | Column
    plain: Column
    kept: tuple[str, Column] | None = None


def modulo(i: int, flavour: str, divisor: int, limit: int, kind: Kind, keeps: bool) -> Condition:
    """`a % divisor < limit`, in a flavour of Python or natively; it may carry the remainder on."""
    remainder = F.col("a") % divisor
    if flavour == "native":
        return Condition(remainder < limit, remainder < limit)
    if flavour == "regex":
        return Condition(F.col("text").rlike(f"[{limit}-9]$"), F.col("text").rlike(f"[{limit}-9]$"))
    if flavour == "lookup":
        values = [v for v in range(100) if v % divisor < limit]
        return Condition(ab.lookup("a", values, name=f"lookup {i}"), F.col("a").isin(values))

    def one(value: Any) -> Any:
        return None if value is None or value != value else int(value % divisor)

    def scalar(a: int | None) -> Any:
        return one(a)

    def pandas(a: pd.Series) -> pd.Series:
        return pd.Series([one(v) for v in a], dtype="Int64")

    def arrow(a: pa.Array) -> pa.Array:
        return pa.array([one(v) for v in a.to_pylist()], type=pa.int64())

    def pandas_iterator(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for a in batches:
            yield pandas(a)

    def arrow_iterator(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for a in batches:
            yield arrow(a)

    function = {f.__name__: f for f in (scalar, pandas, arrow, pandas_iterator, arrow_iterator)}[flavour]
    under = {
        "scalar": lambda v: v < limit,
        "pandas": lambda v: v < limit,
        "arrow": lambda v: pa.compute.less(v, limit),
    }[flavour.split("_")[0]]
    keep = f"kept {i}" if keeps else None
    ours = ab.predicate(function, "a", returns="long", test=under, keep=keep, kind=kind, name=f"{flavour} {i}")
    return Condition(ours, remainder < limit, (keep, remainder.cast("long")) if keep else None)


flavours = st.sampled_from([*FLAVOURS, "native", "regex", "lookup"])
conditions = st.lists(
    st.tuples(flavours, st.integers(3, 12), st.integers(2, 9), kinds, st.booleans()), min_size=1, max_size=6
).map(lambda drawn: [modulo(i, *parts) for i, parts in enumerate(drawn)])


@settings(examples(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    conditions=conditions,
    policy=policies,
    most=st.sampled_from([1, 7, 1000, 10_000]),
    partitions=st.integers(1, 5),
    strict=st.booleans(),
)
def test_spark_gives_the_rows_of_plain_spark(
    spark: SparkSession,
    rows: DataFrame,
    bag: Bag,
    batch_rows: Callable[[int], None],
    conditions: list[Condition],
    policy: str,
    most: int,
    partitions: int,
    strict: bool,
) -> None:
    batch_rows(most)
    few = rows.where(F.col("id") < (200 if most == 1 else 1200)).repartition(partitions)
    attributes = ["a", "b", "dst"]
    setting: dict[str, Any] = (
        {"policy": "mesh", "config": WINDOWS} if policy == FABRIC else {"policy": policy, "config": EAGER}
    )
    f = ab.Filter(*(c.ours for c in conditions), strict=strict, attributes=attributes, **setting)
    plain = few
    for condition in conditions:
        plain = plain.where(condition.plain)
    plain = plain.withColumns({name: column for c in conditions if c.kept for name, column in [c.kept]})
    out = f.apply(few)
    assert bag(out.select(plain.columns)) == bag(plain)
    assert set(out.columns) == set(plain.columns)
    check_report(f, few.count())


def check_report(f: ab.Filter, rows: int) -> None:
    lines = [p for p in f.report().predicates if p.executor == "arrow"]
    for line in lines:
        assert line.seen is not None
        assert line.passed is not None
        assert line.calls is not None
        assert line.errors == 0
        assert line.passed + (line.dropped or 0) == line.seen <= line.calls <= rows
