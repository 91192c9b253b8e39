"""What streams have shown: how far behind that rows come, the skews that follow from it, and who is behind whom.

A delay counts from what earlier batches have shown, since time is closed only after a batch. While the backlog of a
stream comes, nothing is late, and no delay is counted.

With every batch its stream is compared with the most advanced of the others: answers that need both wait for it.

Notes
-----
After the input manager of STREAM (thesis, sections 2.2.5 and 6.1.4), which monitors how far streams are out of order.
delta_ij, the skew bound between two streams -> how far j is `behind` whichever i is most advanced. It is observed and
not relied on: what is complete follows from each stream alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from anabranch.engine.inputs import StreamInput
from anabranch.engine.manifest import Manifest, StreamState
from anabranch.stats.delays import Delays, followed

SUGGESTED_LATE = 0.001
"""The share of rows that the suggested skew would let come late."""

BEHIND_SHARE = 0.05
"""The share of batches that may be further behind the other streams than is told."""

Delayed = Sequence[tuple[int, int]]
"""Delays in microseconds, with how many rows had them."""


class Lateness:
    """Of all streams; callers see to it that batches are noted one at a time.

    Parameters
    ----------
    manifest
        What has been committed: skews are kept there, delays are learned again by every engine.
    """

    def __init__(self, manifest: Manifest) -> None:
        states = manifest.streams.items()
        self._shown = {name: state.newest for name, state in states if state.newest is not None}
        self._skews = {name: state.skew for name, state in states if state.skew is not None}
        self._delays: defaultdict[str, Delays] = defaultdict(Delays)
        self._running: dict[str, int] = {}
        self._behind: defaultdict[str, Delays] = defaultdict(Delays)

    def shown(self, stream: str) -> int | None:
        """The largest time that a stream has shown."""
        return self._shown.get(stream)

    def skew(self, stream: StreamInput) -> int:
        """By how much rows of a stream may be out of order, as was said or learned."""
        return stream.skew if stream.late is None else self._skews.get(stream.name, stream.skew)

    def note(self, stream: str, rows: int, late: int, newest: int | None, delayed: Delayed) -> None:
        """Count the rows of a batch, in time and late ones, and the delays of those that had some."""
        delays = self._delays[stream]
        delays.add(0, rows + late - sum(count for _, count in delayed), late=late)
        for delay, count in delayed:
            delays.add(delay, count)
        if newest is not None:
            self._shown[stream] = max(newest, self._shown.get(stream, newest))

    def compare(self, stream: str, newest: int) -> None:
        """Count how far a stream is behind the most advanced of the others, now that a batch of it has come."""
        self._running[stream] = max(newest, self._running.get(stream, newest))
        others = [time for name, time in self._running.items() if name != stream]
        if others:
            self._behind[stream].add(max(0, max(others) - self._running[stream]))

    def follow(self, stream: StreamInput) -> None:
        """Let the skew of a stream follow what was noted, if that was asked for."""
        if stream.late is not None:
            self._skews[stream.name] = followed(self.skew(stream), self._delays[stream.name], stream.late)

    def tell(self, stream: str, state: StreamState) -> None:
        """Write into the state of a stream what is known of its delays."""
        delays = self._delays[stream]
        enough = delays.rows * SUGGESTED_LATE >= 1
        suggested = delays.skew_for(SUGGESTED_LATE)
        state.suggested_skew = suggested if enough else max(suggested, state.suggested_skew)
        state.largest_delay = max(delays.largest, state.largest_delay)
        state.skew = self._skews.get(stream)
        behind = self._behind.get(stream)
        if behind is not None:
            state.behind = behind.skew_for(BEHIND_SHARE)
            state.largest_behind = max(behind.largest, state.largest_behind)

    def forget(self, stream: str) -> None:
        """A stream is gone."""
        self._shown.pop(stream, None)
        self._skews.pop(stream, None)
        self._delays.pop(stream, None)
        self._running.pop(stream, None)
        self._behind.pop(stream, None)
