"""The bags of values of groups: minima, maxima and quantiles at every step, and which values are there at all.

All values that a group holds are kept, sorted, with how often they are there. A tick changes some of them. The wanted
value at a step is the one at which the counts, summed up in order of the values, reach a target; it is found by halving
the sorted values again and again, for all steps together. What the events have changed in the lower half is read off
running sums over those events that concern it: the events are divided along with the values (a wavelet tree over the
values that change, and plain sums for those between them). So a tick costs about events x log(events of a group).

>>> bag = Bag(pa.int64())
>>> steps = Steps.of(np.zeros(3, np.int64), times=np.array([10, 20, 30]))
>>> change = bag.add(pa.array([5, 9, 9]), np.array([1, 2, -2]), steps)
>>> change.at(np.array([0, 1, 3, 1])).to_array(np.arange(4)).to_pylist()
[None, 5, 9, 5]

Notes
-----
Values are compared as 64-bit integers: numbers, dates and times are mapped to integers in the same order (NaN is the
greatest number), and other types to their ranks among all values that are held.

References
----------
F. Claude, G. Navarro, A. Ordóñez, *The wavelet matrix: an efficient wavelet tree for large alphabets*, Information
Systems 47, 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.elements import Flags, Rows, ints
from anabranch.operators.exact_sums import from_halves, halves
from anabranch.operators.groups import GROUP
from anabranch.operators.steps import Steps, ends_of, ordering, starts_of

SPARE_VALUES = 1024
LARGEST = 2**63 - 1
LONG_DIGITS = 18


class Integers:
    """Values of a type that fits 64 bits as integers in the same order."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.nbytes = 0
        self._bits = pa.int32() if pa.types.is_temporal(kind) and kind.bit_width == 32 else pa.int64()

    def encode(self, array: pa.Array) -> Rows:
        """Integers for values without NULLs."""
        if pa.types.is_floating(self.kind):
            values = array.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
            bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
            return np.asarray(bits ^ ((bits >> 63) & LARGEST))
        if pa.types.is_decimal(self.kind):
            return halves(array)[0]
        plain = array.view(self._bits) if pa.types.is_temporal(self.kind) else array
        return np.asarray(plain.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def decode(self, keys: Rows, missing: Flags | None = None) -> pa.Array:
        """Values for integers, or NULL."""
        if pa.types.is_floating(self.kind):
            return pa.array((keys ^ ((keys >> 63) & LARGEST)).view(np.float64), mask=missing).cast(self.kind)
        if pa.types.is_decimal(self.kind):
            return from_halves(keys, keys >> 63, self.kind.scale, missing).cast(self.kind)
        plain = pa.array(keys, mask=missing).cast(self._bits)
        return plain.view(self.kind) if pa.types.is_temporal(self.kind) else plain.cast(self.kind)


class Ranks:
    """Values of any type with an order as their ranks among those that have been seen."""

    def __init__(self, kind: pa.DataType) -> None:
        self.values = pa.array([], kind)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory."""
        return int(self.values.nbytes)

    def learn(self, array: pa.Array, held: Rows) -> Rows:
        """Make sure that values without NULLs have a rank; return what the ranks that are held have become."""
        if len(self.values) > 2 * len(held) + SPARE_VALUES:
            kept, held = np.unique(held, return_inverse=True)
            self.values = self.values.take(pa.array(kept))
        new = array.unique()
        new = new.filter(pc.invert(pc.is_in(new, value_set=self.values)))
        if not len(new):
            return held
        both = pa.concat_arrays([self.values, new])
        order = pc.sort_indices(both)
        rank = np.empty(len(both), np.int64)
        rank[order.to_numpy()] = np.arange(len(both))
        self.values = both.take(order)
        return np.asarray(rank[held])

    def encode(self, array: pa.Array) -> Rows:
        """The ranks of values."""
        return np.asarray(pc.index_in(array, value_set=self.values).to_numpy(zero_copy_only=False), dtype=np.int64)

    def decode(self, keys: Rows, missing: Flags | None = None) -> pa.Array:
        """Values by their ranks, or NULL."""
        return self.values.take(pa.array(keys, mask=missing))


@dataclass(frozen=True)
class Picked:
    """A value per step, or NULL."""

    keys: Rows
    missing: Flags
    code: Integers | Ranks

    def to_array(self, at: Rows) -> pa.Array:
        """The values at some steps."""
        return self.code.decode(self.keys[at], self.missing[at])


@dataclass(frozen=True)
class Held:
    """Slots, values and counts, by slot and value."""

    slots: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    keys: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    def search(self, slots: Rows, owner: Rows, keys: Rows) -> tuple[Rows, Rows, Rows]:
        """Where the values of slots begin and end, and where the keys of their owners are among them, or would be."""
        first, last = np.searchsorted(self.slots, slots, "left"), np.searchsorted(self.slots, slots, "right")
        if len(slots) == 1:
            return first, last, first[0] + np.searchsorted(self.keys[first[0] : last[0]], keys)
        low, high = first[owner], last[owner]
        for _ in range(int((last - first).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            less = (low < high) & (self.keys[np.minimum(middle, len(self.keys) - 1)] < keys)
            low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
        return first, last, low


class Bag:
    """The values of every group, with how often they are there.

    Parameters
    ----------
    kind
        Of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self._kind = kind
        self._code: Integers | Ranks = Integers(kind) if _fits_long(kind) else Ranks(kind)
        self._held = Held()

    def __len__(self) -> int:
        return len(self._held.slots)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        return 3 * self._held.slots.nbytes + self._code.nbytes

    def add(self, values: pa.Array, weights: Rows, steps: Steps) -> Change:
        """Add what the events bring, in the order of the steps; NULLs do not count."""
        kept = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) & (weights != 0))
        keys = self._encoded(values.take(pa.array(kept)).cast(self._kind))
        change = Change.of(self._held, self._code, steps, kept, keys, weights)
        self._held = change.applied()
        return change

    def snapshot(self) -> pa.Table:
        """Slots, values and counts."""
        held = self._held
        return pa.table({GROUP: held.slots, "value": self._code.decode(held.keys), "count": held.counts})

    def restore(self, table: pa.Table) -> None:
        """Set the state to that of a snapshot."""
        keys = self._encoded(table["value"].combine_chunks())
        self._held = Held(ints(table, GROUP), keys, ints(table, "count"))

    def _encoded(self, array: pa.Array) -> Rows:
        if isinstance(self._code, Ranks):
            self._held = replace(self._held, keys=self._code.learn(array, self._held.keys))
        return self._code.encode(array)


