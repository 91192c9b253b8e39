"""Where rows go, over Arrow tables: what is measured, the cells of each row, and placements at random."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import BoolMatrix
from anabranch.planning.distribution import Distribution
from anabranch.planning.hypercube import splits
from anabranch.planning.placement import Along, HotKey, Measured, Placement

Place: TypeAlias = Callable[[Sequence[Distribution], int, Measured], Placement]
Codes: TypeAlias = Callable[[Sequence[str]], np.ndarray[tuple[int], np.dtype[np.int64]]]


def measured_of(
    flows: Sequence[pa.Table],
    distributions: Sequence[Distribution],
    codes: Callable[[pa.Table, Sequence[str]], np.ndarray[tuple[int], np.dtype[np.int64]]],
) -> Measured:
    """What inputs bring."""
    keys = {
        (number, dimension): dict(Counter(codes(flow, columns).tolist()))
        for number, (flow, distribution) in enumerate(zip(flows, distributions, strict=True))
        for dimension, columns in enumerate(distribution.routes)
        if columns
    }
    return Measured(tuple(map(len, flows)), keys)


def sent_to(along: Sequence[Along], codes: Codes) -> BoolMatrix:
    """Which cells each row goes to."""
    rows, sizes = len(codes(())), [each.size for each in along]
    here = np.ones((rows, *sizes), np.bool_)
    for dimension, each in enumerate(along):
        if each.columns is None:
            continue
        keys = codes(each.columns)
        places = np.where(np.isin(keys, each.spread), codes(each.rows), keys) % each.size
        there = places[:, None] == np.arange(each.size)
        there[np.isin(keys, each.copied)] = True
        here &= there.reshape(rows, *(size if place == dimension else 1 for place, size in enumerate(sizes)))
    return here.reshape(rows, prod(sizes))


def random_place(rng: random.Random) -> Place:
    """Any legal placement: other shares, and any keys spread by the rows of any input that may be."""

    def place(distributions: Sequence[Distribution], cells: int, measured: Measured) -> Placement:
        dimensions = len(distributions[0].routes)
        sizes, hot = rng.choice(list(splits(cells, dimensions))), []
        for dimension in range(dimensions):
            own = [number for number, each in enumerate(distributions) if each.routes[dimension]]
            rows = [number for number in own if distributions[number].rows]
            codes = sorted({code for number in own for code in measured.keys[number, dimension]})
            if len(own) > 1 and rows:
                some = rng.sample(codes, rng.randrange(len(codes) + 1))
                hot += [HotKey(dimension, code, rng.choice(rows)) for code in some]
        return Placement(sizes, tuple(sorted(hot)), measured.rows)

    return place
