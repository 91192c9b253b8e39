"""Figure 12: the larger the training set, the longer the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import at_least, informed
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.ii_qm import ii_qm
from anabranch.mesh.sa_qm import sa_qm
from anabranch.mesh.solution import Solution
from anabranch.mesh.training import condense
from anabranch.reproduce.querymesh.running import through_fabric
from anabranch.reproduce.querymesh.starts import as_mesh
from anabranch.reproduce.querymesh.streams import EARLIER, SAMPLE_TUPLES, skewed
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series, interval

SEARCHES: dict[str, Callable[..., Solution]] = {"SA-QM": sa_qm, "II-QM": ii_qm}


@dataclass(frozen=True)
class Plan:
    """Sizes of the training set, streams, and tuples on which the resulting mesh is tried."""

    sizes: Sequence[int] = (8, 10, 20, 40, 60, 80, 100)
    streams: int = 5
    tuples: int = 16_000


QUICK = Plan(sizes=(8, 20, 100), streams=2, tuples=8_000)


@dataclass(frozen=True)
class Searched:
    """CPU seconds of a search, routes computed, and operator calls of its mesh per tuple."""

    seconds: float
    routes: int
    calls: float


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The figure."""
    plan = QUICK if quick else Plan()
    found = {
        (name, size): [search(name, size, seed, plan.tuples) for seed in range(plan.streams)]
        for name in SEARCHES
        for size in plan.sizes
    }
    first, last = plan.sizes[0], plan.sizes[-1]
    bars = []
    for name in SEARCHES:
        small, large = found[name, first], found[name, last]
        said = f"{_mean(small, 'seconds'):.3f} and {_mean(large, 'seconds'):.3f} s"
        bars += [
            at_least(f"12 {name}: search time, T = {last} / {first}", _ratio(large, small, "seconds"), 1.0, said),
            at_least(f"12 {name}: routes computed, T = {last} / {first}", _ratio(large, small, "routes"), 1.0),
            informed(
                f"12 {name}: output rate, T = {last} / {first}", _ratio(small, large, "calls"), "the mesh as searched"
            ),
        ]
    return [
        Exhibit(
            "Figure 12",
            "; ".join(
                f"{name} {_mean(found[name, first], 'seconds'):.2f} s with {first} training tuples, "
                f"{_mean(found[name, last], 'seconds'):.2f} s with {last}"
                for name in SEARCHES
            )
            + ".",
            bars,
            [
                _chart(plan, found, "seconds", "search, seconds"),
                _chart(plan, found, "calls", "operator calls per tuple"),
            ],
        )
    ]


def search(name: str, size: int, seed: int, tuples: int) -> Searched:
    """One search from the route-driven start, timed, and its mesh on a further run of the stream."""
    config = MeshConfig(training_tuples=size)
    model = CostModel(condense(skewed(SAMPLE_TUPLES, seed, run=EARLIER).sample, size, seed), config)
    began = time.process_time()
    solution = SEARCHES[name](model, seed=seed)
    spent = time.process_time() - began
    stream = skewed(tuples, seed)
    ran = through_fabric(as_mesh(model, solution.partition, seed), stream.arrays, stream.outcomes)
    return Searched(spent, len(model.memo), ran.total / tuples)


def _chart(plan: Plan, found: dict[tuple[str, int], list[Searched]], what: str, label: str) -> Chart:
    series = [
        Series(
            name,
            [_mean(found[name, size], what) for size in plan.sizes],
            [interval([getattr(each, what) for each in found[name, size]]) for size in plan.sizes],
        )
        for name in SEARCHES
    ]
    return Chart("training tuples", label, list(plan.sizes), series)


def _mean(found: Sequence[Searched], what: str) -> float:
    return float(np.mean([getattr(each, what) for each in found]))


def _ratio(above: Sequence[Searched], below: Sequence[Searched], what: str) -> float:
    return _mean(above, what) / _mean(below, what)
