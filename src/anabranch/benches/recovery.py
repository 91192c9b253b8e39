"""How long a worker's loop takes to come near the best plan again after the data has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import BoolMatrix, Rows
from anabranch.ordering import Precedence, greedy_order, make, row_costs
from anabranch.ordering.pipeline import Verdict
from anabranch.routing.routed import RoutedPipeline

BATCH_ROWS = 10_000
WINDOW_ROWS = 5_000
NEAR = 1.10


def rows_to_recover(
    passes: BoolMatrix,
    attributes: Mapping[str, np.ndarray[Any, Any]],
    costs: Sequence[float],
    changed_at: int,
    classes: Rows,
) -> int:
    """Rows after a change until a window of rows costs at most a tenth more than the best order of each class."""
    spent, clock = np.zeros(len(passes)), [0.0]
    columns = {name: pa.array(values) for name, values in attributes.items()}
    pipeline = RoutedPipeline(lambda seed: make("auto", passes.shape[1], seed=seed), clock=lambda: clock[0])
    at = 0

    def judge(f: int, rows: Rows) -> Verdict:
        np.add.at(spent, at + rows, costs[f])
        clock[0] += costs[f] * len(rows)
        return Verdict(passes[at + rows, f])

    while at < len(passes):
        size = pipeline.chunk_rows(min(BATCH_ROWS - at % BATCH_ROWS, len(passes) - at))
        pipeline.process(size, judge, {name: array.slice(at, size) for name, array in columns.items()})
        at += size
    best = np.zeros(len(passes))
    late = np.arange(len(passes)) >= changed_at
    for c in np.unique(classes):
        for part in (late, ~late):
            rows = (classes == c) & part
            order = greedy_order(~passes[rows], np.array(costs), Precedence.none(len(costs)))
            best[rows] = row_costs(order, ~passes[rows], np.array(costs))
    for start in range(changed_at, len(passes) - WINDOW_ROWS, WINDOW_ROWS // 5):
        window = slice(start, start + WINDOW_ROWS)
        if spent[window].sum() <= NEAR * best[window].sum():
            return start - changed_at
    return len(passes) - changed_at
