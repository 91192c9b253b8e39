"""The tables and queries of the experiments, after the Wisconsin benchmark (section 5).

>>> tables = wisconsin(big=1000, small=100)
>>> {name: table.pages for name, table in tables.items()}
{'big1': 25, 'big2': 25, 'small': 3}

Differs from the paper: plans and constants are in its figures, which are lost. It says that both queries of figure 4
sort big2 and small, but big2 is what they read by different ranges: here they share the sorts of big1 and small.
"""

from __future__ import annotations

import numpy as np

from anabranch.reproduce.qpipe.disk import File
from anabranch.reproduce.qpipe.plans import (
    COLUMNS,
    HUNDRED,
    TEN,
    UNIQUE1,
    UNIQUE2,
    Aggregate,
    FileScan,
    IndexScan,
    MergeJoin,
    Plan,
    Sort,
)

BIG, SMALL = 100_000, 10_000
SEED = 20_030_106
Pair = tuple[Plan, Plan]


def wisconsin(big: int = BIG, small: int = SMALL) -> dict[str, File]:
    """Two big tables and a small one: `unique1` in random order, `unique2` in the order of pages."""
    rng = np.random.default_rng(SEED)
    tables = {}
    for name, rows in (("big1", big), ("big2", big), ("small", small)):
        unique1 = rng.permutation(rows)
        tables[name] = File(np.column_stack([unique1, np.arange(rows), unique1 % 10, unique1 % 100]))
    return tables


def by_unique1(plan: Plan) -> Sort:
    """Sorted for a join."""
    return Sort(plan, UNIQUE1)


def three_way_joins(big: int, share: float = 0.5) -> Pair:
    """Figure 4: two ranges of big2, each of a share of its rows."""

    def joined(low: float) -> Plan:
        some = IndexScan("big2", int(low * big), int((low + share) * big))
        pairs = MergeJoin(by_unique1(FileScan("big1")), by_unique1(some), UNIQUE1, UNIQUE1)
        return MergeJoin(pairs, by_unique1(FileScan("small")), UNIQUE1, UNIQUE1)

    return joined(0.0), joined(1.0 - share)


def grouped() -> Pair:
    """Figure 5: two aggregates over the same groups."""
    rows = Sort(FileScan("big1"), HUNDRED)
    return Aggregate(rows, "min", UNIQUE2, HUNDRED), Aggregate(rows, "sum", UNIQUE2, HUNDRED)


def equal_joins(big: int) -> Pair:
    """Figure 6: the same ranges in both queries, which differ in what they do with the join."""
    half, part = IndexScan("big1", 0, big // 2), IndexScan("big2", big // 4, 3 * big // 4)
    join = MergeJoin(by_unique1(half), by_unique1(part), UNIQUE1, UNIQUE1)
    return Aggregate(join, "min", UNIQUE2), Aggregate(join, "sum", COLUMNS + UNIQUE2)


def mix(big: int) -> tuple[Plan, ...]:
    """Section 5.5: selections, joins and aggregates of the benchmark, with its selectivities."""
    tenth = FileScan("big2", 0, big // 10)
    a, b, c = by_unique1(FileScan("big1")), by_unique1(tenth), by_unique1(FileScan("small"))
    selected = by_unique1(FileScan("big1", 0, big // 10))
    return (
        FileScan("big1", big // 2, big // 2 + big // 100),
        FileScan("big1", big // 2, big // 2 + big // 10),
        IndexScan("big1", big // 2, big // 2 + big // 100),
        IndexScan("big1", big // 2, big // 2 + big // 10),
        MergeJoin(a, b, UNIQUE1, UNIQUE1),
        MergeJoin(a, c, UNIQUE1, UNIQUE1),
        MergeJoin(MergeJoin(selected, b, UNIQUE1, UNIQUE1), c, UNIQUE1, UNIQUE1),
        Aggregate(FileScan("big1"), "min", UNIQUE2),
        Aggregate(Sort(FileScan("big1"), HUNDRED), "min", UNIQUE2, HUNDRED),
        Aggregate(Sort(FileScan("big1"), HUNDRED), "sum", TEN, HUNDRED),
    )
