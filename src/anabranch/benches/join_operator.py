"""The operator of `anabranch bench joins`, in process: what orders, caches, windows and keys do to it.

Seconds are those of the processor. Steps are probes, partners that are listed, and comparisons: they do not depend on
the machine, but where a policy decides by time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.benches.harness import Race
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.operators.base import Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.join import KeyClass, MultiJoin

SEED = 20_260_023
CACHE_BYTES = 2**28
WITHIN = 1.1
TUPLE_BYTES = 24
PARTNERS = 4
"""Of a row in the next window of a path."""

Start = Callable[[], MultiJoin]
Ticks = list[list[pa.Table]]
Orders = dict[int, tuple[int, ...]]
STAR: tuple[KeyClass, ...] = tuple(((0, f"k{each}"), (each, f"j{each}")) for each in range(1, 5))
LINE: tuple[KeyClass, ...] = tuple(((each, f"k{each}"), (each + 1, f"j{each + 1}")) for each in range(4))
CALM = {1: 1.0, 2: 0.9, 3: 0.5, 4: 0.02}
"""Shares of the keys of a star that its other inputs have."""
SLOW: Orders = {each: (0, *(other for other in (4, 3, 2, 1) if other != each)) for each in CALM}
TREE: tuple[KeyClass, ...] = (
    ((0, "k0"), (1, "j1")),
    ((1, "k1"), (2, "j2")),
    ((0, "m0"), (3, "j3")),
    ((3, "k3"), (4, "j4")),
)


# --- orders


def probe_orders(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A fast stream and four slow ones, keys of their own, windows that drop most written last."""
    rows, ticks = (20_000, 30) if quick else (20_000, 200)
    slow: Orders = {1: (0, 3, 4, 2), 2: (1, 0, 3, 4), 3: (4, 0, 1, 2), 4: (3, 0, 1, 2)}
    best, worst = slow | {0: (3, 4, 1, 2)}, slow | {0: (1, 2, 3, 4)}
    paths = _orders("5-way, paths", TREE, _paths(ticks, rows), best, worst, quick)
    best, worst = SLOW | {0: (4, 3, 2, 1)}, SLOW | {0: (1, 2, 3, 4)}
    star = _orders("5-way, star", STAR, _star_once(ticks, rows, CALM), best, worst, quick)
    return [*paths, informed(star[0].bar, star[0].value, star[0].detail), *star[1:]]


