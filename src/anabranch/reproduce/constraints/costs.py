"""Tables 6.1 and 6.2: what following constraints costs per tuple, and which rows each lets go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.constraints.config import ConstraintConfig, Kind
from anabranch.constraints.constraint_set import Given
from anabranch.constraints.kmon import Component, KMonJoin
from anabranch.constraints.windows import Rows
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.constraints import streams
from anabranch.reproduce.constraints.memory import config_of, known_of
from anabranch.reproduce.constraints.running import Run, batches, run
from anabranch.reproduce.constraints.streams import Feed
from anabranch.reproduce.thesis.exhibit import Exhibit

NAMES: dict[Kind, str] = {"rids": "RIDS", "ca": "CA", "oap": "OAP", "oac": "OAC"}
MAKERS: Mapping[Kind, Callable[[int, int, int], Feed]] = {
    "rids": streams.referential,
    "ca": streams.clustered,
    "oap": streams.clustered,
    "oac": streams.children_ordered,
}
PAPER: Mapping[Kind, Sequence[float]] = {
    "rids": (0.83, 1.55, 1.51, 1.57, 1.60),
    "ca": (1.07, 1.14, 1.09, 1.13, 1.17),
    "oap": (0.99, 1.06, 1.09, 1.09, 1.06),
    "oac": (1.11, 1.14, 1.14, 1.16, 1.18),
}
WITHIN = 1.6
PARTS: Sequence[tuple[int, Component]] = ((0, "yes"), (0, "no"), (0, "unknown"), (1, "yes"), (1, "no"))
LENGTH = 9


@dataclass(frozen=True)
class Plan:
    """Rows of a window, values of k, tuples of a batch."""

    window: int = 50_000
    ks: Sequence[int] = (0, 1_000, 5_000, 10_000, 20_000)
    batch: int = 1_000


QUICK = Plan(window=2_500, ks=(0, 50, 250, 500, 1_000), batch=100)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Both tables."""
    return [_table_6_1(QUICK if quick else Plan()), _table_6_2(QUICK if quick else Plan())]


def _table_6_1(plan: Plan) -> Exhibit:
    ratios: dict[Kind, list[float]] = {}
    rows: list[tuple[str, ...]] = [("", *(f"k = {k:,}" for k in plan.ks))]
    for kind, make in MAKERS.items():
        pairs = [_timed(kind, make(k, LENGTH * plan.window, 3), plan) for k in plan.ks]
        ratios[kind] = [found.microseconds / swj.microseconds for found, swj in pairs]
        told = [f"{found.microseconds:.2f} / {swj.microseconds:.2f}" for found, swj in pairs]
        rows.append((NAMES[kind], *told))
    highest = {kind: max(each) for kind, each in ratios.items()}
    told_ratios = "; ".join(f"{NAMES[kind]} {' '.join(f'{r:.2f}' for r in each)}" for kind, each in ratios.items())
    return Exhibit(
        "Table 6.1",
        f"Processor time per tuple / that of SWJ by k: {told_ratios}.",
        [
            *(
                at_most(
                    f"Table 6.1 {NAMES[kind]}, highest / the paper's highest", highest[kind] / max(PAPER[kind]), WITHIN
                )
                for kind in MAKERS
            ),
            *(informed(f"Table 6.1 {NAMES[kind]}, smallest k", each[0], "time / SWJ") for kind, each in ratios.items()),
        ],
        table=rows,
    )


def _timed(kind: Kind, feed: Feed, plan: Plan) -> tuple[Run, Run]:
    found = run(feed, plan.window, plan.batch, config_of(kind), known_of(kind, feed))
    return found, run(feed, plan.window, plan.batch)


def _table_6_2(plan: Plan) -> Exhibit:
    """Rows left of each component, by constraint, at the end of the same stream."""
    feed = streams.clustered_and_referential(plan.ks[1], plan.ks[1], 4 * plan.window, 5, share=streams.HALF)
    counts = {"default": _left(feed, plan, replace(config_of("rids"), kinds=frozenset()), {})}
    for kind in MAKERS:
        counts[NAMES[kind]] = _left(feed, plan, config_of(kind), known_of(kind, feed))
    base = counts["default"]
    return Exhibit(
        "Table 6.2",
        "Rows left at the end of one stream, by component; RIDS and OAC empty No of the child, CA and OAP Yes and No.",
        [*_emptied(counts, base)],
        table=[
            ("", "S1.Yes", "S1.No", "S1.Unknown", "S2.Yes", "S2.No"),
            *((name, *(f"{n:,}" for n in each)) for name, each in counts.items()),
        ],
    )


def _left(feed: Feed, plan: Plan, config: ConstraintConfig, known: Given) -> tuple[int, ...]:
    windows = [Rows(plan.window)] * feed.graph.streams
    join = KMonJoin(feed.graph, windows, feed.widths, config, filters=feed.filters, given=known)
    for each in batches(feed, plan.batch):
        join.advance(each)
    return tuple(len(join.rows(stream, part)) for stream, part in PARTS)


def _emptied(counts: Mapping[str, Sequence[int]], base: Sequence[int]) -> list[Bar]:
    return [
        at_most("Table 6.2 default: rows of the root in Yes and No", counts["default"][0] + counts["default"][1], 0),
        at_most("Table 6.2 RIDS: rows of S2.No", counts["RIDS"][4], 0),
        at_most("Table 6.2 OAC: rows of S2.No", counts["OAC"][4], 0),
        at_most("Table 6.2 CA: rows of S2.Yes and S2.No / default", sum(counts["CA"][3:]) / sum(base[3:]), 0.5),
        at_most("Table 6.2 OAP: rows of S2.Yes and S2.No / default", sum(counts["OAP"][3:]) / sum(base[3:]), 0.5),
        at_least("Table 6.2 RIDS: rows of S2.Yes / default", counts["RIDS"][3] / base[3], 1.0),
    ]
