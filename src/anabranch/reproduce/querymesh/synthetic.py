"""Figures 10 and 11a: the mesh, the single plan and the Eddy on the same skewed and uniform streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import optimize
from anabranch.reproduce.querymesh import overheads, rates, totals
from anabranch.reproduce.querymesh.names import BATCHED, EDDY, MESH, SINGLE, SKEWED, SMALL_MESH, UNIFORM
from anabranch.reproduce.querymesh.running import Ran, least, same_answers, through_eddy, through_fabric
from anabranch.reproduce.querymesh.streams import BATCH_ROWS, EARLIER, SAMPLE_TUPLES, Stream, skewed, uniform
from anabranch.reproduce.thesis.exhibit import Exhibit

REPETITIONS = 8
DRAWS: Mapping[str, Callable[..., Stream]] = {SKEWED: skewed, UNIFORM: uniform}


@dataclass(frozen=True)
class Plan:
    """Source streams, tuples of each, and tuples of the longer streams that the Eddy has more time to learn on."""

    streams: int = 11
    tuples: int = 16_000
    long_tuples: int = 100_000


QUICK = Plan(streams=3, tuples=8_000, long_tuples=50_000)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 10a, 10b, 10c and 11a."""
    plan = QUICK if quick else Plan()
    meshes = {(kind, seed): learned(kind, seed) for kind in DRAWS for seed in range(plan.streams)}
    found = {
        kind: [race(draw(plan.tuples, seed), meshes[kind, seed], seed) for seed in range(plan.streams)]
        for kind, draw in DRAWS.items()
    }
    longer = [
        race(skewed(plan.long_tuples, seed), meshes[SKEWED, seed], seed, timed=False) for seed in range(plan.streams)
    ]
    return [*rates.exhibits(found, longer), overheads.exhibit(found[SKEWED]), totals.exhibit(found[SKEWED])]


def learned(kind: str, seed: int) -> dict[str, Mesh]:
    """What the optimizer makes of an earlier run, with both sets of defaults, and the single plan."""
    sample = DRAWS[kind](SAMPLE_TUPLES, seed, run=EARLIER).sample
    mesh = optimize(sample, MeshConfig.table_3(), seed=seed)
    return {
        MESH: mesh,
        SMALL_MESH: optimize(sample, MeshConfig.table_1(), seed=seed),
        SINGLE: Mesh.of_one(mesh.single_order, cost=mesh.single_cost),
    }


def race(stream: Stream, meshes: Mapping[str, Mesh], seed: int, *, timed: bool = True) -> dict[str, Ran]:
    """All systems on one stream; where only calls matter, once, and without the slow Eddy that takes single tuples."""
    repetitions = REPETITIONS if timed else 1
    found = {
        name: least([through_fabric(mesh, stream.arrays, stream.outcomes) for _ in range(repetitions)])
        for name, mesh in meshes.items()
    }
    eddy = partial(through_eddy, stream.columns, stream.kinds, stream.outcomes, seed=seed)
    found[BATCHED] = least([eddy(batch_rows=BATCH_ROWS) for _ in range(repetitions)])
    if timed:
        found[EDDY] = eddy(batch_rows=1)
    return same_answers(found)
