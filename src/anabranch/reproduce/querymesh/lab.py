"""Figure 11b: queries over sensor readings, where the mesh was learned on the first day and runs on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.measure import Bar, informed
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import optimize
from anabranch.mesh.training import Sample
from anabranch.reproduce.content.running import CALL_SECONDS
from anabranch.reproduce.content.sensors import Sensors, generated, room
from anabranch.reproduce.querymesh.names import BATCHED, MESH, SINGLE
from anabranch.reproduce.querymesh.rates import ahead
from anabranch.reproduce.querymesh.running import Ran, same_answers, through_eddy, through_fabric
from anabranch.reproduce.querymesh.streams import BATCH_ROWS
from anabranch.reproduce.thesis.exhibit import Exhibit

DAYS = 3
GENERATED, ROOM = "generated sensors", "real room"
NUMBERS = ("hour", "minute")
UNSEEN = "day"


@dataclass(frozen=True)
class Plan:
    """Queries, and minutes between two readings of a generated sensor."""

    queries: int = 10
    minutes: float = 4.0


QUICK = Plan(queries=4, minutes=8.0)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The figure."""
    plan = QUICK if quick else Plan()
    labs, real = {GENERATED: generated(DAYS, plan.minutes, seed=11)}, room()
    if real is not None:
        labs[ROOM] = real
    found = {name: [query(lab, seed) for seed in range(plan.queries)] for name, lab in labs.items()}
    return [
        Exhibit(
            "Figure 11b",
            "; ".join(
                f"{name}: {ahead(runs, SINGLE) - 1:+.1%} against the single plan, {ahead(runs, BATCHED) - 1:+.1%} "
                "against the Eddy in batches"
                for name, runs in found.items()
            )
            + ".",
            [bar for name, runs in found.items() for bar in _bars(name, runs)],
        )
    ]


def query(lab: Sensors, seed: int) -> dict[str, Ran]:
    """All systems on one query with four range predicates; the mesh and the single plan know the first third only."""
    outcomes, arrays = lab.ranges(seed), _arrays(lab)
    learned, config = len(outcomes) // DAYS, MeshConfig.table_1()
    rows = np.sort(np.random.default_rng([11, seed]).choice(learned, config.sample_tuples, replace=False))
    costs = np.full(outcomes.shape[1], CALL_SECONDS)
    sampled = {name: array.take(pa.array(rows)) for name, array in arrays.items()}
    mesh = optimize(Sample.from_arrow(sampled, ~outcomes[rows], costs), config, seed=seed)
    single = Mesh.of_one(mesh.single_order, cost=mesh.single_cost)
    later = {name: array.slice(learned) for name, array in arrays.items()}
    found = {name: through_fabric(m, later, outcomes[learned:]) for name, m in ((MESH, mesh), (SINGLE, single))}
    columns = [column[learned:] for column in lab.columns]
    found[BATCHED] = through_eddy(columns, lab.kinds, outcomes[learned:], batch_rows=BATCH_ROWS, seed=seed)
    return same_answers(found)


def _arrays(lab: Sensors) -> dict[str, Any]:
    """Attributes that mean the same on another day: numbers of sensors are names, hours and minutes have a sequence."""
    return {
        name: pa.array(values if name in NUMBERS else values.astype(str))
        for name, values in lab.attributes.items()
        if name != UNSEEN
    }


def _bars(name: str, runs: Sequence[Mapping[str, Ran]]) -> list[Bar]:
    said = f"{len(runs)} queries; paper: ahead, by less than on synthetic data"
    return [
        informed(f"11b {name}: mesh / {other}, results per call", ahead(runs, other), said)
        for other in (SINGLE, BATCHED)
    ]
