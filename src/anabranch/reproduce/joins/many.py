"""Figures 5.17 and 5.18: joins of three to seven streams, with the best caches and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.joins.cache_candidates import Candidate, prefix_candidates
from anabranch.measure import at_least, at_most, informed
from anabranch.model.arrays import Order
from anabranch.reproduce.joins.running import PLENTY, Mjoin, fastest
from anabranch.reproduce.joins.tuplewise import Tuplewise
from anabranch.reproduce.joins.with_caches import WithCaches
from anabranch.reproduce.joins.workload import Feed, alike
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

NAME = "Figures 5.17 and 5.18"
SAME = 1.0


@dataclass(frozen=True)
class Plan:
    """Numbers of streams, results of a run at most, rows of a batch, runs that are timed."""

    streams: Sequence[int] = (3, 4, 5, 6, 7)
    results: int = 200_000
    batch: int = 200
    times: int = 2

    def feed(self, streams: int) -> Feed:
        """So many values that results are not too many."""
        per_value = 5 ** (streams - streams // 2)
        return alike(streams, min(1_000, max(20, self.results // (6 * per_value))), 4)


QUICK = Plan(streams=(3, 4, 5), results=60_000, batch=100, times=1)


@dataclass(frozen=True)
class Point(WithCaches):
    """The join of so many streams."""

    streams: int
    candidates: int
    used: int


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The pair of figures."""
    plan = QUICK if quick else Plan()
    found = [_point(streams, plan) for streams in plan.streams]
    last = found[-1]
    bars = [
        at_most(
            f"{NAME} probes and updates with / without, worst n, the paper's way", max(e.work for e in found), SAME
        ),
        informed(
            f"{NAME} caches used, n = {last.streams}", last.used, f"of {last.candidates}; paper: 6 of 15 at n = 7"
        ),
        at_least(f"{NAME} caches are used at all n, the paper's way", min(each.used for each in found), 1.0),
        at_most(f"{NAME} steps with / without, worst n, ours", max(e.steps for e in found), SAME, "the same caches"),
        at_most(f"{NAME} time with / without, least, ours", min(e.seconds for e in found), SAME, "the same caches"),
    ]
    told = "; ".join(
        f"n = {e.streams}: {e.work:.2f} the paper's way ({e.used} of {e.candidates} caches), steps {e.steps:.2f}, time "
        f"{e.seconds:.2f}"
        for e in found
    )
    return [Exhibit(NAME, f"With caches / without. {told}.", bars, _charts(found), _table(found))]


def _point(streams: int, plan: Plan) -> Point:
    feed = plan.feed(streams)
    counted = Tuplewise(feed)
    orders = _orders(streams)
    candidates = prefix_candidates(orders)
    used = counted.chosen(orders, candidates)
    ours_plain = fastest(lambda: Mjoin(feed, orders=orders), feed, plan.batch, plan.times)
    ours = fastest(lambda: _with(feed, used, orders), feed, plan.batch, plan.times)
    if ours.results != ours_plain.results:
        raise AssertionError("caches have changed the answer")
    work = counted.plain(orders), counted.cached(orders, used)
    return Point(*work, ours_plain, ours, streams, len(candidates), len(used))


def _orders(streams: int) -> tuple[Order, ...]:
    """Streams with each value once first: they keep the tuples on the way few."""
    return tuple(tuple(other for other in range(streams) if other != number) for number in range(streams))


def _with(feed: Feed, used: set[Candidate], orders: Sequence[Order]) -> Mjoin:
    return Mjoin(feed, PLENTY, forced=[(each.pipeline, each.windows) for each in used], orders=orders)


def _charts(found: Sequence[Point]) -> list[Chart]:
    x = [float(each.streams) for each in found]
    rates = [Series("with caches", [e.ours.rate for e in found]), Series("MJoin", [e.ours_plain.rate for e in found])]
    relative = [
        Series("paper's way, probes and updates", [each.work for each in found]),
        Series("ours, steps", [each.steps for each in found]),
        Series("ours, time", [each.seconds for each in found]),
    ]
    return [
        Chart("streams", "rows per second, ours", x, rates),
        Chart("streams", "with caches / without", x, relative),
    ]


def _table(found: Sequence[Point]) -> list[tuple[str, ...]]:
    head = (
        "streams",
        "candidates",
        "used",
        "paper's way",
        "steps per row, ours: without",
        "with",
        "time with / without",
    )
    rows = [
        (
            f"{e.streams}",
            f"{e.candidates}",
            f"{e.used}",
            f"{e.work:.3f}",
            f"{e.ours_plain.per_row:.1f}",
            f"{e.ours.per_row:.1f}",
            f"{e.seconds:.2f}",
        )
        for e in found
    ]
    return [head, *rows]
