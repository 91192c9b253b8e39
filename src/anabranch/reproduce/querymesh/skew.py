"""What the gain depends on, and the paper does not tell: how selective the joins are, and so how partitions differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from anabranch.measure import at_least, informed
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import optimize
from anabranch.model.arrays import Floats
from anabranch.reproduce.content.streams import skewed as distinct
from anabranch.reproduce.querymesh.running import through_fabric
from anabranch.reproduce.querymesh.streams import (
    EARLIER,
    JOINS,
    PARTITIONS,
    SAMPLE_TUPLES,
    Stream,
    selectivities,
    skewed,
)
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series
from anabranch.routing.content_knows import ContentKnows, best_orders
from anabranch.routing.eddy import Eddy

PRINTED = 0.44
DISTINCT = 0.05

Selectivities = Callable[[int], Floats]


@dataclass(frozen=True)
class Plan:
    """Shares of the tuples that pass all joins, streams of each, and their tuples."""

    aggregates: Sequence[float] = (0.4, 0.2, 0.05, 0.01, 0.001)
    streams: int = 11
    tuples: int = 16_000


QUICK = Plan(streams=3, tuples=8_000)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The mesh of Table 1 and the bound, against the single plan."""
    plan = QUICK if quick else Plan()
    points = [gains(partial(selectivities, aggregate=each), plan.streams, plan.tuples) for each in plan.aggregates]
    extreme = gains(one_join_each, plan.streams, plan.tuples)
    mesh, bound = ([100 * (point[i] - 1) for point in points] for i in range(2))
    x = [100 * aggregate for aggregate in plan.aggregates]
    series = [
        Series("mesh", mesh),
        Series("best order of every partition", bound),
        Series("paper, selectivities not given", [100 * PRINTED] * len(x)),
    ]
    return [
        Exhibit(
            "Partitions",
            "Ahead of the single plan: "
            + ", ".join(f"{m:.0f} % (at {a:.2g} %)" for a, m in zip(x, mesh, strict=True))
            + f"; {100 * (extreme[0] - 1):.0f} % if one join drops 95 % of a partition, another one of the next.",
            [
                at_least("Partitions: mesh / single plan, worst selectivity", min(points)[0], 1.0, "paper 1.44"),
                informed("Partitions: mesh / single plan, best selectivity", max(points)[0], "paper 1.44"),
                informed("Partitions: mesh / single plan, one join each", extreme[0], "paper 1.44"),
                informed("Partitions: share of the bound's gain, least", min((m - 1) / (b - 1) for m, b in points)),
            ],
            [Chart("tuples that pass all joins, %", "output rate over the single plan, %", x, series)],
        )
    ]


def one_join_each(seed: int) -> Floats:
    """Selectivities of which one per partition tells: the skew of content-based routing, whatever the seed."""
    return distinct(JOINS, DISTINCT)[:PARTITIONS]


def gains(passing: Selectivities, streams: int, tuples: int) -> tuple[float, float]:
    """Output rate of the mesh, and of the best order of every partition, over that of the single plan."""
    calls = np.zeros(3)
    for seed in range(streams):
        sample = skewed(SAMPLE_TUPLES, seed, run=EARLIER, of=passing(seed)).sample
        stream = skewed(tuples, seed, of=passing(seed))
        mesh = optimize(sample, MeshConfig.table_1(), seed=seed)
        single = Mesh.of_one(mesh.single_order, cost=mesh.single_cost)
        calls[:2] += [through_fabric(each, stream.arrays, stream.outcomes).total for each in (single, mesh)]
        calls[2] += _bound(stream)
    return float(calls[0] / calls[1]), float(calls[0] / calls[2])


def _bound(stream: Stream) -> int:
    knows = ContentKnows(best_orders(stream.selectivities))
    return Eddy(knows, batch_rows=len(stream.outcomes)).run(stream.outcomes, [stream.partitions]).calls
