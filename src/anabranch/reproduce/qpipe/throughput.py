"""Section 5.5: two clients take queries from a random mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.errors import InternalError
from anabranch.measure import at_least, informed
from anabranch.reproduce.qpipe.plans import FileScan, Sort, walk
from anabranch.reproduce.qpipe.plans import Plan as Query
from anabranch.reproduce.qpipe.running import Tables, run_clients, same
from anabranch.reproduce.qpipe.workload import BIG, SMALL, mix, wisconsin
from anabranch.reproduce.thesis.exhibit import Exhibit

PAPER_RATIO = 0.00262 / 0.00201
CLIENTS = 2


@dataclass(frozen=True)
class Plan:
    """Rows of the tables, queries that are drawn, and how often."""

    big: int = BIG
    small: int = SMALL
    queries: int = 60
    seeds: int = 3


QUICK = Plan(BIG // 5, SMALL // 5, seeds=2)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The throughput of both engines."""
    plan = QUICK if quick else Plan()
    tables, kinds = wisconsin(plan.big, plan.small), mix(plan.big)
    ratios, seconds, rows = measured(tables, kinds, plan)
    ratio = float(np.mean(ratios))
    sorting = [
        kind for kind in kinds if any(isinstance(each, Sort) and each.child == FileScan("big1") for each in walk(kind))
    ]
    return [
        Exhibit(
            "Section 5.5",
            f"{ratio:.2f} times ({', '.join(f'{each:.2f}' for each in ratios)}); {np.mean(seconds):.2f} in seconds.",
            [
                at_least("Section 5.5 throughput of QPipe / original, direction", ratio, 1.0, "paper 1.30"),
                at_least("Section 5.5 throughput of QPipe / original", ratio, PAPER_RATIO, "paper 1.30"),
                informed("Section 5.5 throughput, seconds", float(np.mean(seconds))),
                informed(
                    f"Section 5.5 throughput, only the {len(sorting)} kinds that sort big1",
                    float(np.mean(measured(tables, sorting, plan)[0])),
                ),
            ],
            table=rows,
        )
    ]


def measured(
    tables: Tables, kinds: Sequence[Query], plan: Plan
) -> tuple[list[float], list[float], list[tuple[str, ...]]]:
    """The throughput of the merging engine by that of the other, in pages and in seconds, and a table of both."""
    ratios, seconds = [], []
    rows: list[tuple[str, ...]] = [("seed", "queries", "QPipe", "original", "ratio", "merged at")]
    for seed in range(plan.seeds):
        drawn = [kinds[kind] for kind in np.random.default_rng([55, seed]).integers(0, len(kinds), plan.queries)]
        merged = run_clients(tables, drawn, CLIENTS, merging=True)
        apart = run_clients(tables, drawn, CLIENTS, merging=False)
        if not same(merged.answers, apart.answers):
            raise InternalError("merged packets answered other rows than packets of their own")
        ratios.append(apart.elapsed / merged.elapsed)
        seconds.append(apart.seconds / merged.seconds)
        merges = ", ".join(f"{stage} {count}" for stage, count in sorted(merged.meter.merged.items()))
        times = (f"{merged.elapsed:,.0f}", f"{apart.elapsed:,.0f}", f"{ratios[-1]:.2f}")
        rows.append((str(seed), str(plan.queries), *times, merges))
    return ratios, seconds, rows
