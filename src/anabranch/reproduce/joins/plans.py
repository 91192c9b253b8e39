"""Figure 5.21 and Table 5.2: the best MJoin, XJoin and plans with caches at eight points of rates and selectivities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from anabranch.joins.cache_candidates import candidates, prefix_candidates
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.joins.running import PLENTY, Bushy, LeftDeep, Mjoin, Run, fastest
from anabranch.reproduce.joins.running import Plan as Running
from anabranch.reproduce.joins.tuplewise import Tree, Tuplewise, Work
from anabranch.reproduce.joins.workload import Feed, selective
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

NAME = "Figure 5.21"
MEANT_WINDOW = 200
POINTS: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "D1": ((10, 1, 1, 1), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D2": ((8, 1, 1, 8), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D3": ((10, 15, 1, 5), (0.003, 0.005, 0.007, 0.0045, 0.006, 0.008)),
    "D4": ((1, 1, 1, 1), (0.003, 0.004, 0.0067, 0.002, 0.0023, 0.0027)),
    "D5": ((4, 1, 1, 4), (0.005, 0.007, 0.005, 0.006, 0.005, 0.002)),
    "D6": ((1, 1, 1, 1), (0.005, 0.0033, 0.0025, 0.0067, 0.005, 0.0075)),
    "D7": ((1, 1, 1, 1), (0.0,) * 6),
    "D8": ((1, 1, 1, 1), (0.001,) * 6),
}
"""Table 5.2: rates of R, S, T, U; selectivities of RS, RT, RU, ST, SU, TU."""

MOST_CANDIDATES = 6
SAME, CLEARLY, AS_GOOD = 1.001, 0.95, 1.05
PLANS = ("M", "X", "P", "G")


@dataclass(frozen=True)
class Plan:
    """Rows in all and of a window, of a batch, and runs that are timed."""

    rows: int = 60_000
    window: int = 2_000
    batch: int = 1_000
    times: int = 2


QUICK = Plan(rows=16_000, window=400, batch=400, times=1)


@dataclass(frozen=True)
class Point:
    """What each plan takes: the paper's way, and ours."""

    name: str
    counted: Mapping[str, Work]
    ours: Mapping[str, Run]
    caches: Mapping[str, int]
    tree: Tree

    def cost(self, plan: str) -> float:
        """Probes and updates for a row, the paper's way."""
        return self.counted[plan].per_row


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The table and its figure."""
    plan = QUICK if quick else Plan()
    found = [_point(name, plan) for name in POINTS]
    told = "; ".join(
        f"{e.name}: " + ", ".join(f"{p} {e.cost(p):.2f} ({e.ours[p].per_row:.2f})" for p in PLANS) for e in found
    )
    text = f"Probes and updates for a row the paper's way, and steps for a row of ours in brackets. {told}."
    return [Exhibit(NAME, text, _bars(found), _charts(found), _table(found))]


def trees() -> list[Tree]:
    """All of four inputs: 12 left-deep ones, 3 bushy ones."""
    deep: list[Tree] = [(((a, b), c), d) for a, b, c, d in permutations(range(4)) if a < b]
    return [*deep, ((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]


def xjoin(feed: Feed, tree: Tree) -> Running:
    """Runs a tree."""
    match tree:
        case (((int(a), int(b)), int(c)), int(d)):
            return LeftDeep(feed, (a, b, c, d))
        case ((int(a), int(b)), (int(c), int(d))):
            return Bushy(feed, (a, b), (c, d))
    raise AssertionError(tree)


def _point(name: str, plan: Plan) -> Point:
    rates, selectivities = POINTS[name]
    counted = Tuplewise(selective(rates, selectivities, plan.rows, MEANT_WINDOW))
    orders = counted.best_orders()
    tree = min(trees(), key=lambda each: counted.tree(each).per_row)
    chosen = {
        "P": counted.chosen(orders, prefix_candidates(orders)),
        "G": counted.chosen(orders, candidates(orders, most=MOST_CANDIDATES)),
    }
    work = {"M": counted.plain(orders), "X": counted.tree(tree)}
    work |= {each: counted.cached(orders, used) for each, used in chosen.items()}
    feed = selective(rates, selectivities, plan.rows, plan.window, scale=plan.window / MEANT_WINDOW)
    ours = {
        "M": fastest(lambda: Mjoin(feed), feed, plan.batch, plan.times),
        "X": fastest(lambda: xjoin(feed, tree), feed, plan.batch, plan.times),
        "P": fastest(lambda: Mjoin(feed, PLENTY), feed, plan.batch, plan.times),
        "G": fastest(lambda: Mjoin(feed, PLENTY, MOST_CANDIDATES), feed, plan.batch, plan.times),
    }
    if len({each.results for each in ours.values()}) > 1:
        raise AssertionError("plans have different answers")
    return Point(name, work, ours, {each: len(used) for each, used in chosen.items()}, tree)


def _bars(found: Sequence[Point]) -> list[Bar]:
    at = {each.name: each for each in found}
    worst = {p: max(each.cost(p) / each.cost("M") for each in found) for p in PLANS}
    steps = {p: max(each.ours[p].per_row / each.ours["M"].per_row for each in found) for p in PLANS}
    fewest = {p: min(each.ours[p].per_row / each.ours["M"].per_row for each in found) for p in PLANS}
    several = ("D2", "D3", "D4")
    d7 = [at["D7"].counted[p].per_row for p in PLANS]
    return [
        *(at_most(f"{NAME} {p} / M, worst of D1-D8, the paper's way", worst[p], SAME) for p in "XPG"),
        *(
            at_most(f"{NAME} X / P at {name}, the paper's way", at[name].cost("X") / at[name].cost("P"), CLEARLY)
            for name in ("D1", "D2", "D3")
        ),
        at_most(f"{NAME} G / P, worst, the paper's way", max(each.cost("G") / each.cost("P") for each in found), SAME),
        at_most(
            f"{NAME} G / X, worst, the paper's way",
            max(each.cost("G") / each.cost("X") for each in found),
            AS_GOOD,
            "paper: almost always as good",
        ),
        at_most(
            f"{NAME} G / X, worst of D2, D3, D4, the paper's way",
            max(at[name].cost("G") / at[name].cost("X") for name in several),
            CLEARLY,
            "paper: clearly better",
        ),
        at_most(f"{NAME} D7, most / fewest probes of all plans, the paper's way", max(d7) / min(d7), SAME, "a tie"),
        *(at_most(f"{NAME} {p} / M, worst of D1-D8, steps, ours", steps[p], SAME) for p in "XPG"),
        *(informed(f"{NAME} {p} / M, best of D1-D8, steps, ours", fewest[p]) for p in "XPG"),
        at_least(f"{NAME} D7, steps for a row of M, ours", at["D7"].ours["M"].per_row, 1.0, "1, and profiling"),
        *(
            informed(f"{NAME} D{n}, M / {p}, time, ours", at[f"D{n}"].ours[p].rate / at[f"D{n}"].ours["M"].rate)
            for n in (1, 4, 8)
            for p in "XPG"
        ),
    ]


def _charts(found: Sequence[Point]) -> list[Chart]:
    x = [float(place) for place in range(1, len(found) + 1)]
    counted = [Series(p, [1 / each.cost(p) for each in found]) for p in PLANS]
    timed = [Series(p, [each.ours[p].rate for each in found]) for p in PLANS]
    return [
        Chart("D1 to D8", "rows per probe, the paper's way", x, counted),
        Chart("D1 to D8", "rows per second, ours", x, timed),
    ]


def _table(found: Sequence[Point]) -> list[tuple[str, ...]]:
    head = ["", *(f"{p}, paper's way" for p in PLANS), "caches of P, G", "tree of X"]
    head += [*(f"{p}, steps" for p in PLANS), *(f"{p}, rows/s" for p in PLANS)]
    rows = [
        (
            each.name,
            *(f"{each.cost(p):.2f}" for p in PLANS),
            f"{each.caches['P']}, {each.caches['G']}",
            str(each.tree).replace(" ", ""),
            *(f"{each.ours[p].per_row:.2f}" for p in PLANS),
            *(f"{each.ours[p].rate:,.0f}" for p in PLANS),
        )
        for each in found
    ]
    return [tuple(head), *rows]
