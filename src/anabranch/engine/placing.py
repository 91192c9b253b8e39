"""What the inputs of joins bring in their first rows, measured before these are sent to cells.

State lies where rows were sent, so a placement is chosen once (`planning/placement.py`): in the first tick that brings
rows. One more job counts a sample of them. Joins that read what other operators have made, or what a function of the
user's is called for, are not measured: that would be done twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from anabranch.planning.placement import Measured
from anabranch.spark.continuous.flows import Nested, where
from anabranch.spark.continuous.grid import code
from anabranch.spark.continuous.programs import CellStep
from anabranch.spark.continuous.views import Views

FEWEST_ROWS = 1_000
"""With fewer rows, inputs count as equally fast: a few rows tell nothing."""
SAMPLE_ROWS = 200_000
"""About how many rows are counted."""
_COUNT = -1


def is_measurable(step: CellStep, inputs: frozenset[str]) -> bool:
    """Whether an operator reads rows of these views alone, with nothing that is costly to do twice."""
    wanted = [each.select for parts in step.inputs for each in parts]
    views = {view.name for each in wanted for view in each.source.views}
    called = any(each.calls or isinstance(each.source, Nested) for each in wanted)
    return views <= inputs and not called and not any(c.functions for each in wanted for c in each.conditions)


def measured(steps: Sequence[CellStep], views: Views, due: int, cells: int, *, begins: bool) -> list[Measured]:
    """How many rows the inputs of some joins bring, and their most frequent keys, by a sample of the rows that are due.

    Parameters
    ----------
    steps
        The joins.
    views
        Have the rows.
    due
        How many rows these are.
    cells
        How many cells there are.
    begins
        Whether time begins for the queries.
    """
    share = min(1.0, SAMPLE_ROWS / due)
    some = "" if share == 1.0 else f" WHERE rand(5) < {share!r}"
    parts = [_codes(number, step, some) for number, step in enumerate(steps)]
    counted = f"SELECT node, input, dimension, code, count(*) AS n FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
    heaviest = f"slice(sort_array(collect_list(struct(n, code)), false), 1, {2 * cells})"
    text = f"SELECT node, input, dimension, {heaviest} AS heaviest FROM ({counted}) GROUP BY node, input, dimension"
    found: dict[int, dict[tuple[int, int], Mapping[int, int]]] = defaultdict(dict)
    for row in views.select(text, begins).collect():
        keys = {each["code"]: round(each["n"] / share) for each in row["heaviest"]}
        found[row["node"]][row["input"], row["dimension"]] = keys
    return [_measured(step, found[number]) for number, step in enumerate(steps)]


def _measured(step: CellStep, found: Mapping[tuple[int, int], Mapping[int, int]]) -> Measured:
    rows = [sum(found.get((number, _COUNT), {}).values()) for number in range(len(step.inputs))]
    return Measured(tuple(rows), {place: keys for place, keys in found.items() if place[1] != _COUNT})


def _codes(number: int, step: CellStep, some: str) -> str:
    """SQL: a row for each row of an input, and for each of its keys."""
    parts = []
    for place, (distribution, inputs) in enumerate(zip(step.stage.distributions, step.inputs, strict=True)):
        for wanted in inputs:
            keys = [f"struct({_COUNT} AS dimension, 0L AS code)"]
            for dimension, columns in enumerate(distribution.routes):
                if columns and columns != distribution.rows:
                    key = wanted.select.inlined(code(columns, wanted.schema))
                    keys.append(f"struct({dimension} AS dimension, {key.sql} AS code)")
            source = (
                f"(SELECT * FROM {wanted.select.source.text} AS flow{where(wanted.select.conditions)}) AS flow{some}"
            )
            parts.append(f"SELECT {number} AS node, {place} AS input, inline(array({', '.join(keys)})) FROM {source}")
    return " UNION ALL ".join(parts)
