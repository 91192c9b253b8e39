"""Table 6.3: joins of Linear Road, whose inputs are relations: elements with both of their ends."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.linear_road_joins import QUICK, Cost, Drive, cost, joins
from anabranch.measure import Bar, at_most, informed
from anabranch.reproduce.thesis.exhibit import Exhibit

PAPER_MEMORY = {"CurCarSeg": 0.09, "AccSeg": 0.13, "CarExitStr": 0.10}
PAPER_TIME = {"CurCarSeg": 0.65, "AccSeg": 0.99, "CarExitStr": 0.49}
MOST_MEMORY = 0.15


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The table, as far as it is known what its queries are."""
    found = joins(QUICK if quick else Drive())
    return [
        _exhibit({name: {mode: cost(inputs, mode) for mode in ("off", "discard")} for name, inputs in found.items()})
    ]


def _exhibit(costs: Mapping[str, Mapping[str, Cost]]) -> Exhibit:
    bars: list[Bar] = []
    table: list[tuple[str, ...]] = [("query", "rows without", "rows with", "results", "memory", "time")]
    told = []
    for name, each in costs.items():
        off, on = each["off"], each["discard"]
        memory, spent = on.rows / off.rows, on.seconds / off.seconds
        bars += [
            at_most(f"Table 6.3 {name} memory with / without", memory, MOST_MEMORY, f"paper: {PAPER_MEMORY[name]}"),
            at_most(f"Table 6.3 {name} results missed", off.results - on.results, 0, "paper: accurate"),
            informed(f"Table 6.3 {name} time with / without", spent, f"paper: {PAPER_TIME[name]}"),
        ]
        table.append((name, f"{off.rows:,.0f}", f"{on.rows:,.0f}", f"{on.results:,}", f"{memory:.2f}", f"{spent:.2f}"))
        told.append(f"{name}: memory {memory:.2f}, time {spent:.2f}")
    return Exhibit("Table 6.3", "; ".join(told) + ". All results are found.", bars, table=table)
