"""The oracle against answers by hand and against the definition written out in Python."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from sqlglot import exp

from cql.generate import cases, random_case
from cql.oracle import Oracle, Window, normalised, stream_kind
from cql.streams import SECOND, Case, Relation, Row, Stream
from tiers import examples

needs_dialect = pytest.mark.skipif(
    importlib.util.find_spec("anabranch.cql.dialect") is None, reason="the dialect is not there yet"
)
VALUES = (("k", "bigint"), ("a", "bigint"))
LABELS = {0: "red", 1: "green", 3: "blue"}


def query(text: str, to_stream: str | None = None, /, **windows: Window) -> exp.Expr:
    """A query of Spark's SQL whose sources, by alias or name, get windows; written by hand as the dialect would."""
    tree = sqlglot.parse_one(text, dialect="spark")
    for node in tree.find_all(exp.Table, exp.Subquery):
        if node.alias_or_name in windows:
            node.meta["window"] = windows[node.alias_or_name]
    if to_stream:
        tree.meta["to_stream"] = to_stream
    return tree


def parsed(text: str) -> exp.Expr:
    from anabranch.cql.dialect import parse_query

    return parse_query(text)


def stream(*rows: Row, name: str = "s", sequenced: bool = True) -> Stream:
    """A stream of rows `(seconds, k, a)`, in sequence."""
    numbered = tuple((number, round(time * SECOND), *values) for number, (time, *values) in enumerate(rows))
    return Stream(name, VALUES, numbered, sequenced)


def in_seconds(answer: Counter[Row], place: int = -1) -> list[Row]:
    rows = [list(row) for row in answer.elements()]
    for row in rows:
        row[place] = row[place] / SECOND
    return sorted(map(tuple, rows))


# --- the definition, written out


def made(name: str, count: int, keys: int, seed: int) -> Stream:
    rng = random.Random(seed)
    times = sorted(rng.randrange(40) for _ in range(count))
    return stream(*((time, rng.randrange(keys), rng.randrange(10)) for time in times), name=name)


S1, S2 = made("s1", 40, 4, 1), made("s2", 30, 5, 2)
COLOURS = Relation("r", (("k", "bigint"), ("label", "string")), tuple(LABELS.items()))
END = max(row[1] for row in S1.rows + S2.rows)


def latest(source: Stream, instant: int, seconds: int) -> list[Row]:
    return [row for row in source.rows if row[1] <= instant <= row[1] + seconds * SECOND]


def instants(*spans: tuple[Stream, int]) -> list[int]:
    points = {row[1] for source, _ in spans for row in source.rows}
    points |= {row[1] + seconds * SECOND + 1 for source, seconds in spans for row in source.rows}
    return sorted(point for point in points if point <= END)


def differences(relation: Callable[[int], Iterable[Row]], points: list[int], into: bool) -> Counter[Row]:
    """What enters a relation, or leaves it."""
    found: Counter[Row] = Counter()
    for instant in points:
        now, before = Counter(relation(instant)), Counter(relation(instant - 1))
        found.update({(*row, instant): n for row, n in (now - before if into else before - now).items()})
    return found


def joined(instant: int) -> list[Row]:
    return [(x[2], x[3], y[3]) for x in latest(S1, instant, 5) for y in latest(S2, instant, 8) if x[2] == y[2]]


def busy(instant: int) -> list[Row]:
    groups: dict[int, list[int]] = {}
    for _, _, key, value in latest(S1, instant, 6):
        groups.setdefault(key, []).append(value)
    return [(key, len(values), sum(values)) for key, values in groups.items()]


def absent(instant: int) -> list[Row]:
    there = {row[2] for row in latest(S2, instant, 4)}
    return [(row[2], row[3]) for row in latest(S1, instant, 0) if row[2] not in there]


@pytest.mark.parametrize("kind", ["istream", "dstream"])
def test_windowed_join(kind: str) -> None:
    ast = query(
        "Select s1.k, s1.a, s2.a As b From s1, s2 Where s1.k = s2.k",
        kind,
        s1=Window(span=5 * SECOND),
        s2=Window(span=8 * SECOND),
    )
    expected = differences(joined, instants((S1, 5), (S2, 8)), kind == "istream")
    assert sum(expected.values()) > 20
    assert Oracle([S1, S2]).answer(ast) == expected


