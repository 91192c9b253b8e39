"""Keys are found by their codes, and then compared: different keys may have the same code.

>>> keys = pa.table({"city": ["Oslo", "Rome", "Oslo", "Lima"]})
>>> number, first = number_keys(np.array([5, 9, 5, 5]), keys)  # Lima has the code of Oslo
>>> bool(number[0] == number[2]), len(first)
(True, 3)
>>> kept = pa.table({"city": ["Lima", "Oslo"]})
>>> candidates = np.array([0, 0]), np.array([0, 1])  # the first key may be one of both
>>> find_keys(1, candidates, lambda asked: take(keys, asked), lambda found: take(kept, found)).tolist()
[1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.operators.elements import Flags, Rows, firsts, identities, same, take
from anabranch.operators.steps import starts_of


def number_keys(codes: Rows, keys: pa.Table) -> tuple[Rows, Rows]:
    """Equal keys have equal numbers, from 0 without gaps: the numbers, and a row for each of them."""
    order = np.argsort(codes)
    opens = starts_of(codes[order])
    number = np.empty(len(codes), np.int64)
    number[order] = np.cumsum(opens) - 1
    first = order[opens]
    if not agree(keys.columns, take(keys, first[number]).columns, len(keys)).all():
        number = identities(keys, keys.column_names)
        first = firsts(number)
    return number, first


def find_keys(
    count: int,
    candidates: tuple[Rows, npt.NDArray[Any]],
    wanted: Callable[[Rows], pa.Table],
    held: Callable[[Rows], pa.Table],
) -> Rows:
    """For each of `count` keys the row that holds it, -1 where there is none.

    Parameters
    ----------
    count
        Number of keys.
    candidates
        Pairs of a key and a row with the same code.
    wanted, held
        The values of keys, and of rows.
    """
    found = np.full(count, -1, np.int64)
    asked, rows = candidates
    if len(asked):
        right = agree(wanted(asked).columns, held(rows).columns, len(asked))
        found[asked[right]] = rows[right]
    return found


def agree(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], rows: int) -> Flags:
    """Where the columns on both sides agree, one by one."""
    alike = np.ones(rows, np.bool_)
    for one, other in zip(left, right, strict=True):
        alike &= same(one, other)
    return alike