@dataclass(frozen=True)
class Change:
    """What the events of a tick did to the values that they name; by group and value, if not noted otherwise.

    Parameters
    ----------
    steps, held, code
        The steps, what was held before, and how to read it.
    kept, weights
        Places of the events with a value, in the order of the steps, and the weights of all events.
    order
        Places in `kept`, by group, value and time; `begins` and `ends` are where a value's events are in it.
    owner, keys
        The group's place in the steps, and the value.
    place, known
        Where it is, or would be, among what was held, and whether it was there.
    before, after
        How often it is there.
    first, last
        Per group where its values are among what was held.
    """

    steps: Steps
    held: Held
    code: Integers | Ranks
    kept: Rows
    weights: Rows
    order: Rows
    begins: Rows
    ends: Rows
    owner: Rows
    keys: Rows
    place: Rows
    known: Flags
    before: Rows
    after: Rows
    first: Rows
    last: Rows

    @classmethod
    def of(
        cls, held: Held, code: Integers | Ranks, steps: Steps, kept: Rows, event_keys: Rows, weights: Rows
    ) -> Change:
        """Sort the events by group, value and time, and look their values up."""
        groups = np.searchsorted(steps.first, kept, "right") - 1
        order = ordering(groups, event_keys, kept)
        begins = np.flatnonzero(starts_of(groups[order]) | starts_of(event_keys[order]))
        ends = ends_of(begins, len(order))
        owner, keys = groups[order[begins]], event_keys[order[begins]]
        first, last, place = held.search(steps.slots, owner, keys)
        known = place < last[owner]
        known[known] = held.keys[place[known]] == keys[known]
        before = np.zeros(len(place), np.int64)
        before[known] = held.counts[place[known]]
        total = _sums(weights[kept[order]])
        after = before + total[ends] - total[begins]
        found = (owner, keys, place, known, before, after, first, last)
        return cls(steps, held, code, kept, weights, order, begins, ends, *found)

    def applied(self) -> Held:
        """What is held afterwards."""
        counts = self.held.counts.copy()
        counts[self.place[self.known]] = self.after[self.known]
        kept = counts > 0
        new = np.flatnonzero(~self.known & (self.after > 0))
        place = self.place[new] - np.searchsorted(np.flatnonzero(~kept), self.place[new])
        slots = np.insert(self.held.slots[kept], place, self.steps.slots[self.owner[new]])
        keys = np.insert(self.held.keys[kept], place, self.keys[new])
        return Held(slots, keys, np.insert(counts[kept], place, self.after[new]))

    def presence(self) -> Rows:
        """Per event 1 where its value appears in the group, -1 where it goes; for one of the events of an instant."""
        events = self.kept[self.order]
        instant = np.searchsorted(self.steps.last, events, "right")
        value = np.repeat(np.arange(len(self.begins)), self.ends - self.begins)
        final = np.flatnonzero(np.append(starts_of(instant) | starts_of(value), True)[1:])[: len(events)]
        total, value = _sums(self.weights[events]), value[final]
        there = self.before[value] + total[final + 1] - total[self.begins[value]] > 0
        earlier = np.concatenate((there[:1], there[:-1]))
        opens = starts_of(value)
        earlier[opens] = self.before[value[opens]] > 0
        out = np.zeros(len(self.weights), np.int64)
        out[events[final]] = there.astype(np.int64) - earlier
        return out

    def at(self, targets: Rows) -> Picked:
        """Per step the least value up to which there are `targets` values; NULL where the target is 0."""
        owner, nodes = self.steps.owner, self._nodes
        left = np.maximum(targets, 1)
        node = np.zeros(len(left), np.int64)
        low, high = self._events_before[self.steps.first][owner], self._events_before[self.steps.last]
        base, most = self._bounds_at[owner], nodes[owner] + 1
        for half, zeros, changes in self._levels:
            held = self._bounds[base + np.minimum(node + half, most)] - self._bounds[base + np.minimum(node, most)]
            held += changes[high] - changes[low]
            upper = left > held
            left = np.where(upper, left - held, left)
            node += np.where(upper, half, 0)
            low = np.where(upper, zeros[-1] + low - zeros[low], zeros[low])
            high = np.where(upper, zeros[-1] + high - zeros[high], zeros[high])
        return self._picked(node, left, targets == 0)

    def _picked(self, node: Rows, left: Rows, missing: Flags) -> Picked:
        """The value in a node: one of those between two changing values, or the changing value at its end."""
        owner = self.steps.owner
        node = np.minimum(node, self._nodes[owner])
        start = self._bounds[self._bounds_at[owner] + node]
        changing = node < self._nodes[owner]
        value = np.where(changing, self._first_value[owner] + node, 0)
        keys = np.zeros(len(node), np.int64)
        keys[changing] = self.keys[value[changing]]
        gap = np.full(len(node), LARGEST)
        gap[changing] = self._held_before[self.place[value[changing]]] - start[changing]
        between = np.flatnonzero((left <= gap) & ~missing)
        keys[between] = self.held.keys[np.searchsorted(self._held_before, start[between] + left[between]) - 1]
        keys[missing] = 0
        return Picked(keys, missing, self.code)

    @cached_property
    def _held_before(self) -> Rows:
        return _sums(self.held.counts)

    @cached_property
    def _nodes(self) -> Rows:
        """Per group how many values change; node i is the i-th of them, and those between it and the one before."""
        return np.bincount(self.owner, minlength=len(self.steps.slots))

    @cached_property
    def _first_value(self) -> Rows:
        return np.asarray(np.cumsum(self._nodes) - self._nodes)

    @cached_property
    def _bounds_at(self) -> Rows:
        return np.asarray(np.cumsum(self._nodes + 2) - self._nodes - 2)

    @cached_property
    def _bounds(self) -> Rows:
        """Per group, how many values the bag held before each of its nodes, and before the end."""
        bounds = np.empty(len(self.keys) + 2 * len(self._nodes), np.int64)
        bounds[self._bounds_at] = self._held_before[self.first]
        bounds[self._bounds_at + self._nodes + 1] = self._held_before[self.last]
        inner = self._bounds_at[self.owner] + 1 + np.arange(len(self.keys)) - self._first_value[self.owner]
        bounds[inner] = self._held_before[self.place + self.known]
        return bounds

    @cached_property
    def _events_before(self) -> Rows:
        """How many events with a value there are before each place in the order of the steps."""
        chosen = np.zeros(len(self.weights), np.int64)
        chosen[self.kept] = 1
        return _sums(chosen)

    @cached_property
    def _levels(self) -> list[tuple[int, Rows, Rows]]:
        return list(self._divide())

    def _divide(self) -> Iterator[tuple[int, Rows, Rows]]:
        """Per level, from the top: half of the nodes of a part, and running sums of the events in lower halves."""
        node, weights = np.empty(len(self.order), np.int64), self.weights[self.kept]
        local = np.arange(len(self.keys)) - self._first_value[self.owner]
        node[self.order] = np.repeat(local, self.ends - self.begins)
        for level in reversed(range(int(self._nodes.max(initial=0)).bit_length())):
            lower = (node >> level) & 1 == 0
            yield 1 << level, _sums(lower), _sums(np.where(lower, weights, 0))
            stable = np.concatenate((np.flatnonzero(lower), np.flatnonzero(~lower)))
            node, weights = node[stable], weights[stable]


def _sums(values: Rows | Flags) -> Rows:
    """How much there is before each place, and before the end."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))


def _fits_long(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= LONG_DIGITS)
    return bool(pa.types.is_primitive(kind)) and not pa.types.is_uint64(kind)
