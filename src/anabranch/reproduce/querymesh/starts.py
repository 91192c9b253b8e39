"""Figure 13: how much the start solution matters, before and after the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from anabranch.measure import Bar, at_least, informed
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.config import STARTS as NAMES
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.ii_qm import ii_qm
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import LEAF_SHARE
from anabranch.mesh.partitions import Partition
from anabranch.mesh.sa_qm import sa_qm
from anabranch.mesh.starts import STARTS
from anabranch.mesh.training import condense
from anabranch.reproduce.querymesh.running import through_fabric
from anabranch.reproduce.querymesh.streams import EARLIER, SAMPLE_TUPLES, skewed
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

ROUTE = "route"
PAPER = {"extreme-n": 1.06, "content": 1.10, "random": 1.12, "extreme-1": 1.19}
ALONE, SEARCHED = "start alone", "after the search"
SMALL, LARGE = "II, T = 10", "SA, T = 100"
CONFIGS = {SMALL: MeshConfig.table_1(), LARGE: MeshConfig.table_3()}
NOT_WORSE = 0.99

Calls = Mapping[tuple[str, str, str], float]


@dataclass(frozen=True)
class Plan:
    """Streams, and tuples of each."""

    streams: int = 11
    tuples: int = 16_000


QUICK = Plan(streams=3, tuples=8_000)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The figure."""
    plan = QUICK if quick else Plan()
    tried = [tries(seed, plan.tuples, CONFIGS) for seed in range(plan.streams)]
    calls = {key: float(np.mean([each[key] for each in tried])) for key in tried[0]}
    columns = [f"{label}, {stage}|{name}" for label in CONFIGS for stage in (ALONE, SEARCHED) for name in NAMES]
    rates = [1000 / calls[label, stage, name] for label in CONFIGS for stage in (ALONE, SEARCHED) for name in NAMES]
    listed = ", ".join(f"{_ahead(calls, SMALL, ALONE, name) - 1:+.1%} over {name}" for name in PAPER)
    worst = max(_ahead(calls, SMALL, SEARCHED, name) for name in PAPER)
    return [
        Exhibit(
            "Figure 13",
            f"Start solutions as they are: route-driven {listed}. After the search at most {worst - 1:.1%} is left.",
            [
                _bar(calls, *case, name)
                for case in ((SMALL, ALONE), (SMALL, SEARCHED), (LARGE, SEARCHED))
                for name in PAPER
            ],
            [Chart("", "tuples per 1000 operator calls", columns, [Series("rate", rates)], "columns")],
        )
    ]


def _bar(calls: Calls, label: str, stage: str, name: str) -> Bar:
    value, bar = _ahead(calls, label, stage, name), f"13 {label}, {stage}: route-driven / {name}"
    if label == LARGE:
        return informed(bar, value, f"paper {PAPER[name]:.2f}")
    return at_least(bar, value, 1.0 if stage == ALONE else NOT_WORSE, f"paper {PAPER[name]:.2f}, after the search")


def _ahead(calls: Calls, label: str, stage: str, name: str) -> float:
    return calls[label, stage, name] / calls[label, stage, ROUTE]


def tries(seed: int, tuples: int, configs: Mapping[str, MeshConfig]) -> dict[tuple[str, str, str], float]:
    """Operator calls per tuple of every start, alone and searched from once, with every set of defaults."""
    sample, stream, found = skewed(SAMPLE_TUPLES, seed, run=EARLIER).sample, skewed(tuples, seed), {}
    for label, defaults in configs.items():
        training = condense(sample, defaults.training_tuples, seed)
        for name in NAMES:
            model = CostModel(training, replace(defaults, start=name, iterations=1))
            search = sa_qm if defaults.search == "sa" else ii_qm
            partitions = {
                ALONE: STARTS[name](model, np.random.default_rng(seed)),
                SEARCHED: search(model, seed=seed).partition,
            }
            for stage, partition in partitions.items():
                ran = through_fabric(as_mesh(model, partition, seed), stream.arrays, stream.outcomes)
                found[label, stage, name] = ran.total / tuples
    return found


def as_mesh(model: CostModel, partition: Partition, seed: int) -> Mesh:
    """A configuration as section 4.4 makes a mesh of it: a tree from its subsets, and the best order of each."""
    sample, config = model.training.sample, model.config
    tree = DecisionTree.learn(
        sample.columns,
        model.training.labels(partition),
        max_depth=config.max_depth,
        max_leaves=config.max_leaves,
        leaf_rows=max(1, int(LEAF_SHARE * len(sample))),
        seed=seed,
    )
    single = model.route(tuple(range(len(model))))
    return Mesh(
        tree,
        tuple(model.route(subset).order for subset in partition),
        tuple(model.training.density(subset) for subset in partition),
        model.cost(partition),
        single.order,
        single.weighted_cost,
    )
