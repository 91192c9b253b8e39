"""Figures 5.11 to 5.16, 5.19 and 5.20: one cache in the three-way join, against the join without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.joins.cache_candidates import Candidate
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.model.arrays import Order
from anabranch.operators.comparisons import Comparison
from anabranch.reproduce.joins.running import PLENTY, Mjoin, Run, fastest
from anabranch.reproduce.joins.tuplewise import FOREVER, Tuplewise
from anabranch.reproduce.joins.with_caches import WithCaches
from anabranch.reproduce.joins.workload import Feed, chain, thetas
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

ORDERS: tuple[Order, ...] = ((1, 2), (0, 2), (1, 0))
CACHE = Candidate(2, 0, (1, 0))
SCARCE = 2**14
"""Too little for all values: an entry is gone when its value comes again."""
TIE, SAME, AT_FIVE = 1e-9, 1.01, 0.72
HEAD = ("", "hits", "probes, paper's way", "with updates", "hits, ours", "steps, ours", "time, ours")


@dataclass(frozen=True)
class Plan:
    """Values of the domain, how often they come, rows of a batch, runs that are timed."""

    values: int = 2_000
    cycles: int = 4
    batch: int = 500
    times: int = 2
    multiplicities: Sequence[int] = (1, 2, 3, 5, 8, 10)
    partners: Sequence[float] = (0.1, 0.25, 0.5, 1, 2, 4, 8)
    churns: Sequence[int] = (1, 2, 3, 5, 8)
    scanned: Sequence[int] = (5, 10, 20, 40, 80)
    compared: int = 12_000


QUICK = Plan(1_000, 4, 250, 1, (1, 2, 5, 10), (0.25, 1, 4), (1, 3, 5), (5, 20, 60), 8_000)


@dataclass(frozen=True)
class Point(WithCaches):
    """The join without and with the cache, for one setting."""

    x: float
    hits: float

    @property
    def probes(self) -> float:
        """With the cache / without it, the paper's way."""
        return self.cached.probes / self.plain.probes

    def row(self) -> tuple[str, ...]:
        """Of the table."""
        numbers = (self.cached.hits, self.probes, self.work, self.hits, self.steps, self.seconds)
        return (f"{self.x:g}", *(f"{each:.3f}" for each in numbers))


def exhibits(*, quick: bool) -> list[Exhibit]:
    """All four pairs."""
    plan = QUICK if quick else Plan()
    return [_hits(plan), _selectivity(plan), _updates(plan), _join_cost(plan)]


def point(x: float, feed: Feed, plan: Plan, cache_bytes: int, lifetime: int) -> Point:
    """Count and run both."""
    counted = Tuplewise(feed)
    ours_plain = fastest(lambda: Mjoin(feed, orders=ORDERS), feed, plan.batch, plan.times)
    used = [(CACHE.pipeline, CACHE.windows)]
    made: list[Mjoin] = []

    def with_cache() -> Mjoin:
        made.append(Mjoin(feed, cache_bytes, forced=used, orders=ORDERS))
        return made[-1]

    ours = fastest(with_cache, feed, plan.batch, plan.times)
    if ours.results != ours_plain.results:
        raise AssertionError("a cache has changed the answer")
    return Point(counted.plain(ORDERS), counted.cached(ORDERS, [CACHE], lifetime), ours_plain, ours, x, made[0].hits)