def neutral(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Five inputs of which none drops more than another: there is nothing to find."""
    rows, ticks = (20_000, 30) if quick else (20_000, 200)
    tables = _star_once(ticks, rows, dict.fromkeys(CALM, 0.5))
    starts = {"ours": _auto(STAR), "fixed": _pinned(STAR, SLOW | {0: (1, 2, 3, 4)}), "ours again": _auto(STAR)}
    found = _race(starts, tables, 3 if quick else 9)
    note = found.describe("ours", "fixed")
    return [
        at_most("neutral inputs: ours / best static plan", found.ratio("ours", "fixed"), 1.03, note),
        informed("neutral inputs: A/A control", found.ratio("ours again", "ours"), note),
    ]


def flips(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The window that drops most becomes the one that drops least, from one batch to the next."""
    rows, before, after = (20_000, 4, 8) if quick else (50_000, 6, 12)
    wild = dict(zip(CALM, reversed(list(CALM.values())), strict=True))
    tables = _star_anew([CALM] * before + [wild] * after, rows)
    ours, *static = (
        _steps_by_tick(start(), tables)[before:]
        for start in (_auto(STAR), *(_pinned(STAR, SLOW | {0: order}) for order in permutations(CALM)))
    )
    best = min(static, key=sum)
    ratios = [one / other for one, other in zip(ours, best, strict=True)]
    late = max((place + 1 for place, ratio in enumerate(ratios) if ratio > WITHIN), default=0)
    note = "steps of batches / best static plan: " + ", ".join(f"{each:.2f}" for each in ratios)
    return [
        at_most("selectivities flip: batches until within 10 % of the best static plan", late, 3, note),
        at_most("selectivities flip: worst batch / that plan", max(ratios), 2, note),
    ]


def _orders(
    title: str,
    keys: tuple[KeyClass, ...],
    tables: Ticks,
    best: Mapping[int, Sequence[int]],
    worst: Mapping[int, Sequence[int]],
    quick: bool,
) -> list[Bar]:
    starts = {
        "ours": _auto(keys),
        "best": _pinned(keys, best),
        "worst": _pinned(keys, worst),
        "ours again": _auto(keys),
    }
    found = _race(starts, tables, 3 if quick else 7)
    note = found.describe("ours", "best", "worst")
    steps = {name: sum(_steps_by_tick(starts[name](), tables)) for name in ("ours", "best", "worst")}
    told = ", ".join(f"{name} {count:,}" for name, count in steps.items())
    return [
        at_least(f"{title}: worst written order / ours", found.ratio("worst", "ours"), 3, note),
        at_most(f"{title}: ours / best static order", found.ratio("ours", "best"), 1.05, note),
        informed(f"{title}: A/A control", found.ratio("ours again", "ours"), note),
        informed(f"{title}: steps of the worst order / ours", steps["worst"] / steps["ours"], told),
        informed(f"{title}: steps of ours / the best order", steps["ours"] / steps["best"], told),
    ]


def _auto(keys: tuple[KeyClass, ...]) -> Start:
    return lambda: MultiJoin(5, keys)


def _pinned(keys: tuple[KeyClass, ...], orders: Mapping[int, Sequence[int]]) -> Start:
    def start() -> MultiJoin:
        join = MultiJoin(5, keys)
        join.pin(orders)
        return join

    return start


def _star_once(ticks: int, rows: int, shares: Mapping[int, float]) -> Ticks:
    """Rows with a key for each of the others, which have a share of its values, once each, and stay."""
    tables = _star_anew([shares] * ticks, rows, span=ticks)
    return [
        [each[0], *(table if not tick else table.slice(0, 0) for table in each[1:])] for tick, each in enumerate(tables)
    ]


def _star_anew(shares: Sequence[Mapping[int, float]], rows: int, span: int = 0) -> Ticks:
    """The same, with others in every tick: they come in the one before."""
    keys, made = rows // 4, []
    for tick, share_of in enumerate(shares):
        rng = np.random.default_rng(SEED + tick)
        root = {f"k{each}": rng.integers(0, keys, rows) for each in share_of} | {"v0": rng.integers(0, 100, rows)}
        sizes = {each: max(1, int(keys * share)) for each, share in share_of.items()}
        small = [
            {f"j{each}": rng.permutation(keys)[:size], f"v{each}": np.arange(size)} for each, size in sizes.items()
        ]
        made.append([_elements(root, tick, 0), *(_elements(each, tick + 1, span) for each in small)])
    return made


def _paths(ticks: int, rows: int) -> Ticks:
    """Rows that have partners, and these partners, on one path; on the other few have any.

    Inputs are served in turn: what the first one is to find has come in the tick before.
    """
    rng, keys = np.random.default_rng(SEED), rows // 4
    each = np.tile(np.arange(keys), PARTNERS)
    near = {"j1": each, "k1": rng.integers(0, keys, len(each)), "v1": np.arange(len(each))}
    far = {"j2": each, "v2": np.arange(len(each))}
    few = {"j3": rng.permutation(keys)[: keys // 2], "k3": rng.integers(0, keys, keys // 2)}
    fewest = {"j4": rng.permutation(keys)[: keys // 25], "v4": np.arange(keys // 25)}
    slow = [_elements(each, 1, ticks) for each in (near, far, few, fewest)]
    made = []
    for tick in range(ticks):
        root = {"k0": rng.integers(0, keys, rows), "m0": rng.integers(0, keys, rows), "v0": rng.integers(0, 100, rows)}
        made.append([_elements(root, tick, 0), *(each if not tick else each.slice(0, 0) for each in slow)])
    return made


# --- caches


def caches(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A line of five inputs, the first ten times as fast as the others, with keys that come again."""
    rows, ticks = (200, 24) if quick else (300, 40)
    tables = [_line(tick, rows) for tick in range(ticks)]
    return [
        *_cached("caches, 5-way", lambda size: MultiJoin(5, LINE, cache_bytes=size), tables, quick, 1.5, 1.3),
        *_theta(quick),
    ]


def _theta(quick: bool) -> list[Bar]:
    rows, ticks = (300, 10) if quick else (600, 20)
    keys: tuple[KeyClass, ...] = (((0, "j0"), (1, "j1"), (2, "j2")),)
    tests = (Comparison(((1, "k1"), (2, "k2")), ">"),)

    def start(size: int) -> MultiJoin:
        return MultiJoin(3, keys, tests, cache_bytes=size)

    tables = [_compared(tick, rows) for tick in range(ticks)]
    return _cached("caches, a theta segment", start, tables, quick, None, 3)


def _cached(
    title: str, start: Callable[[int], MultiJoin], tables: Ticks, quick: bool, steps: float | None, seconds: float
) -> list[Bar]:
    starts = {"with": lambda: start(CACHE_BYTES), "without": lambda: start(0), "with again": lambda: start(CACHE_BYTES)}
    found = _race(starts, tables, 3 if quick else 5)
    note = found.describe("with", "without")
    counts = {name: sum(_steps_by_tick(starts[name](), tables)) for name in ("with", "without")}
    told, ratio = ", ".join(f"{name} {count:,}" for name, count in counts.items()), counts["without"] / counts["with"]
    name = f"{title}: steps without / with"
    return [
        informed(name, ratio, told) if steps is None else at_least(name, ratio, steps, told),
        at_least(f"{title}: time without / with", found.ratio("without", "with"), seconds, note),
        informed(f"{title}: A/A control", found.ratio("with again", "with"), note),
    ]


def _line(tick: int, rows: int) -> list[pa.Table]:
    """Keys of the fast stream, whose rows do not stay, come again and lead to rows of all windows but the last."""
    rng, keys = np.random.default_rng(SEED + tick), rows // 2
    columns = [{"k0": rng.integers(0, keys, 10 * rows), "v0": np.arange(10 * rows)}]
    columns += [
        {f"j{each}": rng.integers(0, keys, rows), f"k{each}": rng.integers(0, keys, rows)} for each in (1, 2, 3)
    ]
    columns.append({"j4": rng.integers(0, 200 * keys, rows), "v4": np.arange(rows)})
    return [_elements(each, tick, 2 if place else 0) for place, each in enumerate(columns)]


def _compared(tick: int, rows: int) -> list[pa.Table]:
    """All rows with a key of two windows are compared, and few pairs agree."""
    rng, keys = np.random.default_rng(SEED + tick), 30
    sizes = (10 * rows, rows, rows)
    columns = [{f"j{each}": rng.integers(0, keys, size)} for each, size in enumerate(sizes)]
    for each in (1, 2):
        columns[each][f"k{each}"] = rng.integers(0, 1_000, rows) + 960 * (each - 1)
    return [_elements(each, tick, 2) for each in columns]


# --- windows


def window_growth(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Windows 16 times as long with as many results per row, and what they take of memory."""
    rows, ticks = (2_000, 40) if quick else (10_000, 64)
    keys: tuple[KeyClass, ...] = (((0, "k0"), (1, "k1"), (2, "k2")),)

    def feed(alive: int) -> Ticks:
        rng = np.random.default_rng(SEED)
        made = []
        for tick in range(ticks):
            drawn = [rng.integers(0, alive * rows, rows) for _ in range(3)]
            columns = [{f"k{each}": codes, f"v{each}": np.arange(rows)} for each, codes in enumerate(drawn)]
            made.append([_elements(values, tick, alive - 1) for values in columns])
        return made

    short, long = feed(2), feed(32)
    seconds = Race({"short": [], "long": [], "short again": []})
    for number in range(3 if quick else 6):
        for name, tables in (("short", short), ("long", long), ("short again", short)):
            took = _seconds(MultiJoin(3, keys), tables)[0]
            if number:
                seconds.seconds[name].append(took)
    join = MultiJoin(3, keys)
    _seconds(join, long)
    live = min(32, ticks) * 3 * rows
    note = f"{live:,} rows of two longs and a time"
    return [
        at_most("cost per row, windows x 16", seconds.ratio("long", "short"), 1.3, seconds.describe("short", "long")),
        informed("cost per row: A/A control", seconds.ratio("short again", "short"), ""),
        at_most(
            "memory of windows and indexes per live row / its Arrow size", join.held_bytes / live / TUPLE_BYTES, 3, note
        ),
    ]


# --- running


def _elements(columns: Mapping[str, np.ndarray], tick: int, span: int) -> pa.Table:
    size = len(next(iter(columns.values())))
    start = np.full(size, tick)
    return pa.table({**columns, "_start": start, "_end": start + span + 1, "_weight": np.ones(size, np.int64)})


def _race(starts: Mapping[str, Start], tables: Ticks, rounds: int) -> Race:
    found = Race({name: [] for name in starts})
    answers = set()
    for number in range(rounds + 1):
        names = list(starts)[:: 1 if number % 2 else -1]
        for name in names:
            seconds, results = _seconds(starts[name](), tables)
            answers.add(results)
            if number:
                found.seconds[name].append(seconds)
    if len(answers) != 1:
        raise InternalError(f"plans give {sorted(answers)} results")
    return found


def _seconds(join: MultiJoin, tables: Ticks) -> tuple[float, int]:
    """Of the processor, and how many results there are."""
    began, results = time.process_time(), 0
    for tick, inputs in enumerate(tables):
        results += len(join.advance(inputs, Tick(tick, tick + 1)))
    return time.process_time() - began, results


def _steps_by_tick(join: MultiJoin, tables: Ticks) -> list[int]:
    steps, found = 0, []
    for tick, inputs in enumerate(tables):
        join.advance(inputs, Tick(tick, tick + 1))
        found.append(join.steps - steps)
        steps = join.steps
    return found


WORKLOADS = (probe_orders, neutral, flips, caches, window_growth)
