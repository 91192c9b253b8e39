"""Compiled loops over hash indexes and filters: to insert rows, to look whether there is a match, to list all matches.

An index is a table `head` of the newest row of each bucket, and for each row the one that came before it in its bucket
(`older`): a chain, newest first. Both count rows from the first that ever was; `base` of these have gone, and chains
end where they begin. `latest` has for each block of rows the latest end of all rows up to there: once a chain has come
to where all of them are over, it need not be followed any further, so that rows which have expired cost nothing.

The loops are compiled by numba when they are called first. What was compiled is kept on the disk, beside this module or
where numba puts it if that cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

BLOCK_BITS = 8
"""Rows come in blocks of 2 to this power, each with the latest end up to there."""
_MIX = np.uint64(0x9E3779B97F4A7C15)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The function as machine code; where nothing can be kept on the disk, each process compiles for itself."""
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(Kernel, numba.njit(nogil=True)(function))


@compiled
def insert(codes: Any, first: int, base: int, shift: Any, head: Any, older: Any) -> None:
    """Put the rows from `first` on in front of the chains of their buckets."""
    for row in range(first, len(codes)):
        bucket = np.int64((np.uint64(codes[row]) * _MIX) >> shift)
        older[row] = head[bucket]
        head[bucket] = row + base


@compiled
def remove(codes: Any, first: int, base: int, shift: Any, head: Any, older: Any) -> None:
    """Take the rows from `first` on, which are the newest ones, out of the chains of their buckets."""
    for row in range(len(codes) - 1, first - 1, -1):
        bucket = np.int64((np.uint64(codes[row]) * _MIX) >> shift)
        head[bucket] = older[row]


@compiled
def first_matches(
    codes: Any,
    begin: Any,
    end: Any,
    own: Any,
    starts: Any,
    ends: Any,
    latest: Any,
    shift: Any,
    head: Any,
    older: Any,
    base: int,
    most: int,
    found: Any,
) -> bool:
    """For each code the newest row of that code that meets the interval, -1 if there is none.

    False if more than `most` rows were looked at in vain: then chains are too long for that.
    """
    vain = 0
    for place in range(len(codes)):
        row = np.int64(head[np.int64((np.uint64(codes[place]) * _MIX) >> shift)]) - base
        found[place] = -1
        while row >= 0 and latest[row >> BLOCK_BITS] > begin[place]:
            if own[row] == codes[place] and starts[row] < end[place] and ends[row] > begin[place]:
                found[place] = row
                break
            vain += 1
            row = np.int64(older[row]) - base
        if vain > most:
            return False
    return True


@compiled
def repeated(
    first: int,
    own: Any,
    starts: Any,
    ends: Any,
    latest: Any,
    older: Any,
    base: int,
    most: int,
    enough: int,
    found: Any,
) -> int:
    """Rows from `first` on that meet a row before them of the same code: how many, at most so many as are enough.

    -1 where `first_matches` is False.
    """
    vain = count = 0
    for place in range(first, len(own)):
        row = np.int64(older[place]) - base
        while row >= 0 and latest[row >> BLOCK_BITS] > starts[place]:
            if own[row] == own[place] and starts[row] < ends[place] and ends[row] > starts[place]:
                found[count] = place
                count += 1
                break
            vain += 1
            row = np.int64(older[row]) - base
        if count >= enough:
            return count
        if vain > most:
            return -1
    return count


@compiled
def count_matches(
    codes: Any,
    begin: Any,
    end: Any,
    first: Any,
    own: Any,
    starts: Any,
    ends: Any,
    latest: Any,
    older: Any,
    base: int,
    most: int,
    counts: Any,
) -> int:
    """For each code how many rows match, from its first match on; the sum, or -1 as where `first_matches` is False."""
    vain = total = 0
    for place in range(len(codes)):
        row = first[place]
        matches = 0
        if row >= 0:  # which is known to match
            matches = 1
            row = np.int64(older[row]) - base
        while row >= 0 and latest[row >> BLOCK_BITS] > begin[place]:
            if own[row] == codes[place] and starts[row] < end[place] and ends[row] > begin[place]:
                matches += 1
            else:
                vain += 1
            row = np.int64(older[row]) - base
        counts[place] = matches
        total += matches
        if vain > most:
            return -1
    return total


@compiled
def list_matches(
    codes: Any,
    begin: Any,
    end: Any,
    first: Any,
    own: Any,
    starts: Any,
    ends: Any,
    older: Any,
    base: int,
    counts: Any,
    places: Any,
    rows: Any,
) -> None:
    """The matches that were counted: places of codes, ascending, and rows."""
    filled = 0
    for place in range(len(codes)):
        row = first[place]
        left = counts[place]
        known = True
        while left > 0:
            if known or (own[row] == codes[place] and starts[row] < end[place] and ends[row] > begin[place]):
                places[filled] = place
                rows[filled] = row
                filled += 1
                left -= 1
                known = False
            row = np.int64(older[row]) - base


@compiled
def _block_of(code: Any, blocks: Any) -> Any:
    """The block of a code in a filter, and 64 bits of which six times eight say where in it: see `CodeFilter`."""
    hashed = np.uint64(code)
    hashed ^= hashed >> np.uint64(30)
    hashed *= np.uint64(0xBF58476D1CE4E5B9)
    hashed ^= hashed >> np.uint64(27)
    hashed *= np.uint64(0x94D049BB133111EB)
    hashed ^= hashed >> np.uint64(31)
    block = np.int64((hashed >> np.uint64(32)) * blocks >> np.uint64(32))
    hashed ^= hashed >> np.uint64(29)
    return block, (hashed * _MIX) >> np.uint64(16)


@compiled
def fill_filter(codes: Any, words: Any) -> None:
    """Set the bits of codes."""
    blocks = np.uint64(len(words) >> 2)
    for place in range(len(codes)):
        block, bits = _block_of(codes[place], blocks)
        for _ in range(6):
            at = (block << 2) + np.int64(bits >> np.uint64(6) & np.uint64(3))
            words[at] |= np.uint64(1) << (bits & np.uint64(63))
            bits >>= np.uint64(8)


@compiled
def test_filter(codes: Any, words: Any, found: Any) -> None:
    """Whether all bits of each code are set."""
    blocks = np.uint64(len(words) >> 2)
    for place in range(len(codes)):
        block, bits = _block_of(codes[place], blocks)
        all_set = True
        for _ in range(6):
            at = (block << 2) + np.int64(bits >> np.uint64(6) & np.uint64(3))
            if words[at] & (np.uint64(1) << (bits & np.uint64(63))) == 0:
                all_set = False
                break
            bits >>= np.uint64(8)
        found[place] = all_set
