"""Joins with caches: examples of the thesis with their numbers, the same answers whatever is cached, what pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from anabranch.joins import cache_states, window_store
from anabranch.joins.adaptive_caches import AdaptiveCaches
from anabranch.joins.cache_candidates import Candidate
from anabranch.joins.cache_states import CacheConfig, CacheStates
from anabranch.joins.cache_store import CacheStore
from anabranch.joins.segment_join import Parts
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.join import KeyClass, MultiJoin
from tiers import tiers

CHAIN: tuple[KeyClass, ...] = (((0, "a1"), (1, "a2")), ((1, "b2"), (2, "b3")))


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(window_store, "compiles", lambda: request.param)


def rows(start: int = 0, end: int = FOREVER, **columns: object) -> pa.Table:
    arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    size = len(next(iter(arrays.values())))
    ends = {"_start": [start] * size, "_end": [end] * size, "_weight": [1] * size}
    return pa.table(arrays | {name: pa.array(values, pa.int64()) for name, values in ends.items()})


def caches(join: MultiJoin) -> AdaptiveCaches:
    assert join.caches is not None
    return join.caches


def cache_of(join: MultiJoin, pipeline: int, *windows: int) -> Candidate:
    (found,) = (
        each for each in caches(join).candidates if each.pipeline == pipeline and set(each.windows) == {*windows}
    )
    return found


def results(join: MultiJoin, tick: int, *inputs: pa.Table) -> list[tuple[int, ...]]:
    found = join.advance(inputs, Tick(tick, tick + 1))
    return sorted(tuple(row[name] for name in ("a1", "a2", "b2", "b3")) for row in found.to_pylist())


def test_examples_5_4_1_5_4_2_and_5_4_4() -> None:
    join = MultiJoin(3, CHAIN, policy="fixed", cache_bytes=2**20)
    nothing = rows(a1=[]), rows(a2=[], b2=[]), rows(b3=[])
    assert not results(join, 0, nothing[0], rows(a2=[1, 1, 2], b2=[2, 3, 3]), rows(b3=[2]))
    caches(join).use([cache_of(join, 0, 1, 2)])
    assert results(join, 1, rows(a1=[1]), *nothing[1:]) == [(1, 1, 2, 2)]
    (use,) = join.take_probes()[0].caches
    assert (use.probes, use.misses, use.entries) == (1, 1, 1)
    assert results(join, 2, rows(a1=[1]), *nothing[1:]) == [(1, 1, 2, 2)]
    (use,) = join.take_probes()[0].caches
    assert (use.probes, use.misses) == (1, 0)
    # 3 comes to R3: <1,3,3> is put in; <2,3,3> is not, as there is no entry for 2.
    assert results(join, 3, *nothing[:2], rows(b3=[3])) == [(1, 1, 3, 3), (1, 1, 3, 3)]
    assert results(join, 4, rows(a1=[1]), *nothing[1:]) == [(1, 1, 2, 2), (1, 1, 3, 3)]
    (use,) = join.take_probes()[0].caches
    assert (use.probes, use.misses, use.entries) == (1, 0, 1)


def test_what_leads_to_nothing_is_known_too() -> None:
    join = MultiJoin(3, CHAIN, policy="fixed", cache_bytes=2**20)
    nothing = rows(a1=[]), rows(a2=[], b2=[]), rows(b3=[])
    results(join, 0, *nothing)
    caches(join).use([cache_of(join, 0, 1, 2)])
    for tick, misses in ((1, 1), (2, 0)):
        assert not results(join, tick, rows(a1=[7]), *nothing[1:])
        assert join.take_probes()[0].caches[0].misses == misses
    results(join, 3, nothing[0], rows(a2=[7], b2=[5]), rows(b3=[5]))
    assert results(join, 4, rows(a1=[7]), *nothing[1:]) == [(7, 7, 5, 5)]


def test_a_directory_grows_with_its_entries_as_far_as_the_limit_allows() -> None:
    codes = np.random.default_rng(0).permutation(1000)
    none = np.empty(0, np.int64)
    for limit, fewest, most in ((2**24, 700, 1000), (3000, 1, 300)):
        cache = CacheStore((1, 2), limit, expected=1)
        for some in np.split(codes, 10):
            known = codes[cache.knows(codes)]
            cache.create(some, none, Parts({1: none, 2: none}, none, none), none)
            assert cache.entries <= len(known) + len(some)
        assert fewest <= cache.entries <= most
        assert cache.nbytes <= limit + 1000


STAR: tuple[KeyClass, ...] = (tuple((each, f"k{each}") for each in range(4)),)
LINE: tuple[KeyClass, ...] = tuple(((each, f"y{each}"), (each + 1, f"k{each + 1}")) for each in range(3))
THETA = (Comparison(((1, "y1"), (2, "y2")), "<"), Comparison(((0, "y0"), (3, "y3")), "<>"))
SHAPES: Mapping[str, tuple[tuple[KeyClass, ...], tuple[Comparison, ...]]] = {
    "star": (STAR, ()),
    "line": (LINE, ()),
    "theta": (STAR, THETA),
    "cycle": ((*LINE, ((3, "y3"), (0, "k0"))), ()),
}


def tables(rng: np.random.Generator, tick: int, keys: int, size: int = 150) -> list[pa.Table]:
    columns = [
        {f"k{each}": rng.integers(0, keys, size), f"y{each}": rng.integers(0, keys, size), f"v{each}": [tick] * size}
        for each in range(4)
    ]
    return [rows(tick, tick + int(rng.integers(1, 4)), **each) for each in columns]


def bag(table: pa.Table) -> Counter[tuple[int, ...]]:
    names = sorted(table.column_names)
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cache_bytes", [2**20, 1000])
@pytest.mark.parametrize("seed", tiers(range(4), fast=1))
def test_caches_switched_between_any_chunks_change_nothing(
    shape: str, cache_bytes: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, hits = np.random.default_rng(seed), 0

    def any_choice(known: Mapping[Candidate, object], work: object) -> set[Candidate]:
        chosen: list[Candidate] = []
        for place in rng.permutation(len(known)):
            each = list(known)[place]
            if rng.random() < 0.7 and not any(each.overlaps(other) for other in chosen):
                chosen.append(each)
        return set(chosen)

    monkeypatch.setattr(cache_states, "select", any_choice)
    monkeypatch.setattr(CacheStates, "ready", lambda self, pipeline: rng.random() < 0.4)
    keys, comparisons = SHAPES[shape]
    cached = MultiJoin(
        4, keys, comparisons, cache_bytes=cache_bytes, caching=CacheConfig(observations=0, change_share=-1)
    )
    plain = MultiJoin(4, keys, comparisons)
    for tick in range(8):
        given = tables(rng, tick, keys=60)
        assert bag(cached.advance(given, Tick(tick, tick + 1))) == bag(plain.advance(given, Tick(tick, tick + 1)))
        hits += sum(use.probes - use.misses for each in cached.take_probes() for use in each.caches)
        assert caches(cached).nbytes <= 2 * cache_bytes + 10_000
    assert hits > 0


def skewed(tick: int, often: int) -> list[pa.Table]:
    """A chain of which one end has most of the rows, with keys that come again; few rows of the other end match."""
    rng = np.random.default_rng(tick)
    sizes = {each: 3000 if each == often else 150 for each in (0, 2)}
    keys = {each: 20 if each == often else 4000 for each in (0, 2)}
    return [
        rows(tick, tick + 3, a1=rng.integers(0, keys[0], sizes[0])),
        rows(tick, tick + 3, a2=rng.integers(0, 20, 150), b2=rng.integers(0, 20, 150)),
        rows(tick, tick + 3, b3=rng.integers(0, keys[2], sizes[2])),
    ]


def adaptive(cache_bytes: int = 2**22) -> MultiJoin:
    config = CacheConfig(observations=3, interval=20)
    return MultiJoin(3, CHAIN, cache_bytes=cache_bytes, caching=config, policy="fixed")


def advanced(join: MultiJoin, ticks: range, often: int) -> list[tuple[bool, tuple[int, ...]]]:
    changes = []
    for tick in ticks:
        join.advance(skewed(tick, often), Tick(tick, tick + 1))
        for report in join.take_probes():
            changes += [(each.added, (report.input, *sorted(each.candidate.windows))) for each in report.cache_changes]
    return changes


@pytest.mark.parametrize(
    "kernels",
    [pytest.param(False, marks=pytest.mark.full(reason="slow in numpy")), True],
    ids=["numpy", "compiled"],
    indirect=True,
)
def test_a_cache_comes_for_the_stream_with_most_rows_and_follows_it() -> None:
    join = adaptive()
    first = advanced(join, range(6), often=2)
    assert first == [(True, (2, 0, 1))]
    later = advanced(join, range(6, 20), often=0)
    assert (False, (2, 0, 1)) in later
    assert [each.pipeline for each in caches(join).used] == [0]


def test_nothing_is_cached_where_keys_do_not_come_again() -> None:
    join = MultiJoin(3, (STAR[0][:3],), cache_bytes=2**22, caching=CacheConfig(observations=3, interval=20))
    for tick in range(8):
        fresh = [np.arange(1000) + 1000 * tick for _ in range(3)]
        given = [rows(tick, tick + 1, **{f"k{each}": codes}) for each, codes in enumerate(fresh)]
        join.advance(given, Tick(tick, tick + 1))
    assert caches(join).used == []
    assert not any(each.cache_changes for each in join.take_probes())


def test_caches_are_not_in_snapshots_and_fill_again() -> None:
    join = adaptive()
    advanced(join, range(6), often=2)
    (before,) = join.take_probes()[2].caches
    assert before.taken < before.plain or before.probes == 0
    other = adaptive()
    other.restore(join.snapshot())
    assert caches(other).used == []
    assert before.entries > 0
    advanced(other, range(6, 10), often=2)
    assert [each.pipeline for each in caches(other).used] == [2]


def test_a_limit_of_nothing_switches_caches_off() -> None:
    config = CacheConfig(observations=3, interval=20)
    join = MultiJoin(3, CHAIN, caching=config, clock=lambda: 0.0)
    advanced(join, range(3), often=2)
    assert join.caches is None
    join.limit_caches(2**20)
    advanced(join, range(3, 9), often=2)
    assert caches(join).used
    join.limit_caches(0)
    assert join.caches is None
