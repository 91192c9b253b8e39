"""What predicates demand of each other, how they are cut into stages, and how wrong ones are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from itertools import permutations
from types import SimpleNamespace
from typing import Any, Literal, NewType

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.model.build import gather
from anabranch.model.predicates import (
    Kind,
    LookupPredicate,
    NativePredicate,
    Predicate,
    PythonPredicate,
    constraints,
    require_unique_names,
    stages,
)
from anabranch.model.prefixes import PrefixSet
from anabranch.model.type_hints import flavour_of
from anabranch.ordering import Precedence

kinds: st.SearchStrategy[Kind] = st.sampled_from(["pure", "pure", "pure", "fallible", "volatile"])


@st.composite
def written(draw: st.DrawFn) -> list[Predicate]:
    """A list of predicates, some native, some keeping a column that others read."""
    made: list[Predicate] = []
    for i in range(draw(st.integers(1, 5))):
        common: dict[str, Any] = {
            "kind": draw(kinds),
            "strict": draw(st.booleans()) and draw(st.booleans()),
            "pinned": draw(st.integers(0, 5)) == 0,
        }
        if draw(st.booleans()):
            made.append(NativePredicate(f"n{i}", **common))
        else:
            columns = tuple(f"k{j}" for j in draw(st.frozensets(st.integers(0, 4))) if j != i)
            made.append(PythonPredicate(f"p{i}", **common, columns=columns, keep=f"k{i}"))
    return made


def legal_orders(predicates: list[Predicate], strict: bool) -> list[tuple[int, ...]]:
    """The definition: all orders in which readers follow keepers, strict ones their guards, barriers stay."""

    def allowed(order: tuple[int, ...]) -> bool:
        place = {f: at for at, f in enumerate(order)}
        for i, p in enumerate(predicates):
            ahead = {j for j in place if place[j] < place[i]}
            keepers = {j for j, q in enumerate(predicates) if q.keeps in p.reads}
            guarded = p.strict or (strict and p.kind == "fallible")
            barrier = p.pinned or p.kind == "volatile"
            if not keepers <= ahead or ((guarded or barrier) and not set(range(i)) <= ahead):
                return False
            if barrier and ahead != set(range(i)):
                return False
        return True

    return [order for order in permutations(range(len(predicates))) if allowed(order)]


@given(written(), st.booleans())
def test_constraints_leave_exactly_the_legal_orders(predicates: list[Predicate], strict: bool) -> None:
    edges = constraints(predicates, strict=strict)
    every = permutations(range(len(predicates)))
    kept = [order for order in every if all(order.index(a) < order.index(b) for a, b in edges)]
    assert kept == legal_orders(predicates, strict)


@given(written(), st.booleans())
def test_stages_are_a_legal_order_or_there_is_none(predicates: list[Predicate], strict: bool) -> None:
    legal = legal_orders(predicates, strict)
    if not legal:
        with pytest.raises(QueryError, match="depend on each other"):
            stages(predicates, strict=strict)
        return
    order: list[int] = []
    for stage in stages(predicates, strict=strict):
        members = [predicates[i] for i in stage.members]
        assert {isinstance(p, NativePredicate) for p in members} == {stage.executor == "catalyst"}
        inner = Precedence(len(members), constraints(members, strict=strict))
        order += [stage.members[at] for at in inner.legal(range(len(members)))]
    assert tuple(order) in legal


def test_native_predicates_go_first_and_share_a_stage() -> None:
    python, native = PythonPredicate("p"), [NativePredicate("n1"), NativePredicate("n2")]
    assert [s.members for s in stages([native[0], python, native[1]])] == [(0, 2), (1,)]
    assert [s.executor for s in stages([python, *native])] == ["catalyst", "arrow"]


def test_a_fallible_native_predicate_stays_behind_a_python_one() -> None:
    fallible = NativePredicate("100 / a", kind="fallible", strict=True)
    assert [s.members for s in stages([PythonPredicate("p"), fallible, NativePredicate("n")])] == [(2,), (0,), (1,)]


def test_a_reader_and_its_keeper_share_a_stage_however_written() -> None:
    reader, keeper = PythonPredicate("reader", columns=("k",)), PythonPredicate("keeper", keep="k")
    assert [s.members for s in stages([reader, keeper])] == [(0, 1)]


def test_circles_are_refused_by_name() -> None:
    one, two = PythonPredicate("one", columns=("b",), keep="a"), PythonPredicate("two", columns=("a",), keep="b")
    with pytest.raises(QueryError) as caught:
        stages([one, PythonPredicate("free"), two])
    assert str(caught.value) == (
        "the predicates 'one', 'two' depend on each other in a circle\n"
        "  hint: a kept column is computed before it is read, and nothing moves across a pinned or volatile predicate"
    )
    with pytest.raises(QueryError, match="'early', 'late' depend on each other"):
        stages([PythonPredicate("early", kind="volatile", columns=("k",)), PythonPredicate("late", keep="k")])


# Building


def text_test(text: str) -> bool:
    return bool(text)


async def later(text: pa.Array) -> pa.Array:
    return text


def one_by_one(text: str) -> Iterator[bool]:
    yield bool(text)


class UserDefinedType:
    """Stands for the class of that name in Spark."""

    def simpleString(self) -> str:  # noqa: N802
        return "vector"


BAD: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ab.predicate(text_test, "t", kind=3),  # type: ignore[arg-type]
        "predicate 'text_test' has kind 3\n  hint: The kinds are: pure, fallible, volatile",
    ),
    (
        lambda: ab.predicate(SimpleNamespace(func=text_test, evalType=202), "t"),
        (
            "'text_test' is a UDF of groups, tables or windows, not of rows\n"
            "  hint: a predicate answers for every row: use udf, arrow_udf, or pandas_udf from Series to Series"
        ),
    ),
    (
        lambda: ab.predicate(text_test, "t", returns=UserDefinedType(), test=bool),
        (
            "predicate 'text_test' returns vector, a user-defined type, which predicates cannot return\n"
            '  hint: return its parts, e.g. returns="array<double>" for a vector'
        ),
    ),
    (
        lambda: ab.predicate(text_test, "t", kind="pur"),  # type: ignore[arg-type]
        "predicate 'text_test' has kind 'pur'\n  hint: did you mean 'pure'? The kinds are: pure, fallible, volatile",
    ),
    (
        lambda: ab.predicate(3, "a"),
        "a predicate needs a function or a column expression, not int",
    ),
    (
        lambda: ab.predicate(text_test, 3),  # type: ignore[arg-type]
        "a column of predicate 'text_test' is given as int, not by name\n  hint: pass column names",
    ),
    (
        lambda: ab.predicate(text_test, "t", returns="double"),
        (
            "predicate 'text_test' returns double, and has no test that decides on the value\n"
            "  hint: give test=..., e.g. test=lambda value: value > 0.5"
        ),
    ),
    (
        lambda: ab.predicate(text_test, "t", keep=""),
        "predicate 'text_test' has keep=''\n  hint: keep is the name of the column that gets the value",
    ),
    (
        lambda: ab.predicate(text_test, "t", keep="t"),
        "predicate 'text_test' reads 't', the column that it keeps\n  hint: give keep=... a new name",
    ),
    (
        lambda: ab.predicate(text_test, "t", time_limit=0),
        "predicate 'text_test' has time_limit=0\n  hint: use a number of seconds, at least 0.01",
    ),
    (
        lambda: ab.lookup(3, {1}),  # type: ignore[arg-type]
        "lookup needs the name of a column, not int",
    ),
    (
        lambda: ab.lookup("dst", "10.0.0.1"),
        "lookup needs a set or table of values, not the text '10.0.0.1'\n  hint: write {...} around it",
    ),
    (
        lambda: ab.lookup("dst", {"x"}, match="suffix"),  # type: ignore[arg-type]
        "lookup has match='suffix'\n  hint: use match='exact' or match='prefix'",
    ),
    (
        lambda: ab.lookup("dst", {"10.2."}, on="prefix"),
        (
            "lookup has on='prefix' and no match: on names a column\n"
            "  hint: match='prefix' matches prefixes; for a column named 'prefix' add match='exact' or match='prefix'"
        ),
    ),
    (
        lambda: gather([text_test]),
        'a function is not a predicate by itself\n  hint: name its columns: ab.predicate(function, "column")',
    ),
    (
        lambda: gather([3]),
        "int is not a predicate: 3\n  hint: use a Spark column expression, SQL text, ab.predicate or ab.lookup",
    ),
    (
        lambda: gather([("a > 3", "a < 9")]),
        "a tuple is not a predicate\n  hint: unpack it: ab.where(df, *predicates)",
    ),
    (
        lambda: ab.predicate("a > 3", "a"),
        (
            "a column expression takes no columns: Spark evaluates it by itself\n"
            "  hint: it takes name, kind, strict and pinned; compute values with withColumn, or in a Python function"
        ),
    ),
    (
        lambda: ab.predicate(later, "a"),
        (
            "predicate 'later' is async, and takes whole columns\n"
            "  hint: a function that calls gets one row at a time, or lists of values with batch=..."
        ),
    ),
    (
        lambda: ab.predicate(one_by_one, "a"),
        (
            "predicate 'one_by_one' is a generator, which does not return a result\n"
            "  hint: use a function that returns one; a generator of batches takes and yields Iterator[pd.Series]"
        ),
    ),
    (
        lambda: require_unique_names([PythonPredicate("p"), LookupPredicate("p")]),
        "two predicates have the name 'p'\n  hint: give each its own name=...",
    ),
    (
        lambda: require_unique_names([PythonPredicate("p", keep="k"), PythonPredicate("q", keep="k")]),
        "two predicates have the kept column 'k'\n  hint: give each its own keep=...",
    ),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[text.split("\n")[0] for _, text in BAD])
def test_wrong_predicates_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(QueryError) as caught:
        build()
    assert str(caught.value) == message


class Scorer:
    def __call__(self, text: pd.Series) -> pd.Series:
        return text


def scalar(a: int, b: "list[int]") -> bool:  # noqa: UP037 - a hint as text is what is tested
    return a in b


def series(a: pd.Series) -> pd.Series:
    return a


def frame(a: pd.DataFrame) -> pd.Series:
    return a["x"]


def series_batches(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
    yield from ()


def arrow(a: pa.Array) -> pa.Array:
    return a


def arrow_batches(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    yield from ()


def with_factor(factor: float, a: pd.Series) -> pd.Series:
    return a * factor


def unresolved(a: Missing.Series) -> Missing.Series:  # type: ignore[name-defined] # noqa: F821
    return a


class SeriesId(str):
    __slots__ = ()


IteratorArrayId = NewType("IteratorArrayId", SeriesId)
SeriesColumn = NewType("SeriesColumn", pd.Series)


def of_series_id(a: SeriesId, b: IteratorArrayId, c: Literal["Series"], d: NDArray[Any]) -> bool:
    return True


def unresolved_series_id(a: Missing.SeriesId, b: my.NDArray, c: pa_like.ArrayOf) -> bool:  # type: ignore[name-defined] # noqa: F821
    return True


def unresolved_batches(a: Iterator[tuple[pandas_.Series, ...]]) -> Missing:  # type: ignore[name-defined] # noqa: F821
    return a


def of_integers(a: pa.Int64Array | None) -> pa.ChunkedArray:
    return a


def of_new_type(a: SeriesColumn) -> bool:
    return True


@pytest.mark.parametrize(
    ("function", "flavour"),
    [
        (of_series_id, "scalar"),
        (unresolved_series_id, "scalar"),
        (unresolved_batches, "pandas_iterator"),
        (of_integers, "arrow"),
        (of_new_type, "pandas"),
        (scalar, "scalar"),
        (len, "scalar"),
        (lambda x: x, "scalar"),
        (series, "pandas"),
        (frame, "pandas"),
        (Scorer(), "pandas"),
        (functools.partial(with_factor, 2.0), "pandas"),
        (unresolved, "pandas"),
        (series_batches, "pandas_iterator"),
        (arrow, "arrow"),
        (arrow_batches, "arrow_iterator"),
    ],
)
def test_type_hints_choose_the_flavour(function: Callable[..., Any], flavour: str) -> None:
    assert flavour_of(function) == flavour


def known(word: str, table: pd.DataFrame) -> bool:
    return word in set(table["word"])


def known_by_default(word: str, table: pd.DataFrame = pd.DataFrame(), *, more: pa.Array | None = None) -> bool:  # noqa: B008
    return word in set(table["word"])


def several(*columns: pd.Series) -> bool:
    return True


@pytest.mark.parametrize(
    ("function", "columns", "flavour"),
    [
        (functools.partial(known, table=pd.DataFrame()), 1, "scalar"),
        (known_by_default, 1, "scalar"),
        (known_by_default, 2, "pandas"),
        (functools.partial(with_factor, 2.0), 1, "pandas"),
        (several, 2, "pandas"),
        (series_batches, 2, "pandas_iterator"),
    ],
)
def test_only_parameters_that_columns_fill_choose_the_flavour(
    function: Callable[..., Any], columns: int, flavour: str
) -> None:
    made = ab.predicate(function, *"ab"[:columns], name="it")
    assert isinstance(made, PythonPredicate)
    assert made.flavour == flavour


@pytest.mark.parametrize("returns", [" Boolean ", "bool", None])
def test_a_boolean_needs_no_test_however_it_is_written(returns: str | None) -> None:
    assert ab.predicate(text_test, "t", returns=returns).name == "text_test"


def test_a_set_of_values_that_can_be_gone_through_once_serves_every_use() -> None:
    found = ab.lookup("id", (i for i in range(3)))
    assert [list(found.values) for _ in range(2)] == [[0, 1, 2]] * 2


def test_names_come_from_functions() -> None:
    assert ab.predicate(scalar, "a", "b").name == "scalar"
    assert ab.predicate(Scorer(), "a").name == "Scorer"
    assert ab.predicate(scalar, "a", "b", name="mine").name == "mine"
    assert ab.lookup("dst", {1}).name == "lookup(dst)"


# Prefixes

octets = st.integers(0, 3)
ipv4 = st.builds("{}.{}.{}.{}".format, octets, octets, octets, octets)
ipv6 = st.builds("{:x}::{:x}:{:x}".format, st.integers(0, 2), octets, octets)
networks4 = st.builds("{}/{}".format, ipv4, st.integers(8, 32))
networks6 = st.builds("{}/{}".format, ipv6, st.integers(12, 128))
texts = st.text("10.a", min_size=1, max_size=4)


def under(value: str, prefix: str) -> bool:
    """The definition: in the network, or beginning with the text."""
    try:
        network = ip_network(prefix, strict=False)
    except ValueError:
        return value.startswith(prefix)
    try:
        return ip_address(value) in network
    except ValueError:
        return False


@given(
    st.lists(st.one_of(networks4, networks6, ipv4, ipv6, texts), max_size=6),
    st.lists(st.one_of(ipv4, ipv6, texts), min_size=1, max_size=12),
)
def test_prefix_sets_agree_with_the_definition(prefixes: list[str], values: list[str]) -> None:
    found = PrefixSet(prefixes)
    for value in values:
        assert found.contains(value) == any(under(value, prefix) for prefix in prefixes), value


def test_prefix_sets_stay_small() -> None:
    assert len(PrefixSet(["10.0.0.0/9", "10.128.0.0/9", "10.3.0.0/16", "11.", "11.2"])) == 2


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (3, "a prefix must be a string, not int: 3"),
        ("10.2/16", "'10.2/16' is not a network\n  hint: write networks as 10.2.0.0/16 or fe80::/10"),
    ],
)
def test_wrong_prefixes_are_refused(prefix: Any, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        PrefixSet([prefix])
    assert str(caught.value) == message


def test_what_is_volatile_or_pinned_is_a_barrier() -> None:
    assert PythonPredicate("p", kind="volatile").barrier
    assert PythonPredicate("p", pinned=True).barrier
    assert not NativePredicate("n", kind="fallible").barrier