def test_groups_as_changes() -> None:
    ast = query("Select k, count(*) As n, sum(a) As total From s1 Group By k", s1=Window(span=6 * SECOND))
    oracle, points = Oracle([S1]), instants((S1, 6))
    new, old = (differences(busy, points, into) for into in (True, False))
    last = max(row[1] for row in S1.rows)
    signed = Counter({(*row, 1): n for row, n in new.items()}) + Counter({(*row, -1): n for row, n in old.items()})
    assert oracle.answer(ast) == Counter({row: n for row, n in signed.items() if row[-2] <= last})
    assert not oracle.is_stream(ast)


def test_absence() -> None:
    ast = query(
        "Select k, a From s1 Where k Not In (Select k From s2)",
        "istream",
        s1=Window(span=0),
        s2=Window(span=4 * SECOND),
    )
    assert Oracle([S1, S2]).answer(ast) == differences(absent, instants((S1, 0), (S2, 4)), into=True)


def test_rstream_of_a_partitioned_window_and_a_relation() -> None:
    ast = query("Select s1.a, r.label From s1, r Where s1.k = r.k", "rstream", s1=Window(rows=2, partition=("k",)))
    expected: Counter[Row] = Counter()
    for instant in {row[1] for row in S1.rows}:
        for key, label in LABELS.items():
            so_far = [row for row in S1.rows if row[1] <= instant and row[2] == key]
            expected.update((row[3], label, instant) for row in so_far[-2:])
    assert Oracle([S1], [COLOURS]).answer(ast) == expected


# --- windows by hand

TIES = stream((0, 0, 5), (0, 1, 3), (0, 0, 4), (2, 1, None), (2, 0, 1))


def held(source: Stream, window: Window, seconds: float) -> list[Any]:
    rows = Oracle([source]).relation_at(query("Select a From s", s=window), round(seconds * SECOND))
    return sorted((a for (a,) in rows.elements()), key=lambda a: (a is not None, a))


@pytest.mark.parametrize(
    ("window", "at", "expected"),
    [
        (Window(), 1.5, [3, 4, 5]),
        (Window(span=0), 0, [3, 4, 5]),
        (Window(span=0), 0.000001, []),
        (Window(span=2 * SECOND), 2, [None, 1, 3, 4, 5]),
        (Window(span=2 * SECOND), 2.000001, [None, 1]),
        (Window(rows=2), 0, [3, 4]),
        (Window(rows=1), 2, [1]),
        (Window(rows=3), 9, [None, 1, 4]),
        (Window(rows=1, partition=("k",)), 0, [3, 4]),
        (Window(rows=2, partition=("K",)), 2, [None, 1, 3, 4]),
        (Window(rows=3, span=SECOND), 2, [None, 1]),
        (Window(rows=1, span=SECOND), 4, []),
        (Window(span=SECOND, slide=3 * SECOND), 2, [3, 4, 5]),
        (Window(span=SECOND, slide=3 * SECOND), 3, [None, 1]),
        (Window(rows=1, slide=3 * SECOND), 2.5, [4]),
        (Window(rows=2, slide_rows=2), 0, [3, 5]),
        (Window(rows=2, slide_rows=2), 2, [None, 4]),
        (Window(rows=1, slide_rows=3), 1, [4]),
        (Window(rows=3, slide_rows=2, partition=("k",)), 2, [None, 3, 4, 5]),
    ],
)
def test_what_a_window_holds(window: Window, at: float, expected: list[Any]) -> None:
    assert held(TIES, window, at) == expected


def test_without_a_sequence_ties_are_ordered_by_values_and_nulls_come_last() -> None:
    source = stream((0, 1, 7), (0, 0, 9), (0, None, 8), (0, 1, None), sequenced=False)
    assert held(source, Window(rows=1), 0) == [8]
    assert held(source, Window(rows=2), 0) == [None, 8]
    assert held(source, Window(rows=3), 0) == [None, 7, 8]


