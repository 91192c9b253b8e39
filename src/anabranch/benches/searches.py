"""The heuristic searches for a mesh against the exact one, on training sets small enough for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from anabranch.measure import Bar, at_least
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.ii_qm import ii_qm
from anabranch.mesh.opt_qm import opt_qm
from anabranch.mesh.sa_qm import sa_qm
from anabranch.mesh.solution import Solution
from anabranch.mesh.training import Sample, TrainingSet

SEARCHES: Mapping[str, tuple[Callable[..., Solution], int]] = {"II-QM": (ii_qm, 3), "SA-QM": (sa_qm, 1)}
CONFIG = MeshConfig(overhead_seconds=0.03, classification_seconds=0.01, route_gain=0.0)
CLOSE = 1.05


def near_the_optimum(cases: int) -> list[Bar]:
    """Share of random training sets of 8 to 10 tuples for which a search comes within 5 % of the cheapest mesh."""
    close = dict.fromkeys(SEARCHES, 0)
    for seed in range(cases):
        model = _model(np.random.default_rng(seed), 8 + seed % 3)
        best = opt_qm(model).cost
        for name, (search, iterations) in SEARCHES.items():
            model.config = replace(CONFIG, iterations=iterations)
            close[name] += search(model, seed=seed).cost <= CLOSE * best
    detail = f"{cases} sets of 8 to 10 tuples"
    return [at_least(f"{name}: share within 5 % of Opt-QM", n / cases, 0.95, detail) for name, n in close.items()]


def _model(rng: np.random.Generator, tuples: int, filters: int = 4) -> CostModel:
    """Training tuples with drop rates and densities of their own."""
    groups = np.repeat(np.arange(tuples), rng.integers(1, 12, size=tuples))
    drops = rng.random((len(groups), filters)) < rng.beta(0.5, 0.5, size=(tuples, filters))[groups]
    sample = Sample({"u": rng.random(len(groups))}, drops, rng.uniform(0.3, 1.0, size=filters))
    return CostModel(TrainingSet.of_groups(sample, groups), CONFIG)
