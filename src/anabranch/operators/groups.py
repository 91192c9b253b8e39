"""Numbers for keys, and changes that wait for their time: what operators share that count by key.

Every key in use has a *slot*, a small number under which an operator holds its totals. An element is two events, its
start and its end; those of the future wait, sorted by time, so that a tick costs what is due in it.

>>> groups = Groups()
>>> groups.find(np.array([5, 9, 5, 5]), pa.table({"city": ["Oslo", "Rome", "Oslo", "Lima"]})).tolist()
[0, 2, 0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.joins.sorted_runs import search
from anabranch.operators.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT, Tick
from anabranch.operators.elements import (
    KEY,
    Flags,
    Rows,
    concat,
    ints,
    take,
    with_ints,
    without,
)
from anabranch.operators.key_lookup import find_keys, number_keys
from anabranch.operators.pending_events import PendingEvents

GROUP = "_group"
MOST_CHUNKS = 32
SPARE_KEYS = 1024

Array = TypeVar("Array", bound=npt.NDArray[Any])
SlotNumbers: TypeAlias = npt.NDArray[np.int32]  # held per group, so they are short


class Groups:
    """Slots for keys, found by the codes of the keys; keys whose codes collide have slots of their own."""

    def __init__(self) -> None:
        self._codes: Rows = np.empty(0, np.int64)
        self._slots: SlotNumbers = np.empty(0, np.int32)
        self._rows: SlotNumbers = np.empty(0, np.int32)
        self._free: SlotNumbers = np.empty(0, np.int32)
        self._keys: pa.Table | None = None
        self.capacity = 0

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        arrays = (self._codes, self._slots, self._rows, self._free)
        return sum(array.nbytes for array in arrays) + (self._keys.nbytes if self._keys is not None else 0)

    def find(self, codes: Rows, keys: pa.Table) -> Rows:
        """The slots of keys; new keys get one."""
        number, first = number_keys(codes, keys)
        wanted = codes[first]
        candidates = search(self._codes, self._slots, wanted)
        found = find_keys(len(first), candidates, lambda asked: take(keys, first[asked]), self.keys)
        new = np.flatnonzero(found < 0)
        if len(new):
            new = new[np.argsort(wanted[new])]
            found[new] = self._enter(wanted[new], _without_minus_zero(take(keys, first[new])))
        return np.asarray(found[number])

    def keys(self, slots: Rows | SlotNumbers) -> pa.Table:
        """The keys of slots."""
        return take(self._keys, self._rows[slots].astype(np.int64))

    def drop(self, slots: Rows) -> None:
        """Forget keys; their slots will be used again."""
        if not len(slots):
            return
        dropped = np.zeros(self.capacity, np.bool_)
        dropped[slots] = True
        kept = ~dropped[self._slots]
        self._codes, self._slots = self._codes[kept], self._slots[kept]
        self._free = np.concatenate((self._free, slots.astype(np.int32)))
        if self._keys is not None and len(self._keys) > 2 * len(self) + SPARE_KEYS:
            self._keys = self.keys(self._slots)
            self._rows[self._slots] = np.arange(len(self))

    def snapshot(self) -> tuple[Rows, pa.Table]:
        """Slots, and codes and keys in the same order."""
        keys = self.keys(self._slots) if self._keys is not None else pa.table({})
        slots = self._slots.astype(np.int64)
        return slots, with_ints(keys, {KEY: self._codes, GROUP: slots})

    def restore(self, table: pa.Table) -> Rows:
        """Take over a snapshot; the slots in the order of the table."""
        self._codes, self._slots = ints(table, KEY).copy(), ints(table, GROUP).astype(np.int32)
        self._keys = without(table, (KEY, GROUP)) if len(table) else None
        self.capacity = int(self._slots.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self.capacity, dtype=np.int32), self._slots)
        self._rows = np.zeros(self.capacity, np.int32)
        self._rows[self._slots] = np.arange(len(self))
        return ints(table, GROUP)

    def _enter(self, codes: Rows, keys: pa.Table) -> SlotNumbers:
        reused = self._free[len(self._free) - min(len(codes), len(self._free)) :]
        self._free = self._free[: len(self._free) - len(reused)]
        new = np.arange(self.capacity, self.capacity + len(codes) - len(reused), dtype=np.int32)
        slots = np.concatenate((reused, new))
        self.capacity = max(self.capacity, int(slots.max()) + 1)
        self._rows = grown(self._rows, self.capacity)
        self._rows[slots] = np.arange(len(codes)) + (len(self._keys) if self._keys is not None else 0)
        self._keys = keys if self._keys is None else pa.concat_tables([self._keys, keys])
        if self._keys.column(0).num_chunks > MOST_CHUNKS:
            self._keys = concat([self._keys])
        place = np.searchsorted(self._codes, codes)
        self._codes, self._slots = np.insert(self._codes, place, codes), np.insert(self._slots, place, slots)
        return slots


class GroupEvents:
    """Groups, and the events of the future that name them."""

    def __init__(self) -> None:
        self.groups = Groups()
        self._pending = PendingEvents()
        self._uses: SlotNumbers = np.empty(0, np.int32)

    @property
    def waiting(self) -> int:
        """Events of the future."""
        return len(self._pending)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        return int(self.groups.nbytes + self._uses.nbytes + self._pending.nbytes)

    def due(self, arrivals: Sequence[tuple[pa.Table, pa.Table]], tick: Tick) -> pa.Table:
        """The events of a tick: what they carry, and `_time`, `_weight` and `_group`.

        An arrival is a table of elements with codes, whose other columns are carried, and a table of its keys.
        """
        now, until = max(tick.start, EVER if tick.origin is None else tick.origin), tick.until
        if tick.origin is None or tick.origin >= until:
            until = EVER - 1
        waited = self._pending.pop(until)
        for table in waited:
            self._count(ints(table, GROUP), -1)
        events = concat([*(event for arrival in arrivals for event in self._arrive(*arrival, until)), *waited])
        return with_ints(events, {TIME: np.maximum(ints(events, TIME), now)})

    def release(self, slots: Rows) -> None:
        """Forget groups that are empty, but for those that will be named again."""
        self.groups.drop(slots[self._uses[slots] == 0])

    def snapshot(self) -> tuple[Rows, pa.Table, pa.Table | None]:
        """Slots, the groups in their order, and the events of the future."""
        slots, groups = self.groups.snapshot()
        return slots, groups, self._pending.table()

    def restore(self, groups: pa.Table, events: pa.Table | None) -> Rows:
        """Take over a snapshot; the slots in the order of the groups."""
        slots = self.groups.restore(groups)
        self._uses = np.zeros(self.groups.capacity, np.int32)
        if events is not None:
            self._wait(events)
        return slots

    def _arrive(self, table: pa.Table, keys: pa.Table, until: int) -> list[pa.Table]:
        lasting = ints(table, START) < ints(table, END)
        if not lasting.all():
            table, keys = take(table, np.flatnonzero(lasting)), take(keys, np.flatnonzero(lasting))
        slots = self.groups.find(ints(table, KEY), keys)
        self._uses = grown(self._uses, self.groups.capacity)
        carried = with_ints(without(table, (*ELEMENT, KEY)), {GROUP: slots})
        start, end, weight = (ints(table, name) for name in (START, END, WEIGHT))
        events = []
        for times, weights in ((start, weight), (end, -weight)):
            event = with_ints(carried, {TIME: times, WEIGHT: weights})
            self._wait(_where(event, (times >= until) & (times < FOREVER)))
            events.append(_where(event, times < until))
        return events

    def _wait(self, table: pa.Table) -> None:
        self._count(ints(table, GROUP), 1)
        self._pending.push(table)

    def _count(self, slots: Rows, sign: int) -> None:
        self._uses += sign * np.bincount(slots, minlength=len(self._uses))


def grown(array: Array, capacity: int) -> Array:
    """The array with zeros at the end of its last axis, and some more than asked for."""
    held = array.shape[-1]
    if held >= capacity:
        return array
    widths = [(0, 0)] * (array.ndim - 1) + [(0, max(capacity, 2 * held) - held)]
    return np.pad(array, widths)  # type: ignore[return-value]


def _without_minus_zero(keys: pa.Table) -> pa.Table:
    """Zeros are one key; how it looks must not depend on which of them came first."""
    for place, (name, column) in enumerate(zip(keys.column_names, keys.columns, strict=True)):
        if pa.types.is_floating(column.type):
            keys = keys.set_column(place, name, pc.add(column, pa.scalar(0.0, column.type)))
    return keys


def _where(table: pa.Table, chosen: Flags) -> pa.Table:
    return table if chosen.all() else take(table, np.flatnonzero(chosen))
