"""Rows that tasks sampled, until the driver's tuner asks for them."""

from __future__ import annotations

from collections import deque

from anabranch.model.arrays import Floats
from anabranch.routing.sampled_rows import JudgedSample, SampledRows
from anabranch.spark.filters.task_record import Kinds, Part, TaskRecord

RECENT_SAMPLES = 64


class SampleQueue:
    """Samples by stage and kind of input; the oldest make room."""

    def __init__(self) -> None:
        self._samples: dict[tuple[Part, Kinds], deque[SampledRows]] = {}

    def enter(self, record: TaskRecord) -> None:
        """Queue the rows that a task sampled."""
        if record.sample:
            place = record.part, record.kinds
            self._samples.setdefault(place, deque(maxlen=RECENT_SAMPLES)).append(record.sample)

    def take(self, part: Part, kinds: Kinds, costs: Floats) -> JudgedSample | None:
        """The rows sampled since the last call, with the predicates' costs in seconds."""
        found = self._samples.pop((part, kinds), None)
        return SampledRows.joined(found).with_costs(costs) if found else None

    def clear(self) -> None:
        """Drop all of them."""
        self._samples.clear()
