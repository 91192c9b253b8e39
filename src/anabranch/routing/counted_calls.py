"""The calls of the filters on one chunk: counted, timed, and with failures kept apart from rejections.

>>> from anabranch.ordering.pipeline import Verdict
>>> tally = Tally.empty(1)
>>> calls = CountedCalls(lambda f, rows: Verdict(rows > 1, {0: "no number"}), tally, ProcessingTimes(1))
>>> calls(0, np.array([0, 1, 2])).tolist()
[True, False, True]
>>> calls.outcome(np.array([0, 2]))
Outcome(survivors=array([2]), failures=(Failure(row=0, filter=0, message='no number'),), decisions=())
>>> tally.seen.tolist(), tally.passed.tolist(), tally.errors.tolist()
([3], [1], [1])
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple

import numpy as np

from anabranch.model.arrays import Mask, Rows
from anabranch.ordering.pipeline import Evaluate, Outcome, Tally, outcome_of
from anabranch.stats.processing_times import ProcessingTimes


class CountedCalls:
    """Asks `evaluate`, and lets rows on which a filter fails go on: another one may still reject them.

    Parameters
    ----------
    evaluate
        Judges rows of the chunk.
    tally, times
        What counts and times are added to.
    clock
        A monotonic clock in seconds.

    Attributes
    ----------
    seconds
        Of the last call.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        tally: Tally,
        times: ProcessingTimes,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._evaluate, self._tally, self._times, self._clock = evaluate, tally, times, clock
        self._failures: dict[int, tuple[int, str]] = {}
        self.seconds = 0.0

    def __call__(self, f: int, rows: Rows) -> Mask:
        """Which of the rows filter `f` does not reject."""
        began = self._clock()
        verdict = self._evaluate(f, rows)
        self.seconds = self._clock() - began
        self._times.record(f, self.seconds, len(rows))
        if verdict.bill is not None:
            self._tally.bills[f] += astuple(verdict.bill)
        passed, failures = verdict.passed, verdict.failures or {}
        if failures:
            passed = passed.copy()
            passed[list(failures)] = True
            for at, message in failures.items():
                row = int(rows[at])
                self._failures[row] = min(self._failures.get(row, (f, message)), (f, message), key=lambda each: each[0])
        self._count(f, len(rows), int(np.count_nonzero(passed)), len(failures))
        return passed

    def outcome(self, survivors: Rows) -> Outcome:
        """What became of the chunk, given the rows that no filter rejected, ascending."""
        return outcome_of(survivors, self._failures)

    def _count(self, f: int, rows: int, kept: int, errors: int) -> None:
        tally = self._tally
        tally.seen[f] += rows
        tally.calls[f] += rows
        tally.passed[f] += kept - errors
        tally.errors[f] += errors
        tally.seconds[f] += self.seconds
