"""Figure 11a: results produced in the course of an hour, if there is always input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.measure import at_least, informed
from anabranch.model.arrays import Floats
from anabranch.reproduce.querymesh.names import BATCHED, EDDY, MESH, SINGLE
from anabranch.reproduce.querymesh.running import Ran
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

MINUTES = 60
SETTLED = 10


def exhibit(runs: Sequence[Mapping[str, Ran]]) -> Exhibit:
    """The figure: the hour is the time that the mesh takes for all tuples, operator calls only."""
    curves = {
        name: np.sum([produced(run[name], run[MESH].total) for run in runs], axis=0)
        for name in (MESH, SINGLE, BATCHED, EDDY)
    }
    ends = {name: float(curve[-1]) for name, curve in curves.items()}
    later = {name: curves[MESH][SETTLED:] / np.maximum(curves[name][SETTLED:], 1.0) for name in (SINGLE, BATCHED, EDDY)}
    series = [Series(name, curve.tolist()) for name, curve in curves.items()]
    return Exhibit(
        "Figure 11a",
        "Results in an hour: " + ", ".join(f"{name} {end:,.0f}" for name, end in ends.items()) + ".",
        [
            *(
                at_least(f"11a mesh / {name}, results in an hour", ends[MESH] / ends[name], 1.0, "paper: far more")
                for name in (SINGLE, EDDY, BATCHED)
            ),
            *(
                informed(f"11a mesh / {name}, least ratio after {SETTLED} minutes", float(ratios.min()))
                for name, ratios in later.items()
            ),
        ],
        [Chart("minutes", "results", list(range(MINUTES + 1)), series, "timeline")],
    )


def produced(ran: Ran, hour: float) -> Floats:
    """Results minute by minute, from 0 to 60, if so many operator calls fit into an hour."""
    ended, results = np.cumsum(ran.calls), np.cumsum(ran.passed)
    done = np.searchsorted(ended, np.linspace(0.0, hour, MINUTES + 1), side="right")
    return np.concatenate([[0.0], results.astype(np.float64)])[done]
