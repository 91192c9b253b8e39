"""Figure 10c: the share of the time that is not query processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.content.running import CALL_SECONDS
from anabranch.reproduce.querymesh.names import BATCHED, EDDY, MESH
from anabranch.reproduce.querymesh.running import Ran
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

CLASSIFICATION, ALL = 0.02, 0.03
PAPER_EDDY = 0.2
MICRO = 1e-6


def exhibit(runs: Sequence[Mapping[str, Ran]]) -> Exhibit:
    """The figure."""
    names = (MESH, BATCHED, EDDY)
    parts = {name: _shares([run[name] for run in runs]) for name in names}
    totals = {name: sum(both) for name, both in parts.items()}
    as_printed = _call_seconds([run[EDDY] for run in runs], PAPER_EDDY)
    layers = zip(("classifying, learning", "routing"), zip(*parts.values(), strict=True), strict=True)
    operators = f"operators of {CALL_SECONDS / MICRO:.0f} us"
    return Exhibit(
        "Figure 10c",
        f"Mesh {totals[MESH]:.2%}, of it classification {parts[MESH][0]:.2%}; Eddy {totals[EDDY]:.0%}, in batches "
        f"{totals[BATCHED]:.1%}; with {operators}.",
        [
            at_most("10c share of the mesh's overhead", totals[MESH], ALL, f"paper 0.02-0.03; {operators}"),
            at_most("10c share of the mesh's classification", parts[MESH][0], CLASSIFICATION, "paper: less than 0.02"),
            at_least("10c overhead share, Eddy / mesh", totals[EDDY] / totals[MESH], 1.0, "paper: 0.2 against 0.02"),
            at_least("10c overhead share, Eddy in batches / mesh", totals[BATCHED] / totals[MESH], 1.0),
            informed("10c share of the Eddy's overhead", totals[EDDY], "paper: nearly 0.2; in Python, tuple by tuple"),
            informed("10c share of the Eddy's overhead, in batches", totals[BATCHED], "paper: hardly better"),
            informed("10c us per call with which the Eddy has 20 %", as_printed / MICRO, "joins dearer than ours"),
        ],
        [
            Chart(
                "",
                "share of the time, %",
                [f"overhead|{name}" for name in names],
                [Series(label, [100 * value for value in values]) for label, values in layers],
                "columns",
            )
        ],
    )


def _shares(runs: Sequence[Ran]) -> tuple[float, float]:
    whole = sum(ran.seconds for ran in runs)
    return sum(ran.deciding_seconds for ran in runs) / whole, sum(ran.routing_seconds for ran in runs) / whole


def _call_seconds(runs: Sequence[Ran], share: float) -> float:
    """Seconds per operator call with which the overhead has this share of the time."""
    return sum(ran.overhead for ran in runs) * (1 / share - 1) / sum(ran.total for ran in runs)
