"""The part of the windows of a join that is on disk, because memory is limited.

A row of a window is either in memory or here. When memory gets short, the oldest rows of the window whose cold rows
were needed least go to disk (`cold_rows.py`). Before new rows look for partners, those rows on disk to which they lead
come back, for a moment, as if they had never left; if they would be too many, fewer new rows are served at a time. So
there is one way to join, whatever is where.

>>> from anabranch.joins.graph import tree_of
>>> trees = [tree_of(number, 2, [{0, 1}]) for number in range(2)]
>>> windows = [JoinWindow({0: name}, {0}, {(0,)}) for name in "nm"]
>>> element = {"_start": [1], "_end": [9], "_weight": [1]}
>>> for n in range(100):
...     _ = windows[0].append(pa.table({"n": [n], **element}))
>>> _ = windows[1].append(pa.table({"m": pa.array([], pa.int64()), **{name: [] for name in element}}))
>>> cold = ColdWindows(trees, windows)
>>> cold.limit = 2000  # too little for all, and more than nothing
>>> cold.make_room(1)
>>> before = len(windows[0])
>>> for part in cold.parts(1, pa.table({"m": [3], **element}), now=1):
...     print(windows[0].payload.table(before).to_pydict())
{'n': [3]}
>>> len(windows[0]) == before
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.joins.codes import mixed
from anabranch.joins.going_cold import WindowPart, next_to_go
from anabranch.joins.graph import ProbeTree
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask
from anabranch.operators.base import END, START, WEIGHT
from anabranch.operators.cold_rows import ColdRows
from anabranch.operators.elements import identities, ints, stacked, take
from anabranch.operators.join_window import JoinWindow

FULL = 0.8
"""The share of the limit that windows may take before some of them goes; the rest is for what comes back."""
LEFT = 0.6
"""Of that, what stays then: without indexes, which come again."""
BACK = 0.1
"""The share of the limit for rows that come back."""
SLICE = 0.1
"""The share for new rows that are served at once."""
SEGMENT = 1 / 32
"""The share that is written at once; where segments merge it is four times as much."""
FADING = 0.9
"""What counts of earlier ticks when it is asked which rows came back lately."""
LARGEST_SLICE = 1 << 20
LEAST_BYTES = 65_536
"""What is worth a step, of whatever kind: with less memory than that there is little use in files."""


class ColdWindows:
    """What is on disk of the windows of a join.

    Parameters
    ----------
    trees
        How new rows of each input reach the others.
    windows
        What is in memory.

    Attributes
    ----------
    limit
        Bytes for windows, for filters of what is on disk, and for what comes back; None if there is no limit.
    """

    def __init__(self, trees: Sequence[ProbeTree], windows: Sequence[JoinWindow]) -> None:
        self.limit: int | None = None
        self._trees, self._windows = trees, windows
        self._keys = [
            sorted({tree.keys[number] for tree in trees if tree.root != number}) for number in range(len(windows))
        ]
        self._cold = [ColdRows(each) for each in self._keys]
        self._came_back = [0.0] * len(windows)
        self._at_once = LARGEST_SLICE
        self._peak = 0

    def __len__(self) -> int:
        return sum(map(len, self._cold))

    @property
    def nbytes(self) -> int:
        """Bytes in memory: filters."""
        return sum(each.nbytes for each in self._cold)

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return sum(each.file_bytes for each in self._cold)

    @property
    def held_bytes(self) -> int:
        """Bytes in memory: windows and filters."""
        return self.nbytes + sum(each.nbytes for each in self._windows)

    def take_peak(self) -> int:
        """The most that was held since the last call."""
        taken, self._peak = max(self._peak, self.held_bytes), 0
        return taken

    def needed_for(self, more: int) -> bool:
        """Whether something is on disk, or would have to go if so many bytes came."""
        if self.limit is None and len(self):
            self._come_home()
        return self.limit is not None and (len(self) > 0 or self.held_bytes + more > FULL * self.limit)

    def _come_home(self) -> None:
        """Everything is in memory again."""
        for number, window in enumerate(self._windows):
            tables = list(self._cold[number].tables())
            self._cold[number] = ColdRows(self._keys[number])
            for table in tables:
                window.append(stacked([table]))

    def whole(self, number: int) -> pa.Table:
        """All rows of an input, oldest first; those on disk are not read before they are asked for."""
        hot = self._windows[number].table()
        return stacked([*(each.select(hot.column_names) for each in self._cold[number].tables()), hot])

    def expire(self, now: int) -> None:
        """Forget what does not matter from `now` on."""
        for each in self._cold:
            each.expire(now)
        self._came_back = [FADING * each for each in self._came_back]

    # -- what goes

    def make_room(self, now: int) -> None:
        """Put rows on disk if too many are in memory; what does not matter from `now` on is dropped before."""
        if self.limit is None or self.held_bytes <= FULL * self.limit:
            return
        self._note(self.held_bytes)
        for window in self._windows:
            window.settle()
            window.tidy(now)
            window.fit()
        while self.held_bytes > LEFT * FULL * self.limit:
            going = zip(self._windows, self._came_back, self._cold, strict=True)
            parts = [WindowPart(each.nbytes if len(each) else 0, back, len(cold)) for each, back, cold in going]
            number = next_to_go(parts)
            if number is None:
                return
            self._put_away(number)

    def _put_away(self, number: int) -> None:
        """The oldest rows of an input, as many as are written at once."""
        window, cold = self._windows[number], self._cold[number]
        at_once = max(1, self._bytes(SEGMENT) * len(window) // window.nbytes)
        oldest = window.take_oldest(min(at_once, len(window)))
        window.fit()
        self._note(self.held_bytes + 2 * oldest.nbytes)
        cold.most_rows = 4 * at_once
        cold.add(oldest, window.codes(oldest))

    def take_back(self, number: int, table: pa.Table) -> None:
        """Rows on disk that are taken back come into memory for good, where both are put together."""
        taking = table.filter(pa.array(ints(table, WEIGHT) < 0))
        if not len(taking) or not len(self._cold[number]):
            return
        key, window = self._keys[number][0], self._windows[number]
        codes = self._codes(number, taking, key)
        found = self._cold[number].take_out(key, codes, lambda rows: _equal_to_one(rows, taking))
        if found is not None:
            window.append(stacked([found]))

    # -- what comes back

    def parts(self, number: int, table: pa.Table, now: int) -> Iterator[pa.Table]:
        """New rows of an input, some at a time: as long as each part is looked at, the rows that it leads to are there.

        They are the last ones of their windows.
        """
        sizes = max(1, table.nbytes // max(len(table), 1))
        at, most = 0, self._bytes(BACK)
        while at < len(table):
            self.make_room(now)
            rows = max(1, min(self._bytes(SLICE) // sizes, self._at_once, len(table) - at))
            part = table if rows == len(table) else take(table, np.arange(at, at + rows))
            found = self._reached(number, part, most if rows > 1 else None)
            if found is None:
                self._at_once = rows // 2
                continue
            lengths = {other: len(self._windows[other]) for other in found}
            for other, back in found.items():
                self._windows[other].append(back, for_now=True)
                self._came_back[other] += len(back)
            coming = sum(each.nbytes for each in found.values())
            self._note(self.held_bytes + coming)
            del found
            self.take_back(number, part)
            yield part
            self._note(self.held_bytes)
            for other, length in lengths.items():
                self._windows[other].shorten(length)
            at += rows
            if coming < most // 4:
                self._at_once = min(2 * self._at_once, LARGEST_SLICE)

    def slices(self, table: pa.Table, now: int) -> Iterator[pa.Table]:
        """Rows of an input that look for no partners, some at a time."""
        sizes = max(1, table.nbytes // max(len(table), 1))
        rows = max(1, self._bytes(SLICE) // sizes)
        for at in range(0, len(table), rows):
            self.make_room(now)
            yield table if rows >= len(table) else take(table, np.arange(at, min(at + rows, len(table))))

    def _reached(self, number: int, table: pa.Table, most: int | None) -> dict[int, pa.Table] | None:
        """The rows on disk to which new rows lead, by input; None if they take more bytes than there may be."""
        tree, found, coming = self._trees[number], dict[int, pa.Table](), 0
        begin, end = (np.array([reach]) for reach in (ints(table, START).min(), ints(table, END).max()))
        waiting = [(number, {key: self._codes(number, table, key) for key in self._onward(tree, number)})]
        while waiting:
            here, codes = waiting.pop()
            for other in (each for each, parent in tree.parents.items() if parent == here):
                onward = self._onward(tree, other)
                if not onward and not len(self._cold[other]):
                    continue
                key, cold = tree.keys[other], self._cold[other]
                places = cold.places(key, codes[key])
                coming += sum(len(rows) for _, rows in places) * cold.file_bytes // max(len(cold), 1)
                if most is not None and coming > most:
                    return None
                back = cold.take(places)
                if back is not None:
                    found[other] = stacked([back])
                if onward:
                    waiting.append((other, self._near(other, key, np.unique(codes[key]), (begin, end), onward, back)))
        return found

    def _onward(self, tree: ProbeTree, here: int) -> list[Key]:
        """The keys by which rows of an input lead to others behind which something is on disk."""
        return [
            tree.keys[other]
            for other, parent in tree.parents.items()
            if parent == here and (len(self._cold[other]) or self._onward(tree, other))
        ]

    def _near(
        self,
        number: int,
        key: Key,
        wanted: Counts,
        interval: tuple[Counts, Counts],
        onward: Sequence[Key],
        back: pa.Table | None,
    ) -> dict[Key, Counts]:
        """The codes by which rows of an input, in memory and from disk, lead on."""
        store = self._windows[number].store
        begin, end = (np.repeat(each, len(wanted)) for each in interval)
        _, rows = store.matches(key, wanted, begin, end)
        near = {each: store.codes_of(each, rows) for each in onward}
        if back is None:
            return near
        return {each: np.concatenate((near[each], self._codes(number, back, each))) for each in onward}

    def _codes(self, number: int, table: pa.Table, key: Key) -> Counts:
        """The codes of rows of an input by a key."""
        found = self._windows[number].codes(table)
        return mixed([found[each,] for each in key]) if key else np.zeros(len(table), np.int64)

    def _bytes(self, share: float) -> int:
        """A share of the limit, as far as it makes sense."""
        return max(LEAST_BYTES, int(share * (self.limit or 0)))

    def _note(self, held: int) -> None:
        self._peak = max(self._peak, held)


def _equal_to_one(rows: pa.Table, others: pa.Table) -> Mask:
    """Which rows equal one of the others, with their ends."""
    names = [name for name in rows.column_names if name not in (START, WEIGHT)]
    numbers = identities(stacked([rows.select(names), others.select(names)]), names)
    return np.isin(numbers[: len(rows)], numbers[len(rows) :])
