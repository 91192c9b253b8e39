"""The seed of random cases: another one every day, printed at the head of a run, and settable to repeat it."""

from __future__ import annotations

import os
import time

VARIABLE = "ANABRANCH_SEED"
SECONDS_PER_DAY = 86_400


def daily_seed() -> int:
    """The seed of today: `ANABRANCH_SEED` if that is set, else the number of days since 1970."""
    return int(os.environ.get(VARIABLE) or time.time() // SECONDS_PER_DAY)


def drawn(count: int) -> range:
    """As many numbers of cases as asked for, other ones every day; the first ones stay the same as more are drawn."""
    first = daily_seed() * 1_000_000
    return range(first, first + count)
