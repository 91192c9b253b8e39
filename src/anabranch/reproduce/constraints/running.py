"""Runs joins over the synthetic streams: memory as it goes, results per block, processor time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.constraint_set import Given
from anabranch.constraints.kmon import KMonJoin
from anabranch.constraints.windows import Rows
from anabranch.model.arrays import Counts, Floats
from anabranch.reproduce.constraints.streams import Feed

ROW_BYTES = 24
ENTRY_BYTES = 16
KILOBYTE = 1024
MICRO = 1e-6
OFF = ConstraintConfig("off", "tuples")


@dataclass(frozen=True)
class Run:
    """What a run showed, batch by batch: tuples so far, kilobytes, k in use; and where its results were made."""

    tuples: Counts
    kilobytes: Floats
    used: Floats
    results_at: Counts
    seconds: float
    estimated_missing: float

    @property
    def microseconds(self) -> float:
        """Per tuple, of processor time, over the last half."""
        return self.seconds / MICRO / (int(self.tuples[-1]) - int(self.tuples[len(self.tuples) // 2]))

    @property
    def late(self) -> float:
        """Kilobytes on average, over the last quarter."""
        return float(self.kilobytes[-len(self.kilobytes) // 4 :].mean())


def batches(feed: Feed, size: int) -> Iterator[Arrivals]:
    """The feed, so many tuples at a time."""
    taken = [0] * feed.graph.streams
    for first in range(0, len(feed.owner), size):
        owner = feed.owner[first : first + size]
        counts = np.bincount(owner, minlength=feed.graph.streams).tolist()
        rows = [each[t : t + c] for each, t, c in zip(feed.columns, taken, counts, strict=True)]
        taken = [t + c for t, c in zip(taken, counts, strict=True)]
        yield Arrivals.merged(owner, np.arange(first, first + len(owner)), rows, first)


def run(
    feed: Feed, window: int, batch: int, config: ConstraintConfig = OFF, known: Given | None = None, watched: int = 0
) -> Run:
    """Run a join with row windows; `watched` is the place of the constraint whose k is noted."""
    windows = [Rows(window)] * feed.graph.streams
    join = KMonJoin(feed.graph, windows, feed.widths, config, filters=feed.filters, given=known)
    tuples, kilobytes, used, results = [], [], [], []
    seconds, count = [], 0
    for each in batches(feed, batch):
        begin = time.process_time()
        results.append(join.advance(each).at)
        seconds.append(time.process_time() - begin)
        count += len(each.sigma)
        tuples.append(count)
        kilobytes.append(_bytes(join) / KILOBYTE)
        adherence = [constraint.adherence for constraint in join.constraints.all]
        used.append(adherence[watched].used if adherence and adherence[watched].usable else np.nan)
    half = len(seconds) // 2
    return Run(
        np.array(tuples),
        np.array(kilobytes),
        np.array(used),
        np.concatenate(results),
        sum(seconds[half + 1 :]),
        join.estimated_missing,
    )


def missing(truth: Run, found: Run, block: int, tuples: int) -> Floats:
    """Percent of the results of each block of tuples that were not found."""
    blocks = -(-tuples // block)
    expected = np.bincount(truth.results_at // block, minlength=blocks)
    there = np.bincount(found.results_at // block, minlength=blocks)
    return np.asarray(100 * (expected - there) / np.maximum(expected, 1))


def thinned(values: Sequence[float] | Floats | Counts, points: int = 60) -> list[float]:
    """At most about so many of the values, evenly."""
    step = max(1, len(values) // points)
    return [float(each) for each in values[::step]]


def _bytes(join: KMonJoin) -> int:
    return ROW_BYTES * join.held + ENTRY_BYTES * join.constraints.entries
