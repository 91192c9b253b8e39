"""k-Mon: the thesis's examples with their numbers, what each constraint lets go, and answers against the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.constraints.arrivals import Arrivals, Filter
from anabranch.constraints.config import KINDS, ConstraintConfig, Kind, Mode
from anabranch.constraints.constraint_set import Given
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.key_observer import KeyComparison, KeyObserver
from anabranch.constraints.kmon import KMonJoin
from anabranch.constraints.sliding_window_join import SlidingWindowJoin
from anabranch.constraints.windows import Range, Rows, Unbounded, Window
from anabranch.errors import DataError, QueryError
from anabranch.model.arrays import Counts, Mask

FOREVER = Unbounded()
FIGURE_A = JoinGraph(3, (Edge(0, 1, 0, 0), Edge(0, 2, 1, 0)))
FIGURE_B = JoinGraph(3, (Edge(0, 1, 1, 0), Edge(1, 2, 1, 0)))
STATE_A = ((1, (6, 20)), (1, (4, 15)), (2, (7, 9)), (2, (5, 3)), (2, (10, 12)))
"""Figure 6.8(a): S2.Yes = {(6, 20), (4, 15)}, S3.Yes = {(5, 3)}, S3.No = {(7, 9), (10, 12)}."""


def d_below_8(rows: Counts) -> Mask:
    return np.asarray(rows[:, 1] < 8)


def d_above_10(rows: Counts) -> Mask:
    return np.asarray(rows[:, 1] > 10)


class Stage:
    """Feeds a join one tuple at a time and turns its results into rows."""

    def __init__(
        self,
        graph: JoinGraph,
        filters: Sequence[Filter | None],
        known: Given | None = None,
        windows: Sequence[Window] = (FOREVER,) * 3,
        *,
        relation: bool = False,
        selection: str = "all",
        keep_no: bool = True,
    ) -> None:
        kinds = frozenset(kind for kind, _, _ in known or {})
        config = ConstraintConfig(
            "discard",
            "tuples",
            slack=1,
            sample_share=0,
            kinds=kinds,
            selection=selection,  # type: ignore[arg-type]
            keep_no=keep_no,
        )
        self.join = KMonJoin(graph, windows, (2, 2, 2), config, filters=filters, given=known, relation=relation)
        self._seen: list[list[Sequence[int]]] = [[], [], []]
        self._count = 0
        self.inserted: list[tuple[int, ...]] = []
        self.deleted: list[tuple[int, ...]] = []

    def feed(self, *tuples: tuple[int, Sequence[int]]) -> Stage:
        for stream, row in tuples:
            self._seen[stream].append(row)
            found = self.join.advance(Arrivals.of([(stream, self._count, row)], (2, 2, 2), self._count))
            self._count += 1
            self.inserted += map(self._joined, found.inserted.tolist())
            self.deleted += map(self._joined, found.deleted.tolist())
        return self

    def held(self, stream: int) -> list[tuple[int, ...]]:
        return sorted(map(tuple, self.join.synopses[stream].columns.tolist()))

    def _joined(self, numbers: Sequence[int]) -> tuple[int, ...]:
        rows = [self._seen[stream][number - 1] for stream, number in enumerate(numbers)]
        return tuple(value for row in rows for value in row)


def stage_a(known: Given | None = None) -> Stage:
    return Stage(FIGURE_A, (None, None, d_below_8), known).feed(*STATE_A)


def stage_b(**more: object) -> Stage:
    return Stage(FIGURE_B, (None, None, d_above_10), **more)  # type: ignore[arg-type]


def test_example_6_1_4_rows_that_a_filter_drops_are_not_stored() -> None:
    join = SlidingWindowJoin(JoinGraph(2, (Edge(0, 1, 0, 0),)), (Range(300), Range(600)), (2, 2))
    batch = Arrivals.of([(0, 0, (1, value)) for value in range(21)], (2, 2))
    join.advance(batch.filtered((lambda rows: rows[:, 1] > 10, None)))
    assert sorted(join.synopses[0].columns[:, 1].tolist()) == list(range(11, 21))


def test_example_6_1_5_a_row_window_counts_the_rows_that_a_filter_drops() -> None:
    join = SlidingWindowJoin(JoinGraph(2, (Edge(0, 1, 0, 0),)), (Rows(50_000), Range(600)), (1, 1))
    values = np.arange(120_000)
    for first in range(0, 120_000, 30_000):
        part = values[first : first + 30_000, np.newaxis]
        owner = np.zeros(30_000, np.int64)
        batch = Arrivals.merged(owner, owner, [part, part[:0]], first)
        join.advance(batch.filtered((lambda rows: rows[:, 0] % 2 == 1, None)))
    assert join.held == 25_000  # and 25,000 places of rows that are not stored
    assert join.synopses[0].columns[:, 0].min() == 70_001


def test_example_6_3_1() -> None:
    stage = stage_a().feed((0, (6, 5)), (0, (8, 10)))
    assert stage.inserted == [(6, 5, 6, 20, 5, 3)]
    assert stage.held(0) == []  # Yes and No of the root are not stored
    assert stage.join.rows(2, "yes") == [(5, 3)]
    assert stage.join.rows(2, "no") == [(7, 9), (10, 12)]


def test_example_6_3_2() -> None:
    stage = stage_b().feed((1, (2, 4)), (0, (1, 2)))
    assert stage.join.rows(1, "unknown") == [(2, 4)]
    assert stage.join.rows(0, "unknown") == [(1, 2)]
    stage.feed((2, (4, 12)))
    assert stage.inserted == [(1, 2, 2, 4, 4, 12)]
    assert stage.join.rows(1, "yes") == [(2, 4)]
    assert stage.join.rows(2, "yes") == [(4, 12)]


@pytest.mark.parametrize("keep_no", [True, False])
def test_example_6_3_3(keep_no: bool) -> None:
    stage = stage_b(keep_no=keep_no).feed((2, (6, 8)), (1, (3, 6)), *((0, (x, 3)) for x in range(5)))
    assert len(stage.held(0)) == (0 if keep_no else 5)
    assert stage.join.rows(1, "unknown") == ([] if keep_no else [(3, 6)])
    assert stage.join.rows(1, "no") == ([(3, 6)] if keep_no else [])
    assert stage.inserted == []


def test_example_6_3_4_a_row_window_deletes_through_the_root() -> None:
    windows = (FOREVER, FOREVER, Rows(1))
    stage = stage_b(windows=windows, relation=True).feed((0, (1, 2)), (1, (2, 4)), (2, (4, 12)))
    assert stage.join.rows(0, "yes") == [(1, 2)]
    stage.feed((2, (9, 13)))
    assert stage.deleted == [(1, 2, 2, 4, 4, 12)]
    assert stage.held(0) == []
    assert stage.join.rows(1, "no") == [(2, 4)]


def test_example_6_6_1() -> None:
    stage = stage_a({("rids", 0, 2): 1}).feed((0, (4, 10)))
    assert stage.join.rows(2, "no") == []
    assert stage.join.rows(0, "unknown") == [(4, 10)]
    stage.feed((2, (1, 1)))
    assert stage.held(0) == []


def test_example_6_7_1() -> None:
    stage = stage_a({("ca", 0, 2): 1}).feed((0, (6, 5)), (0, (8, 8)), (0, (4, 5)), (0, (11, 10)))
    assert stage.inserted == [(6, 5, 6, 20, 5, 3), (4, 5, 4, 15, 5, 3)]
    assert stage.join.rows(0, "unknown") == [(8, 8)]
    assert stage.held(0) == [(8, 8)]
    assert (5, 3) not in stage.held(2)
    assert (7, 9) in stage.held(2)  # never asked for: CA cannot tell


def test_example_6_8_1() -> None:
    stage = stage_a({("oac", 0, 2): 2}).feed((0, (6, 4)))
    assert stage.held(0) == []
    assert stage.join.rows(2, "no") == []
    stage.feed((0, (6, 8)))
    assert stage.join.rows(0, "unknown") == [(6, 8)]


@pytest.mark.parametrize(
    ("known", "unknown", "second"),
    [
        ({("ca", 0, 1): 0}, [(6, 8), (3, 13)], [(6, 20)]),
        ({("oac", 0, 2): 0}, [(3, 13)], [(4, 15), (6, 20)]),
        ({("ca", 0, 1): 0, ("oac", 0, 2): 0}, [(3, 13)], []),
    ],
    ids=["CA", "OAC", "both"],
)
def test_example_6_10_1(known: Given, unknown: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    stage = stage_a(known).feed((0, (4, 5)), (0, (6, 8)), (0, (3, 13)))
    assert stage.inserted == [(4, 5, 4, 15, 5, 3)]
    assert stage.join.rows(0, "unknown") == unknown
    assert stage.held(1) == second


def test_example_6_10_2_a_second_constraint_may_make_rows_stay_longer() -> None:
    arrivals = ((0, (6, 10)), (0, (4, 10)), (0, (8, 8)))
    alone = stage_a({("ca", 0, 2): 0}).feed(*arrivals)
    assert alone.held(0) == [(8, 8)]
    assert (10, 12) not in alone.held(2)
    both = stage_a({("ca", 0, 2): 0, ("rids", 0, 2): 3}).feed(*arrivals)
    assert both.held(0) == [(4, 10), (6, 10), (8, 8)]
    both.feed((2, (20, 1)), (2, (21, 1)))
    assert both.held(0) == [(4, 10), (6, 10), (8, 8)]
    both.feed((2, (22, 1)))
    assert both.held(0) == []


TWO = JoinGraph(2, (Edge(0, 1, 0, 0),))
PAIRS = [(1, (1, 5)), (1, (2, 50)), (0, (1, 0)), (0, (2, 0)), (0, (7, 0)), (0, (8, 0)), (1, (6, 5)), (1, (9, 50))]
"""Partners in Yes and No that are asked for, parents that wait, partners in Yes and No that are not asked for."""


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ({}, {"unknown": [7, 8], "yes": [1, 6], "no": [2, 9]}),
        ({("rids", 0, 1): 2}, {"unknown": [], "yes": [1, 6], "no": []}),
        ({("ca", 0, 1): 1}, {"unknown": [7, 8], "yes": [6], "no": [9]}),
        ({("oap", 0, 1): 0}, {"unknown": [7, 8], "yes": [], "no": [9]}),
        ({("oac", 0, 1): 0}, {"unknown": [], "yes": [1, 6], "no": []}),
    ],
    ids=["default", "RIDS", "CA", "OAP", "OAC"],
)
def test_table_6_2_what_each_constraint_lets_go(known: Given, left: dict[str, list[int]]) -> None:
    config = ConstraintConfig(
        "discard", "tuples", sample_share=0, kinds=frozenset(kind for kind, _, _ in known), selection="all"
    )
    windows, filters = (FOREVER, FOREVER), (None, d_below_8)
    join = KMonJoin(TWO, windows, (2, 2), config, filters=filters, given=known)
    for place, (stream, row) in enumerate(PAIRS):
        join.advance(Arrivals.of([(stream, place, row)], (2, 2), place))
    assert join.rows(0, "yes") == join.rows(0, "no") == []  # of a root that covers all
    assert [row[0] for row in join.rows(0, "unknown")] == left["unknown"]
    assert [row[0] for row in join.rows(1, "yes")] == left["yes"]
    assert [row[0] for row in join.rows(1, "no")] == left["no"]


def test_a_one_one_chain_holds_only_rows_that_wait() -> None:
    """The network query of section 6.1.1: packets on C, then perhaps on B, then perhaps on O."""
    chain = JoinGraph(3, (Edge(0, 1, 0, 0, one_one=True), Edge(1, 2, 0, 0, one_one=True)))
    known: Given = {("rids", 0, 1): 2, ("rids", 1, 2): 2, ("rids", 1, 0): 0, ("rids", 2, 1): 0}
    config = ConstraintConfig("discard", sample_share=0, slack=1, kinds=frozenset({"rids"}), selection="all")
    join = KMonJoin(chain, [Range(600)] * 3, (1, 1, 1), config, given=known)
    steps: list[tuple[list[tuple[int, int]], int, int]] = [
        ([(0, 1), (0, 2), (1, 99)], 3, 0),  # 99 was not on C so far; it could come at the same time
        ([(1, 1), (2, 98)], 4, 0),  # 99 is gone
        ([(2, 1)], 1, 1),  # 98 is gone, 1 is answered and gone, 2 waits
        ([(1, 97)], 1, 0),  # 2 has waited for too long
    ]
    place = 0
    for time, (arrived, held, found) in enumerate(steps):
        batch = Arrivals.of([(stream, time, (pid,)) for stream, pid in arrived], (1, 1, 1), place)
        place += len(arrived)
        assert len(join.advance(batch).inserted) == found
        assert join.held == held, time


def test_k_in_time_waits_for_as_long_as_it_says() -> None:
    config = ConstraintConfig("discard", sample_share=0, kinds=frozenset({"rids"}))
    join = KMonJoin(TWO, (FOREVER, FOREVER), (1, 1), config, given={("rids", 0, 1): 10})
    for place, (stream, time, value, held) in enumerate([(0, 0, 1, 1), (1, 10, 5, 2), (1, 11, 6, 2)]):
        join.advance(Arrivals.of([(stream, time, (value,))], (1, 1), place))
        assert join.held == held


def test_k_is_learned_used_below_the_threshold_and_given_up_when_it_grows() -> None:
    config = ConstraintConfig(
        "discard", "tuples", threshold=5, slack=1, sample_share=1, window_arrivals=20, kinds=frozenset({"rids"})
    )
    join = KMonJoin(TWO, (Rows(100), Rows(100)), (1, 1), config)
    (rids,) = join.constraints.all
    place = 0

    def pairs(lag: int, first: int, count: int) -> None:
        nonlocal place
        for value in range(first, first + count):
            join.advance(Arrivals.of([(0, 0, (value + lag,)), (1, 0, (value,))], (1, 1), place))
            place += 2

    pairs(3, 0, 60)
    assert (rids.adherence.used, rids.adherence.usable) == (4, True)  # parents come before the child of the same step
    pairs(9, 60, 10)
    assert (rids.adherence.used, rids.adherence.usable) == (np.inf, False)
    pairs(9, 70, 40)
    assert (rids.adherence.used, rids.adherence.usable) == (10, False)  # above the threshold
    assert rids.adherence.violations == 1
    assert join.estimated_missing == 0  # all are in the sample


def chunks(
    tuples: Sequence[tuple[int, int, tuple[int, ...]]], sizes: Iterable[int], widths: Sequence[int]
) -> list[Arrivals]:
    found, first = [], 0
    for size in sizes:
        if first < len(tuples):
            found.append(Arrivals.of(tuples[first : first + size], widths, first))
            first += size
    return found


def definition(
    graph: JoinGraph,
    windows: Sequence[Window],
    filters: Sequence[Filter | None],
    tuples: Sequence[tuple[int, int, tuple[int, ...]]],
) -> tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    """Results inserted and deleted, by their numbers: what the windows hold after each arrival, and held before."""
    inserted: Counter[tuple[int, ...]] = Counter()
    deleted: Counter[tuple[int, ...]] = Counter()
    there: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in windows]
    count, last = [0] * len(windows), set[tuple[int, ...]]()
    for stream, time, row in tuples:
        count[stream] += 1
        there[stream].append((count[stream], time, row))
        now = set()
        for place, window in enumerate(windows):
            if isinstance(window, Rows):
                there[place] = [each for each in there[place] if each[0] > count[place] - window.size]
            elif isinstance(window, Range):
                there[place] = [each for each in there[place] if each[1] + window.span > time]
        passing = [
            [each for each in rows if keep is None or keep(np.array([each[2]]))[0]]
            for rows, keep in zip(there, filters, strict=True)
        ]
        for combination in product(*passing):
            rows = [each[2] for each in combination]
            if all(rows[e.parent][e.parent_column] == rows[e.child][e.child_column] for e in graph.edges):
                now.add(tuple(each[0] for each in combination))
        inserted.update(now - last)
        deleted.update(last - now)
        last = now
    return inserted, deleted


GRAPHS = {
    "a": FIGURE_A,
    "b": FIGURE_B,
    "two roots": JoinGraph(3, (Edge(0, 2, 0, 0), Edge(1, 2, 0, 0))),
    "one-one": JoinGraph(3, (Edge(0, 1, 0, 0, one_one=True), Edge(1, 2, 0, 0, one_one=True))),
    "no key": JoinGraph(3, (Edge(0, 1, 0, 0, many_many=True), Edge(1, 2, 1, 0))),
}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    """A graph, windows, filters, streams that keep their declared keys, and constraints that need not hold."""
    name = draw(st.sampled_from(sorted(GRAPHS)))
    graph = GRAPHS[name]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 70))
    keys = {edge.child: edge.child_column for edge in graph.directed}
    parents = {edge.parent: edge.parent_column for edge in graph.directed if edge.one_one}
    spread = draw(st.integers(1, 12))
    tuples, used, time = [], set[tuple[int, int, int]](), 0
    for step in range(size):
        stream, time = int(rng.integers(3)), time + int(rng.integers(3))
        row = [int(value) for value in rng.integers(0, 14, 2) + (step // 6 if spread > 6 else 0)]
        unique = [keys[stream]] if stream in keys else []
        unique += [parents[stream]] if stream in parents else []
        if any((stream, column, row[column]) in used for column in unique):
            continue
        used |= {(stream, column, row[column]) for column in unique}
        tuples.append((stream, time, (row[0], row[1])))
    window = st.sampled_from([FOREVER, Rows(1), Rows(4), Rows(30), Range(3), Range(25)])
    kinds: list[Kind] = ["rids", "ca", "oap", "oac"]
    known: dict[tuple[Kind, int, int], float] = {}
    for link in graph.links:
        for kind in kinds if link.forward else kinds[:1]:
            if draw(st.booleans()):
                known[kind, link.stream, link.partner] = draw(st.sampled_from([0, 1, 3, 10]))
    return {
        "graph": graph,
        "windows": [draw(window) for _ in range(3)],
        "filters": [draw(st.sampled_from([None, lambda rows: rows[:, 1] % 3 != 0])) for _ in range(3)],
        "tuples": tuples,
        "sizes": draw(st.lists(st.integers(1, 9), min_size=80, max_size=80)),
        "known": known,
        "unit": draw(st.sampled_from(["tuples", "time"])),
        "learns": draw(st.booleans()),
        "selection": draw(st.sampled_from(["all", "cost"])),
    }


def run(
    case: dict[str, object], mode: Mode, *, relation: bool = False, stop: bool = True
) -> tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]], KMonJoin]:
    config = ConstraintConfig(
        mode,
        case["unit"],  # type: ignore[arg-type]
        slack=1,
        sample_share=0.1,
        window_arrivals=5,
        kinds=case.get("kinds", frozenset(KINDS)),  # type: ignore[arg-type]
        selection=case["selection"],  # type: ignore[arg-type]
        stop_on_rescue=stop,
    )
    known = None if case["learns"] else case["known"]
    join = KMonJoin(
        case["graph"],  # type: ignore[arg-type]
        case["windows"],  # type: ignore[arg-type]
        (2, 2, 2),
        config,
        filters=case["filters"],  # type: ignore[arg-type]
        given=known,  # type: ignore[arg-type]
        relation=relation,
    )
    inserted: Counter[tuple[int, ...]] = Counter()
    deleted: Counter[tuple[int, ...]] = Counter()
    for batch in chunks(case["tuples"], case["sizes"], (2, 2, 2)):  # type: ignore[arg-type]
        found = join.advance(batch)
        inserted.update(map(tuple, found.inserted.tolist()))
        deleted.update(map(tuple, found.deleted.tolist()))
    return inserted, deleted, join


def expected(case: dict[str, object]) -> tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    return definition(case["graph"], case["windows"], case["filters"], case["tuples"])  # type: ignore[arg-type]


@given(cases())
def test_exact_answers_are_those_of_the_definition_whatever_is_violated(case: dict[str, object]) -> None:
    truth, deletions = expected(case)
    assert run(case, "off", relation=True)[:2] == (truth, deletions)
    assert run(case, "exact")[0] == truth
    assert run(case, "exact", relation=True)[:2] == (truth, deletions)


@given(cases())
def test_discard_misses_what_exact_rescues_and_nothing_else(case: dict[str, object]) -> None:
    truth, _ = expected(case)
    found, _, _ = run(case, "discard")
    assert not found - truth
    _, _, exact = run(case, "exact", stop=False)
    assert (truth - found).total() == exact.rescued


@given(cases())
def test_declared_keys_alone_miss_nothing_and_keep_no_more_rows_that_can_be_answered(case: dict[str, object]) -> None:
    plain: dict[str, object] = {**case, "kinds": frozenset()}
    truth, _ = expected(plain)
    found, _, join = run(plain, "discard")
    _, _, whole = run(plain, "off")
    assert found == truth
    assert sum(len(kept.columns[kept.status != 2]) for kept in join.synopses) <= whole.held


@st.composite
def unkeyed(draw: st.DrawFn) -> list[tuple[int, int, tuple[int, int]]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size, repeats = draw(st.integers(1, 90)), draw(st.sampled_from([0.0, 0.05, 0.5]))
    found = []
    for step in range(size):
        value = int(rng.integers(0, 1 + step // 4)) if rng.random() < repeats else step // 3
        found.append((int(rng.integers(3)), step, (value, value)))
    return found


@given(unkeyed(), st.sampled_from([Rows(5), Range(20), FOREVER]), st.lists(st.integers(1, 5), min_size=90, max_size=90))
def test_keys_that_are_observed_and_revoked_lose_nothing(
    tuples: list[tuple[int, int, tuple[int, int]]], window: Window, sizes: list[int]
) -> None:
    comparisons = (KeyComparison(0, 1, 0, 0), KeyComparison(1, 2, 1, 0))
    keys = KeyObserver(3, comparisons, trial_arrivals=4)
    config = ConstraintConfig("exact", "tuples", sample_share=0.1, window_arrivals=5)
    join = KMonJoin(keys, [window] * 3, (2, 2, 2), config)
    found: Counter[tuple[int, ...]] = Counter()
    for batch in chunks(tuples, sizes, (2, 2, 2)):
        found.update(map(tuple, join.advance(batch).inserted.tolist()))
    truth, _ = definition(join.graph, [window] * 3, (None,) * 3, tuples)
    assert found == truth


def test_a_key_is_observed_used_and_revoked_by_a_duplicate() -> None:
    keys = KeyObserver(2, (KeyComparison(0, 1, 0, 0),), trial_arrivals=10)
    join = KMonJoin(keys, (Range(100), Range(100)), (1, 1), ConstraintConfig(kinds=frozenset({"rids"})))
    for step in range(12):
        join.advance(Arrivals.of([(1, step, (step,)), (0, step, (step,))], (1, 1), 2 * step))
    assert [edge.one_one for edge in join.graph.edges] == [True]
    assert join.held == 0  # pairs are answered and gone, those before the keys were known as well
    assert join.set_aside == 24
    found = join.advance(Arrivals.of([(1, 12, (3,))], (1, 1), 24))
    assert found.inserted.tolist() == [[4, 13]]
    assert found.rescued == 1
    assert [edge.one_one for edge in join.graph.edges] == [False]
    assert keys.revoked == 1


def test_a_declared_key_that_is_none_is_told_with_the_two_rows() -> None:
    keys = KeyObserver(2, (KeyComparison(0, 1, 0, 0),), declared={(1, 0)})
    join = KMonJoin(keys, (FOREVER, FOREVER), (2, 2))
    with pytest.raises(DataError, match=r"\(5, 1\) and \(5, 2\)"):
        join.advance(Arrivals.of([(1, 0, (5, 1)), (1, 0, (5, 2))], (2, 2)))


def test_a_violation_after_many_tuples_is_safe_at_once() -> None:
    config = ConstraintConfig("exact", "tuples", sample_share=0, window_arrivals=500, kinds=frozenset({"ca"}))
    join = KMonJoin(TWO, (FOREVER, FOREVER), (1, 1), config)
    (ca,) = join.constraints.all
    values = np.arange(20_000)
    for first in range(0, 20_000, 1000):
        rows = values[first : first + 1000, np.newaxis]
        owner = np.tile([1, 0], 1000)
        join.advance(Arrivals.merged(owner, owner * 0, [rows, rows], 2 * first))
    assert ca.adherence.used == 0
    assert join.held < 10
    found = join.advance(Arrivals.of([(0, 0, (7,))], (1, 1), 40_000))
    assert found.inserted.tolist() == [[20_001, 8]]
    assert not ca.adherence.usable


def test_a_graph_with_a_cycle_or_a_stream_apart_is_refused() -> None:
    with pytest.raises(QueryError, match="without cycles"):
        JoinGraph(3, (Edge(0, 1, 0, 0), Edge(1, 2, 0, 0), Edge(2, 0, 0, 0)))
    with pytest.raises(QueryError, match="every stream is joined"):
        JoinGraph(3, (Edge(0, 1, 0, 0),))


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_batches_of_any_size_give_the_same_answer(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, 2, 200)
    values = [rng.integers(0, 20, (np.count_nonzero(owner == stream), 1)) for stream in (0, 1)]
    whole = SlidingWindowJoin(TWO, (Rows(7), Rows(3)), (1, 1))
    parts = SlidingWindowJoin(TWO, (Rows(7), Rows(3)), (1, 1))
    expected = whole.advance(Arrivals.merged(owner, owner * 0, values)).inserted.tolist()
    found, taken = [], [0, 0]
    for first in range(0, 200, size):
        here = owner[first : first + size]
        counts = [int(np.count_nonzero(here == stream)) for stream in (0, 1)]
        rows = [values[s][taken[s] : taken[s] + counts[s]] for s in (0, 1)]
        taken = [taken[s] + counts[s] for s in (0, 1)]
        found += parts.advance(Arrivals.merged(here, here * 0, rows, first)).inserted.tolist()
    assert sorted(found) == sorted(expected)