def test_instants_are_the_moves_of_windows_up_to_the_end() -> None:
    oracle, source = Oracle([TIES]), "Select a From s"
    assert oracle.instants(query(source, s=Window(span=SECOND))) == [0, SECOND + 1, 2 * SECOND]
    assert oracle.instants(query(source, s=Window(span=0, slide=SECOND))) == [0, SECOND, 2 * SECOND]
    assert oracle.origin(query(source)) == 0


# --- streams by hand


def test_dstream_emits_what_leaves_and_nothing_after_the_end() -> None:
    source = stream((0, 1, 10), (1, 1, 20), (3, 1, 30))
    answer = Oracle([source]).answer(query("Select a From s", "dstream", s=Window(span=SECOND)))
    assert answer == Counter({(10, SECOND + 1): 1, (20, 2 * SECOND + 1): 1})


def test_istream_and_dstream_are_differences_of_bags() -> None:
    source = stream((0, 1, 10), (1, 1, 10), (2, 1, 10), (2, 1, 20))
    oracle = Oracle([source])
    assert in_seconds(oracle.answer(query("Select a From s", "istream", s=Window(rows=2)))) == [
        (10, 0.0),
        (10, 1.0),
        (20, 2.0),
    ]
    assert in_seconds(oracle.answer(query("Select a From s", "dstream", s=Window(rows=2)))) == [(10, 2.0)]


def test_rstream_with_a_slide_emits_at_its_boundaries_alone() -> None:
    source = stream((1, 1, 10), (4, 1, 20), (5, 1, 30))
    ast = query("Select a From s", "rstream", s=Window(span=2 * SECOND, slide=2 * SECOND))
    assert in_seconds(Oracle([source]).answer(ast)) == [(10, 2.0), (20, 4.0)]


@needs_dialect
def test_a_window_over_an_rstream_does_not_tell_when_it_emits() -> None:
    source = stream((1, 1, 10), (3, 1, 20))
    text = "Select Istream(a) From (Select Rstream(a) From s [Range 2 Seconds]) [Range 9 Seconds Slide 1 Second] As x"
    assert in_seconds(Oracle([source]).answer(parsed(text))) == [(10, 1.0), (10, 3.0), (20, 3.0)]


def test_not_in_is_never_true_beside_a_null() -> None:
    left = stream((0, 1, 1), (1, 2, None), (3, 3, 3), name="s1")
    right = stream((2, 1, 9), (3, 2, None), name="s2")
    ast = query("Select s1.k From s1 Where s1.a Not In (Select a From s2)")
    assert not Oracle([left, right]).is_stream(ast)
    answer = Oracle([left, right]).answer(ast)
    assert in_seconds(answer, place=-2) == [(1, 0.0, 1), (1, 3.0, -1), (2, 1.0, 1), (2, 2.0, -1)]


def test_a_global_aggregate_has_a_row_from_the_origin_on() -> None:
    oracle = Oracle([stream(name="s1"), stream((5, 1, 10), (7, 1, 20), name="s2"), stream((3, 1, 1), name="s3")])
    ast = query("Select count(*) As n, sum(s2.a) As total From s1, s2")
    assert in_seconds(oracle.answer(ast), place=-2) == [(0, None, 5.0, 1)]
    assert oracle.relation_at(ast, 5 * SECOND - 1) == Counter()
    both = query("Select count(*) As n From s2, s3 Where s2.k = s3.k", s3=Window(rows=1))
    assert in_seconds(oracle.answer(both), place=-2) == [
        (0, 3.0, 1),
        (0, 5.0, -1),
        (1, 5.0, 1),
        (1, 7.0, -1),
        (2, 7.0, 1),
    ]


def test_empty_streams_have_no_answer() -> None:
    oracle = Oracle([stream()])
    for text in ("Select a From s", "Select count(*) As n From s"):
        assert oracle.answer(query(text)) == Counter()
        assert oracle.instants(query(text)) == []
        assert oracle.origin(query(text)) is None


