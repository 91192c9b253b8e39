"""SA-QM: simulated annealing. Random moves through the lattice, uphill ones ever less likely as it cools.

>>> from anabranch.mesh.config import MeshConfig
>>> from anabranch.mesh.partitions import text
>>> from anabranch.mesh.training import Sample, TrainingSet
>>> drops = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], dtype=bool)
>>> training = TrainingSet.of_groups(Sample({}, drops, np.ones(2)), np.arange(4))
>>> text(sa_qm(CostModel(training, MeshConfig(overhead_seconds=0.1)), seed=0).partition)
'134/2'

Notes
-----
tau -> `temperature`, at first `MeshConfig.temperature` times the start's cost; rho -> `MeshConfig.cooling`; delta ->
``priced - cost``; the stop condition -> `stopping.Stop`, with `MOVES` moves to an iteration.

Differs from the paper
----------------------
- The figure ends with the present mesh or with bestQM, which it never updates. Here the cheapest mesh that was passed
  is kept and returned.
- Every `MOVES` moves it begins again, warm, from the cheapest mesh so far.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.7,
figure 7.
"""

from __future__ import annotations

from math import exp

import numpy as np

from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.partitions import random_neighbour
from anabranch.mesh.solution import Solution
from anabranch.mesh.starts import STARTS
from anabranch.mesh.stopping import Clock, Stop

MOVES = 1000
COLDEST = 1e-300


def sa_qm(model: CostModel, *, seed: int, clock: Clock | None = None) -> Solution:
    """The cheapest configuration met on the walk."""
    rng = np.random.default_rng(seed)
    stop = Stop(model.config, iterations=model.config.iterations, clock=clock)
    start = STARTS[model.config.start](model, rng)
    best = Solution(start, model.cost(start), 1)
    while not stop.reached(len(model.memo)):
        found = _anneal(model, best, rng, stop)
        priced = best.priced + found.priced
        best = min(best, found, key=lambda s: s.cost)
        best = Solution(best.partition, best.cost, priced)
        stop.note(best.cost)
    return best


def _anneal(model: CostModel, start: Solution, rng: np.random.Generator, stop: Stop) -> Solution:
    here, cost, best = start.partition, start.cost, (start.partition, start.cost)
    temperature, moves = model.config.temperature * cost, 0
    while moves < MOVES and not stop.exhausted(len(model.memo)):
        there = random_neighbour(here, rng)
        priced = model.cost(there)
        moves += 1
        if priced <= cost or rng.random() < exp((cost - priced) / temperature):
            here, cost = there, priced
            best = min(best, (here, cost), key=lambda b: b[1])
        temperature = max(temperature * model.config.cooling, COLDEST)
    return Solution(*best, moves)
