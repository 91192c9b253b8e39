"""Figures 4 to 6: two queries, and the time between their arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.qpipe.disk import COSTS, Costs, Meter
from anabranch.reproduce.qpipe.running import Ran, Tables, run_pair, same
from anabranch.reproduce.qpipe.workload import BIG, SMALL, Pair, equal_joins, grouped, three_way_joins, wisconsin
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

PAPER_SORT, PAPER_JOIN = 0.25, 0.40
FLAT = 1.1
DEAR_ROWS = Costs(row=0.1, comparison=0.01)
DEAR_PAGES = Costs(row=0.001, comparison=0.0001, enqueue=0.002)
QPIPE, ORIGINAL = "QPipe", "original"


@dataclass(frozen=True)
class Plan:
    """Rows of the tables, and the times between arrivals: shares of the time that the first query takes alone."""

    big: int = BIG
    small: int = SMALL
    gaps: Sequence[float] = tuple(number / 10 for number in range(11))


QUICK = Plan(BIG // 5, SMALL // 5, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


@dataclass(frozen=True)
class Curves:
    """Both engines at all gaps."""

    gaps: Sequence[float]
    merged: Sequence[Ran] = field(repr=False)
    apart: Sequence[Ran] = field(repr=False)

    @property
    def saved(self) -> list[float]:
        """The part of the time that merging saves, gap by gap."""
        return [1 - one.elapsed / other.elapsed for one, other in zip(self.merged, self.apart, strict=True)]

    @property
    def seconds_saved(self) -> float:
        """The same in measured seconds, over all gaps."""
        return 1 - sum(ran.seconds for ran in self.merged) / sum(ran.seconds for ran in self.apart)

    @property
    def flat(self) -> float:
        """The share of gaps at which the time of the merging engine has hardly grown."""
        least = min(ran.elapsed for ran in self.merged)
        return sum(ran.elapsed <= FLAT * least for ran in self.merged) / len(self.gaps)


def curves(tables: Tables, pair: Pair, gaps: Sequence[float], costs: Costs = COSTS) -> Curves:
    """Run a pair of queries on both engines. A gap of 1 is the time that the first one takes alone, on that engine."""
    run = partial(run_pair, tables, costs=costs)
    alone = {merging: run(pair[:1], 0.0, merging=merging).elapsed for merging in (True, False)}
    found: dict[bool, list[Ran]] = {True: [], False: []}
    for gap in gaps:
        for merging, rans in found.items():
            rans.append(run(pair, gap * alone[merging], merging=merging))
        if not same(found[True][-1].answers, found[False][-1].answers):
            raise InternalError("merged packets answered other rows than packets of their own")
    return Curves(gaps, found[True], found[False])


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 4, 5 and 6."""
    plan = QUICK if quick else Plan()
    tables = wisconsin(plan.big, plan.small)
    return [_figure_4(tables, plan), _figure_5(tables, plan), _figure_6(tables, plan)]


def _figure_4(tables: Tables, plan: Plan) -> Exhibit:
    found = curves(tables, three_way_joins(plan.big), plan.gaps)
    merged, apart = found.merged, found.apart
    bars = [
        at_least("Figure 4 largest saving", max(found.saved), PAPER_SORT, "paper: up to 25 %"),
        at_least("Figure 4 share of the gaps with a flat curve", found.flat, 0.5, "at most 1.1 times the least"),
        at_most("Figure 4 QPipe: together / apart", merged[0].elapsed / merged[-1].elapsed, 1.0),
        at_most("Figure 4 original: together / apart", apart[0].elapsed / apart[-1].elapsed, 1.0),
        at_least("Figure 4 QPipe / original without overlap", 1 - found.saved[-1], 1.0, "paper: slightly slower"),
        at_most("Figure 4 QPipe / original without overlap", 1 - found.saved[-1], 1.05, "paper: slightly slower"),
        informed("Figure 4 saving, seconds over all gaps", found.seconds_saved),
    ]
    middle = plan.gaps[len(plan.gaps) // 3 : len(plan.gaps) // 3 + 1]
    for share in (0.1, 0.9):
        other = curves(tables, three_way_joins(plan.big, share), middle)
        bars.append(informed(f"Figure 4 saving with {share:.0%} of big2", max(other.saved)))
    for name, costs in (("rows", DEAR_ROWS), ("pages", DEAR_PAGES)):
        other = curves(tables, three_way_joins(plan.big), middle, costs)
        bars.append(informed(f"Figure 4 saving if {name} cost ten times as much", max(other.saved)))
    return _exhibit("Figure 4", found, bars)


def _figure_5(tables: Tables, plan: Plan) -> Exhibit:
    found = curves(tables, grouped(), plan.gaps)
    bars = [
        at_least("Figure 5 largest saving, direction", max(found.saved), 0.0, "paper: no number"),
        at_least("Figure 5 share of the gaps with a flat curve", found.flat, 0.5, "at most 1.1 times the least"),
        informed("Figure 5 largest saving", max(found.saved)),
        informed("Figure 5 saving, seconds over all gaps", found.seconds_saved),
    ]
    return _exhibit("Figure 5", found, bars)


def _figure_6(tables: Tables, plan: Plan) -> Exhibit:
    found = curves(tables, equal_joins(plan.big), plan.gaps)
    bars = [
        at_least("Figure 6 largest saving", max(found.saved), PAPER_JOIN, "paper: up to 40 %"),
        informed("Figure 6 saving, seconds over all gaps", found.seconds_saved),
    ]
    return _exhibit("Figure 6", found, bars)


def _exhibit(name: str, found: Curves, bars: Sequence[Bar]) -> Exhibit:
    best = max(range(len(found.gaps)), key=found.saved.__getitem__)
    one, other = found.merged[best].meter, found.apart[best].meter
    said = (
        f"At best {found.saved[best]:.0%} less, {found.gaps[best]:.0%} of a query apart: {one.reads:,} pages read "
        f"instead of {other.reads:,}, {one.writes:,} written instead of {other.writes:,}. Seconds over all gaps: "
        f"{found.seconds_saved:.0%} less."
    )
    chart = Chart(
        "time between arrivals / time of the first query alone",
        "time until both have ended, pages",
        found.gaps,
        [
            Series(QPIPE, [ran.elapsed for ran in found.merged]),
            Series(ORIGINAL, [ran.elapsed for ran in found.apart]),
        ],
    )
    return Exhibit(name, said, bars, [chart], table=_rows(found))


def _rows(found: Curves) -> list[tuple[str, ...]]:
    head = ("gap", QPIPE, ORIGINAL, "saved", "pages read", "written", "rows", "queues", "merged at", "splits")
    rows: list[tuple[str, ...]] = [head]
    for gap, one, other, saved in zip(found.gaps, found.merged, found.apart, found.saved, strict=True):
        spent = one.meter
        counts = (f"{spent.reads:,}", f"{spent.writes:,}", f"{spent.rows:,}", f"{spent.enqueues:,}")
        times = (f"{one.elapsed:,.0f}", f"{other.elapsed:,.0f}", f"{saved:.0%}")
        rows.append((f"{gap:.1f}", *times, *counts, _merged(spent), str(spent.splits)))
    return rows


def _merged(meter: Meter) -> str:
    return ", ".join(f"{stage} {count}" for stage, count in sorted(meter.merged.items())) or "-"