def test_a_stream_within_a_query_is_evaluated_first() -> None:
    source = stream((0, 1, 10), (1, 1, 20), (5, 1, 30))
    clock = stream((0, 0, 0), (8, 0, 0), name="clock")
    ast = query("Select x.a, x.n From (Select a, count(*) As n From s Group By a) As x, clock", "istream")
    inner = ast.find(exp.Subquery)
    table = ast.find(exp.Group).parent_select.find(exp.Table)  # type: ignore[union-attr]
    assert inner is not None
    assert isinstance(table, exp.Table)
    inner.this.meta["to_stream"] = "dstream"
    inner.meta["window"] = Window(span=2 * SECOND)
    table.meta["window"] = Window(span=SECOND)
    answer = Oracle([source, clock]).answer(ast)
    assert answer == Counter(
        {(10, 1, SECOND + 1): 1, (20, 1, 2 * SECOND + 1): 1, (30, 1, 6 * SECOND + 1): 1, (30, 1, 8 * SECOND): 1}
    )


@pytest.mark.parametrize(
    ("text", "windows", "expected"),
    [
        ("Select k From s Where a > 3", {}, "istream"),
        ("Select Distinct s.k From s, r Where s.k = r.k", {}, "istream"),
        ("Select k From s Intersect All Select k From r", {}, "istream"),
        ("Select k From s Where k In (Select k From t) And Exists (Select 1 From r)", {}, "istream"),
        ("Select k From s Where Not (a > 3)", {}, "istream"),
        ("Select k From s", {"s": Window(rows=1)}, None),
        ("Select k From s", {"s": Window(slide=SECOND)}, "istream"),
        ("Select k From s", {"s": Window(span=SECOND, slide=SECOND)}, None),
        ("Select k From s Where k In (Select k From t)", {"t": Window(span=0)}, None),
        ("Select count(*) As n From s", {}, None),
        ("Select k From s Group By k", {}, None),
        ("Select k From s Except Select k From t", {}, None),
        ("Select k From s Where k Not In (Select k From t)", {}, None),
        ("Select k From s Where Not (a > 3 Or Exists (Select 1 From t))", {}, None),
        ("Select x.k From (Select k From s Group By k) As x", {}, None),
        ("Select s.k From s Left Join t On s.k = t.k", {}, None),
    ],
)
def test_a_monotone_query_is_a_stream(text: str, windows: dict[str, Window], expected: str | None) -> None:
    assert stream_kind(query(text, **windows)) == expected


def test_floats_are_compared_up_to_nine_digits() -> None:
    assert normalised((1, None, "x", 1 / 3, 1e-12, -0.0)) == (1, None, "x", 0.333333333, 0.0, 0.0)


def test_what_cannot_be_evaluated_is_an_error() -> None:
    with pytest.raises(LookupError, match="'missing'"):
        Oracle([TIES]).answer(query("Select a From missing"))
    with pytest.raises(ValueError, match="a window over a relation"):
        Oracle([TIES]).answer(query("Select x.n From (Select count(*) As n From s) As x", x=Window(rows=1)))


# --- random queries


def evaluate(case: Case) -> None:
    oracle, ast = Oracle(case.streams, case.relations), parsed(case.query)
    assert all(count > 0 for count in oracle.answer(ast).values())


@needs_dialect
@examples(1.5)
@given(cases())
def test_every_generated_query_can_be_evaluated(case: Case) -> None:
    evaluate(case)


@needs_dialect
def test_a_relation_changes_at_its_instants_alone() -> None:
    for seed in range(25):
        case = random_case(seed)
        oracle, ast = Oracle(case.streams, case.relations), parsed(case.query)
        for before, instant in itertools.pairwise(oracle.instants(ast)):
            assert oracle.relation_at(ast, instant - 1) == oracle.relation_at(ast, before), case


def test_arrivals_stay_within_the_skew() -> None:
    for seed in range(50):
        for each in random_case(seed).streams:
            times = [row[1] for row in each.arrived]
            assert all(time >= max(times[: place + 1]) - each.skew for place, time in enumerate(times))
            assert sorted(each.arrived) == sorted(each.rows)


def test_cuts_take_every_row_once() -> None:
    for seed in range(50):
        case = random_case(seed)
        assert {name: sum(sizes) for name, sizes in case.cuts.batches.items()} == {
            each.name: len(each.rows) for each in case.streams
        }
        assert len({len(sizes) for sizes in case.cuts.batches.values()}) == 1
