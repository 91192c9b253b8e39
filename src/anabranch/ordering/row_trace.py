"""What became of single rows: which filters judged them, in which order, what they said and how long that took.

A few rows of some chunks are watched from outside: `evaluate` is wrapped, and neither the pipeline nor the filters see
any of it. So the rows that pass, and all counts, are the same with and without.

>>> import numpy as np
>>> from anabranch.ordering.pipeline import Verdict
>>> clock = iter([0.0, 0.4, 1.0, 1.1])
>>> watch = ChunkWatch(rows=[1, 3], clock=lambda: next(clock))
>>> judge = watch.over(lambda f, rows: Verdict(rows > 1))
>>> _ = judge(0, np.arange(4)), judge(1, np.array([2, 3]))
>>> watch.calls[1]
[TracedCall(filter=0, verdict='dropped', seconds=0.1, rows=4, profiling=False)]
>>> [call.filter for call in watch.calls[3]]
[0, 1]

Notes
-----
Filters are called on many rows at once, so that the time of a verdict is a mean over the rows of its call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anabranch.model.arrays import Rows
from anabranch.ordering.pipeline import Evaluate, Verdict

Said = Literal["passed", "dropped", "failed"]


@dataclass(frozen=True)
class TracedCall:
    """What a filter said about a row.

    Parameters
    ----------
    filter
        Its number, as written.
    verdict
        What it said; a row on which it failed is judged by the others.
    seconds
        Of the call, per row.
    rows
        Of the call.
    profiling
        Whether the row had been dropped before, and was tried on this filter for the statistics.
    """

    filter: int
    verdict: Said
    seconds: float
    rows: int
    profiling: bool


class ChunkWatch:
    """Notes what filters say about some rows of one chunk.

    Parameters
    ----------
    rows
        Their numbers.
    clock
        A monotonic clock in seconds.

    Attributes
    ----------
    calls
        By row, in the order in which filters were called.
    """

    def __init__(self, rows: Sequence[int], clock: Callable[[], float] = time.perf_counter) -> None:
        self.calls: dict[int, list[TracedCall]] = {row: [] for row in rows}
        self._clock = clock

    def over(self, evaluate: Evaluate) -> Evaluate:
        """The same judge, watched."""

        def judge(f: int, rows: Rows) -> Verdict:
            began = self._clock()
            verdict = evaluate(f, rows)
            self._note(f, rows, verdict, self._clock() - began)
            return verdict

        return judge

    def _note(self, f: int, rows: Rows, verdict: Verdict, seconds: float) -> None:
        failures = verdict.failures or {}
        for row, calls in self.calls.items():
            for at in np.flatnonzero(rows == row):
                said: Said = "failed" if int(at) in failures else "passed" if verdict.passed[at] else "dropped"
                dropped = any(call.verdict == "dropped" for call in calls)
                calls.append(TracedCall(f, said, seconds / len(rows), len(rows), dropped))


class RowSampler:
    """Says which rows of a chunk are watched.

    Parameters
    ----------
    share
        Of all rows, on average.
    most
        Of one chunk.
    seed
        Of the choice.
    """

    def __init__(self, share: float, most: int, seed: int = 0) -> None:
        self._share, self._most = share, most
        self._rng = np.random.default_rng(seed)

    def watch(self, rows: int) -> ChunkWatch | None:
        """Watches some rows of a chunk; None if it is none of them.

        >>> RowSampler(0.5, most=3).watch(1000).calls.keys() <= set(range(1000))
        True
        >>> RowSampler(0.0, most=3).watch(1000) is None
        True
        """
        wanted = min(int(self._rng.binomial(rows, self._share)), self._most)
        if not wanted:
            return None
        return ChunkWatch(np.sort(self._rng.choice(rows, wanted, replace=False)).tolist())