def _hits(plan: Plan) -> Exhibit:
    name = "Figures 5.11 and 5.12"
    found = [
        point(r, chain(r, plan.values, plan.cycles), plan, SCARCE, (2 + r) * plan.values // 2)
        for r in plan.multiplicities
    ]
    at = {each.x: each for each in found}
    expected = [(2 * r - 1) / (2 * r) for r in plan.multiplicities]
    off = max(abs(each.cached.hits - hits) for each, hits in zip(found, expected, strict=True))
    bars = [
        at_most(f"{name} hits, the paper's way, from (2r - 1) / 2r", off, 0.01),
        at_most(f"{name} probes with / without, r = 1, the paper's way", at[1].probes, 1 + TIE, "a tie"),
        at_most(f"{name} probes with / without, r = 5, the paper's way", at[5].probes, AT_FIVE, "10 + 2r to 8 + 4r"),
        at_least(f"{name} gain grows with hits, the paper's way", float(_falls([e.work for e in found])), 1.0),
        at_most(f"{name} steps with / without, r = 1, ours", at[1].steps, SAME, "paper: better even there"),
        at_most(f"{name} steps with / without, r = 5, ours", at[5].steps, SAME),
        at_least(f"{name} gain grows with hits, steps, ours", float(_falls([e.steps for e in found])), 1.0),
        *_times(name, found),
    ]
    return _exhibit(name, "multiplicity of T.B", found, bars)


def _selectivity(plan: Plan) -> Exhibit:
    name = "Figures 5.13 and 5.14"
    lifetime = 7 * plan.values // 2
    found = [
        point(each, chain(5, plan.values, plan.cycles, partners=each), plan, SCARCE, lifetime) for each in plan.partners
    ]
    bars = [
        at_most(f"{name} probes with / without, worst, the paper's way", max(e.probes for e in found), SAME),
        at_most(f"{name} the same with updates", max(e.work for e in found), SAME, "paper: least gain near 1"),
        at_most(f"{name} steps with / without, worst, ours", max(e.steps for e in found), SAME),
        *_times(name, found),
    ]
    return _exhibit(name, "rows of R and S that a row of T joins", found, bars)


def _updates(plan: Plan) -> Exhibit:
    name = "Figures 5.15 and 5.16"
    found = [
        point(0.4 * each, chain(5, plan.values, max(2, plan.cycles - 2), churn=each), plan, PLENTY, FOREVER)
        for each in plan.churns
    ]
    more = [each for each in found if each.x > 1]
    bars = [
        at_least(f"{name} gain falls with updates, the paper's way", float(_falls([-e.work for e in found])), 1.0),
        at_most(f"{name} probes and updates with / without, first above 1, the paper's way", more[0].work, 1.0),
        at_least(f"{name} gain falls with updates, steps, ours", float(_falls([-e.steps for e in found])), 1.0),
        at_most(f"{name} steps with / without, first above 1, ours", more[0].steps, SAME),
        *_times(name, found),
    ]
    return _exhibit(name, "updates per look-up", found, bars)


def _join_cost(plan: Plan) -> Exhibit:
    """Without an index on S.B a probe reads all of S; ours compares all pairs of rows with a key."""
    name = "Figures 5.19 and 5.20"
    counted, steps, seconds = [], [], []
    for size in plan.scanned:
        work = Tuplewise(chain(5, size, 8)).cached(ORDERS, [CACHE], 7 * size // 2)
        probes_of_t = work.asked
        plain = Tuplewise(chain(5, size, 8)).plain(ORDERS).probes + probes_of_t * (size - 1)
        counted.append((work.probes + work.missed * (size - 1)) / plain)
        feed, tests = thetas(size, plan.compared)
        with_it, without = (_theta(feed, tests, plan, cache_bytes) for cache_bytes in (PLENTY, 0))
        if with_it.results != without.results:
            raise AssertionError("a cache has changed the answer")
        steps.append(with_it.per_row / without.per_row)
        seconds.append(without.rate / with_it.rate)
    x = list(plan.scanned)
    bars = [
        at_least(f"{name} gain grows with the size of S, the paper's way", float(_falls(counted)), 1.0),
        informed(f"{name} probes with / without, largest S, the paper's way", counted[-1], "up to 90 % in the paper"),
        at_least(f"{name} gain grows with the size of S, steps, ours", float(steps[-1] < steps[0]), 1.0),
        at_most(f"{name} steps with / without, largest S, ours", steps[-1], 0.5),
        at_most(f"{name} time with / without, largest S, ours", seconds[-1], 1.0),
    ]
    told = ", ".join(f"{size}: {a:.2f}" for size, a in zip(x, steps, strict=True))
    table = [("rows of S", "tuples looked at, paper's way", "steps, ours", "time, ours")]
    table += [
        (f"{n}", f"{a:.3f}", f"{b:.3f}", f"{c:.3f}") for n, a, b, c in zip(x, counted, steps, seconds, strict=True)
    ]
    series = [Series("paper's way, counted", counted), Series("ours, steps", steps), Series("ours, time", seconds)]
    chart = Chart("rows of S", "with the cache / without", [float(each) for each in x], series)
    return Exhibit(
        name, f"Steps with the cache / without, by rows of S that are compared: {told}.", bars, [chart], table
    )


def _theta(feed: Feed, tests: tuple[Comparison, ...], plan: Plan, cache_bytes: int) -> Run:
    forced = [(0, (1, 2))] if cache_bytes else []
    orders = ((1, 2), (2, 0), (1, 0))
    return fastest(
        lambda: Mjoin(feed, cache_bytes, forced=forced, orders=orders, comparisons=tests),
        feed,
        len(feed.owner) // 40,
        plan.times,
    )


def _times(name: str, found: Sequence[Point]) -> list[Bar]:
    quickest = min(found, key=lambda each: each.seconds)
    told = f"at x = {quickest.x:g}; {quickest.ours.rate:,.0f} rows/s"
    return [at_most(f"{name} time with / without, least, ours", quickest.seconds, 1.0, told)]


def _exhibit(name: str, x_label: str, found: Sequence[Point], bars: Sequence[Bar]) -> Exhibit:
    x = [each.x for each in found]
    relative = Chart(
        x_label,
        "with the cache / without",
        x,
        [
            Series("paper's way, probes", [each.probes for each in found]),
            Series("paper's way, with updates", [each.work for each in found]),
            Series("ours, steps", [each.steps for each in found]),
            Series("ours, time", [each.seconds for each in found]),
        ],
    )
    absolute = Chart(
        x_label,
        "rows per second, ours",
        x,
        [
            Series("with the cache", [each.ours.rate for each in found]),
            Series("MJoin", [each.ours_plain.rate for each in found]),
        ],
    )
    first, last = found[0], found[-1]
    told = (
        f"With the cache / without, from x = {first.x:g} to {last.x:g}: probes the paper's way {first.probes:.2f} to "
        f"{last.probes:.2f}; ours, steps {first.steps:.2f} to {last.steps:.2f}, time {first.seconds:.2f} to "
        f"{last.seconds:.2f}."
    )
    return Exhibit(name, told, bars, [absolute, relative], [HEAD, *(each.row() for each in found)])


def _falls(values: Sequence[float]) -> bool:
    return bool((np.diff(values) <= 0.005).all())
