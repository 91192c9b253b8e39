"""What the inputs of joins bring in their first rows, measured before these are sent to cells.

State lies where rows were sent, so a placement is chosen once (`planning/placement.py`): in the first tick that brings
rows. One more job takes a sample of them. Joins that read relations, what other operators have made, or what a function
of the user's is called for, are not measured: that would be done twice.
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
SAMPLE_ROWS = 20_000
"""About how many rows are counted, of all streams together."""
_COUNT = -1


def is_measurable(step: CellStep, streams: frozenset[str]) -> bool:
    """Whether an operator reads rows of these views alone, with nothing that is costly to do twice."""
    wanted = [each.select for parts in step.inputs for each in parts]
    views = {view.name for each in wanted for view in each.source.views}
    called = any(each.calls or isinstance(each.source, Nested) for each in wanted)
    return views <= streams and not called and not any(c.functions for each in wanted for c in each.conditions)


def measured(steps: Sequence[CellStep], views: Views, due: int, *, begins: bool) -> list[Measured]:
    """How many rows the inputs of some joins bring, and of each key, by a sample of the rows that are due.

    Parameters
    ----------
    steps
        The joins.
    views
        Have the rows.
    due
        How many rows these are.
    begins
        Whether time begins for the queries.
    """
    share = min(1.0, SAMPLE_ROWS / due)
    some = "" if share == 1.0 else f" WHERE rand(5) < {share!r}"
    text = " UNION ALL ".join(_codes(number, step, some) for number, step in enumerate(steps))
    counted = views.select(text, begins).toArrow().group_by(["node", "input", "dimension", "code"])
    found: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    for row in counted.aggregate([([], "count_all")]).to_pylist():
        found[row["node"], row["input"], row["dimension"]][row["code"]] = round(row["count_all"] / share)
    return [_measured(number, step, found) for number, step in enumerate(steps)]


def _measured(node: int, step: CellStep, found: Mapping[tuple[int, int, int], Mapping[int, int]]) -> Measured:
    rows = [sum(found.get((node, number, _COUNT), {}).values()) for number in range(len(step.inputs))]
    keys = {(i, dimension): codes for (of, i, dimension), codes in found.items() if of == node and dimension != _COUNT}
    return Measured(tuple(rows), keys)


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
