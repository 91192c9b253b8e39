"""States in parts: what an operator holds for some values of a column, and one state made of several.

Rows of different values of the column never meet: what is held of them is apart, too. Parts are taken of snapshots, and
put together as snapshots.

>>> from anabranch.operators.base import Tick
>>> from anabranch.operators.set_operation import SetOperator
>>> def state(numbers):
...     made, ones = SetOperator(1, "distinct"), [1] * len(numbers)
...     columns = {"n": numbers, "_key": numbers, "_start": ones, "_end": [9] * len(numbers), "_weight": ones}
...     made.absorb([pa.table(columns)], Tick(0, 5, origin=0))
...     return made.snapshot()
>>> both = united([part_of(state([1, 2]), "n", [2]), state([3])])
>>> [table["n"].to_pylist() for table in both if "n" in table.column_names][1]
[2, 3]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.elements import KEY, concat, ints, take, with_ints
from anabranch.operators.groups import GROUP

_SERIES = re.compile(r"(.*)\.(\d+)")


def part_of(tables: Sequence[pa.Table], column: str, values: Collection[int]) -> list[pa.Table]:
    """Of the snapshot of an operator, what belongs to some values of a column."""
    wanted = pa.array(values, pa.int64())
    groups = _groups(tables)
    if groups is None:
        return [table.filter(_among(table[column], wanted)) for table in tables]
    if not len(groups):
        return list(tables)
    mask = _among(groups[column], wanted)
    slots = groups[GROUP].filter(mask).combine_chunks()
    parts = []
    for table in tables:
        if table is not groups and GROUP in table.column_names:
            parts.append(table.filter(_among(table[GROUP], slots)))
        else:
            parts.append(table.filter(mask) if len(table) == len(groups) else table)
    return parts


def united(states: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
    """One snapshot of several, no two of which know the same value of the column that keeps rows apart."""
    known = [tables for tables in states if _holds(tables)]
    if len(known) < 2:
        return list(next(iter([*known, *states])))
    first = _groups(known[0])
    if first is None:
        return [concat(tables) for tables in zip(*known, strict=True)]
    place, moved, free = next(n for n, table in enumerate(known[0]) if table is first), [], 0
    for tables in known:
        moved.append([_moved(table, free) for table in tables])
        free += int(ints(tables[place], GROUP).max(initial=-1)) + 1
    # Groups are in the order of their codes, and so are the totals that are held of them.
    order = np.argsort(np.concatenate([ints(tables[place], KEY) for tables in moved]), kind="stable")
    made = []
    for number in range(len(known[0])):
        parts = [tables[number] for tables in moved]
        by_group = all(len(part) == len(tables[place]) for part, tables in zip(parts, moved, strict=True))
        whole = concat(_alike(parts))
        ordered = number == place or (by_group and GROUP not in whole.column_names)
        made.append(take(whole, order) if ordered else whole)
    return made


def _holds(tables: Sequence[pa.Table]) -> bool:
    """Whether there is something in a snapshot."""
    groups = _groups(tables)
    return any(map(len, tables)) if groups is None else len(groups) > 0


def _groups(tables: Sequence[pa.Table]) -> pa.Table | None:
    """The table of groups, each with its slot."""
    return next((table for table in tables if {KEY, GROUP} <= set(table.column_names)), None)


def _among(column: pa.ChunkedArray, values: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(column, values.cast(column.type))


def _moved(table: pa.Table, by: int) -> pa.Table:
    if GROUP not in table.column_names or not by:
        return table
    place = table.column_names.index(GROUP)
    return table.set_column(place, GROUP, pc.add(table[GROUP], pa.scalar(by, table[GROUP].type)))


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """With the columns of all: those of a series, as `sum.3`, are zero where they are not, and have no gaps."""
    series: dict[str, list[int]] = defaultdict(list)
    for table in tables:
        for name in table.column_names:
            if found := _SERIES.fullmatch(name):
                series[found[1]].append(int(found[2]))
    wanted = [f"{name}.{n}" for name, places in series.items() for n in range(min(places), max(places) + 1)]
    whole = [_with_zeros(table, [name for name in wanted if name not in table.column_names]) for table in tables]
    return [table.select(whole[0].column_names) for table in whole]


def _with_zeros(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return with_ints(table, dict.fromkeys(names, np.zeros(len(table)))) if names else table
