"""II-QM: iterative improvement. From each start it walks downhill through the lattice, by random moves.

>>> from anabranch.mesh.config import MeshConfig
>>> from anabranch.mesh.partitions import text
>>> from anabranch.mesh.training import Sample, TrainingSet
>>> drops = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], dtype=bool)
>>> training = TrainingSet.of_groups(Sample({}, drops, np.ones(2)), np.arange(4))
>>> text(ii_qm(CostModel(training, MeshConfig(overhead_seconds=0.1)), seed=0).partition)
'134/2'

Notes
-----
bestQM -> `best`; NEIGHBORS -> `partitions.neighbours`; local_minimum -> no neighbour of `_descend` is cheaper; the stop
condition -> `stopping.Stop`.

Differs from the paper
----------------------
- Neighbours are tried in a random sequence and never twice, so that a local minimum is certain, unless there are more
  of them than `MeshConfig.neighbours`: then so many random ones are tried.
- The first iteration begins at the configured start, the following ones at the others, then at random.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.7,
figure 6.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.partitions import Partition, neighbour_count, neighbours, random_neighbour
from anabranch.mesh.solution import Solution
from anabranch.mesh.starts import start_solutions
from anabranch.mesh.stopping import Clock, Stop


def ii_qm(model: CostModel, *, seed: int, clock: Clock | None = None) -> Solution:
    """The cheapest local minimum of several descents."""
    rng = np.random.default_rng(seed)
    stop = Stop(model.config, iterations=model.config.iterations, clock=clock)
    starts, priced = start_solutions(model, rng), 0
    best = Solution(((),), np.inf, 0)
    while not stop.reached(len(model.memo)) or not priced:
        found = _descend(model, next(starts), rng, stop)
        priced += found.priced
        best = min(best, found, key=lambda s: s.cost)
        stop.note(best.cost)
    return Solution(best.partition, best.cost, priced)


def _descend(model: CostModel, here: Partition, rng: np.random.Generator, stop: Stop) -> Solution:
    cost, priced, downhill = model.cost(here), 1, True
    while downhill and not stop.exhausted(len(model.memo)):
        downhill = False
        for there in _some_neighbours(here, model.config.neighbours, rng):
            priced += 1
            if (cheaper := model.cost(there)) < cost:
                here, cost, downhill = there, cheaper, True
                break
    return Solution(here, cost, priced)


def _some_neighbours(partition: Partition, most: int, rng: np.random.Generator) -> Iterator[Partition]:
    if neighbour_count(partition) > most:
        return (random_neighbour(partition, rng) for _ in range(most))
    listed = neighbours(partition)
    return (listed[i] for i in rng.permutation(len(listed)))
