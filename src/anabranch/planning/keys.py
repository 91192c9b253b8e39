"""Keys of joins: which inputs they connect, and how rows with equal keys find each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from anabranch.planning.distribution import Distribution

Keys: TypeAlias = tuple[tuple[tuple[int, str], ...], ...]
"""Classes of equal columns, each a number of an input and a name; see `logical_plan.Join`."""

KEY = "_key"


def linked(inputs: Sequence[int], keys: Keys) -> bool:
    """Whether keys lead from each of these inputs to each other, over no others."""
    reached, left = set(inputs[:1]), set(inputs[1:])
    while left:
        near = {i for key in keys if any(i in reached for i, _ in key) for i, _ in key} & left
        if not near:
            return False
        reached, left = reached | near, left - near
    return bool(reached)


def among(keys: Keys, inputs: Sequence[int]) -> Keys:
    """The keys between some inputs, which are numbered anew."""
    places = {number: place for place, number in enumerate(inputs)}
    kept = (tuple((places[i], name) for i, name in key if i in places) for key in keys)
    return tuple(key for key in kept if len(key) > 1)


def merged(keys: Keys) -> Keys:
    """Pairs that compare one column of the first input are one class.

    >>> merged((((0, "x"), (1, "a")), ((0, "y"), (2, "b")), ((0, "x"), (3, "c"))))
    (((0, 'x'), (1, 'a'), (3, 'c')), ((0, 'y'), (2, 'b')))
    """
    found: dict[str, list[tuple[int, str]]] = {}
    apart: list[tuple[tuple[int, str], ...]] = []
    for (_, left), right in keys:
        partners = found.setdefault(left, [])
        if any(number == right[0] for number, _ in partners):
            apart.append(((0, left), right))  # an input has one column in a class
        else:
            partners.append(right)
    return (*(((0, left), *partners) for left, partners in found.items()), *apart)


def distributions_of(keys: Keys, rows: Sequence[tuple[str, ...]]) -> list[Distribution]:
    """How the rows of each input may reach the cells of a join; `rows` tell those of an input apart, if that may be.

    Every class of keys is a dimension. An input without a key may be spread by its rows.
    """
    dimensions: list[dict[int, tuple[str, ...]]] = [{number: (name,) for number, name in key} for key in keys]
    keyed = {number for key in keys for number, _ in key}
    dimensions += [{number: names} for number, names in enumerate(rows) if names and number not in keyed]
    return [
        Distribution(
            tuple((f"{KEY}{j}", (name,)) for j, key in enumerate(keys) for i, name in key if i == number),
            tuple(dimension.get(number) for dimension in dimensions),
            names,
        )
        for number, names in enumerate(rows)
    ]


def has_map(kind: pa.DataType) -> bool:
    """Whether a type is a map, or has one in it: those have no codes."""
    parts = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return bool(pa.types.is_map(kind)) or any(map(has_map, parts))
