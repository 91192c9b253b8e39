"""The events of a tick, sorted by group and time, make *steps*.

There is one step for what was before, and one for every instant at which a group changes. Whatever can be summed up is
then a running sum over the events, read off at the steps.

>>> steps = Steps.of(slots=np.array([4, 7, 4]), times=np.array([20, 10, 10]))
>>> steps.slots.tolist(), steps.times[steps.times > EVER].tolist()
([4, 7], [10, 20, 10])
>>> steps.running(np.array([1, 1, 1])[steps.order], held=np.array([5, 0])).tolist()
[5, 6, 7, 0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.operators.base import EVER, FOREVER, Micros
from anabranch.operators.elements import Flags, Rows


@dataclass(frozen=True)
class Steps:
    """The events of a tick by group and time, and the steps that they make.

    Parameters
    ----------
    order
        Places of the events, by slot and time.
    slots
        Groups with events, ascending.
    owner
        Per step the place of its group in `slots`.
    times
        Per step its instant; `EVER` for the step of each group that stands for what was before.
    first
        Per group the place of its first event in `order`.
    last
        Per step the number of events in `order` up to its end.
    initial, final
        Per group its first and last step.
    """

    order: Rows
    slots: Rows
    owner: Rows
    times: Micros
    first: Rows
    last: Rows
    initial: Rows
    final: Rows

    @classmethod
    def of(cls, slots: Rows, times: Micros) -> Steps:
        """The steps of events."""
        order = ordering(slots, times)
        slots, times = slots[order], times[order]
        opens = starts_of(slots)
        instants = np.flatnonzero(opens | starts_of(times))
        first = np.flatnonzero(opens)
        group = np.cumsum(opens)[instants] - 1
        initial = np.flatnonzero(opens[instants]) + np.arange(len(first))
        owner = np.insert(group, initial - np.arange(len(first)), np.arange(len(first)))
        last = np.insert(ends_of(instants, len(order)), initial - np.arange(len(first)), first)
        when = np.insert(times[instants], initial - np.arange(len(first)), EVER)
        return cls(order, slots[first], owner, when, first, last, initial, ends_of(initial, len(owner)) - 1)

    def running(self, changes: Rows, held: Rows) -> Rows:
        """Per step the sum of what its group held before and of the changes so far, which are in `order`."""
        total = np.concatenate((np.zeros(1, np.int64), np.cumsum(changes)))
        return np.asarray(total[self.last] + (held - total[self.first])[self.owner])

    def elements(self, weight: Rows, changed: Flags) -> tuple[Rows, Micros, Micros, Rows]:
        """Elements for the steps with a change: the step of each element, its start, end and weight."""
        kept = changed.copy()
        kept[self.initial] = True
        at = np.flatnonzero(kept)
        times, weight = self.times[at], weight[at]
        until = np.full(len(at), FOREVER)
        follows = np.flatnonzero(self.owner[at][1:] == self.owner[at][:-1])
        until[follows] = times[follows + 1]
        before = times == EVER
        start, end = np.where(before, until, times), np.where(before, FOREVER, until)
        shown = np.flatnonzero((weight != 0) & (start < FOREVER))
        return at[shown], start[shown], end[shown], np.where(before, -weight, weight)[shown]


def ordering(*columns: Rows) -> Rows:
    """Places that sort rows by columns, the first one first; ties come in any order."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    lowest = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    if np.prod(spans, dtype=object) < 2**63:
        mixed = np.zeros(len(columns[0]), np.int64)
        for column, low, span in zip(columns, lowest, spans, strict=True):
            mixed = mixed * span + (column - low)
        return np.asarray(np.argsort(mixed))
    widest = spans.index(max(spans))
    if max(spans) <= len(columns[0]):
        return np.asarray(np.lexsort(columns[::-1]))
    ranks = np.unique(columns[widest], return_inverse=True)[1]
    return ordering(*columns[:widest], ranks, *columns[widest + 1 :])


def starts_of(values: Rows) -> Flags:
    """Where a value differs from the one before it."""
    return np.concatenate((np.ones(min(1, len(values)), np.bool_), values[1:] != values[:-1]))


def ends_of(starts: Rows, size: int) -> Rows:
    """Where runs end that begin at these places."""
    return np.append(starts[1:], size)[: len(starts)]
