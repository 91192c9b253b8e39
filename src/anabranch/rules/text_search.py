"""Texts found among sorted texts, for many texts at once: word by word.

Level k has the distinct words number k, per group of texts that agree on the words before. A text is looked up in
level 0; where its word is there and both go on, in its group of level 1, and so on. Most texts need one or two levels.

>>> import pyarrow as pa
>>> search = TextSearch.of(Texts.of(pa.array(["b", "sensor-1", "sensor-2"])))
>>> right, equal = search.right(Texts.of(pa.array(["a", "sensor-1", "sensor-17", "t"])))
>>> right.tolist(), equal.tolist()
([0, 2, 2, 3], [False, True, False, False])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.bucket_search import BucketSearch, Keys, Small
from anabranch.rules.texts import Texts, goes_on


@dataclass(frozen=True)
class Level:
    """The words number k of the texts that agree with others on the words before, or go on after them.

    Parameters
    ----------
    words
        Distinct words, ascending.
    entries
        Pairs of a group and a word's number, as one number, ascending; None if there is one group.
    groups
        Per entry its group.
    ends
        Per entry the number of texts up to the last one that has it.
    opens
        Per group its first text.
    """

    words: BucketSearch
    entries: BucketSearch | None
    groups: Small
    ends: Small
    opens: Small

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        arrays = (self.groups, self.ends, self.opens)
        searches = self.words.nbytes + (0 if self.entries is None else self.entries.nbytes)
        return searches + sum(array.nbytes for array in arrays)

    def found(self, group: Rows, words: Keys) -> tuple[Rows, Mask]:
        """Per word the last entry that is not after it, which is -1 at the start, and whether it is the word itself."""
        right = self.words.right(words)
        there = (self.words.keys[right - 1] == words) & (right > 0)
        if self.entries is None:
            return right - 1, there
        wanted = group * (self.words.count + 1) + right
        entry = self.entries.right(wanted) - 1
        return entry, there & (self.entries.keys[entry] == wanted) & (entry >= 0)


@dataclass(frozen=True)
class TextSearch:
    """The levels of sorted texts."""

    levels: tuple[Level, ...]

    @classmethod
    def of(cls, texts: Texts) -> TextSearch:
        """Levels for texts in ascending order."""
        levels: list[Level] = []
        rows, group = np.arange(len(texts)), np.zeros(len(texts), np.int64)
        opens = np.zeros(1, np.int64)
        while len(rows):
            words = texts.words(len(levels), rows)
            first = np.append(True, (words[1:] != words[:-1]) | (group[1:] != group[:-1]))
            starts = np.flatnonzero(first)
            entry = np.cumsum(first) - 1
            distinct, number = np.unique(words[starts], return_inverse=True)
            begins, ends = rows[starts], rows[np.append(starts[1:], len(rows)) - 1] + 1
            entries = None
            if len(opens) > 1:
                entries = BucketSearch.of(group[starts] * (len(distinct) + 1) + number + 1)
            small = (array.astype(np.int32) for array in (group[starts], ends, opens))
            levels.append(Level(BucketSearch.of(distinct), entries, *small))
            on = goes_on(words)
            rows, group = rows[on], entry[on]
            opens = begins
        return cls(tuple(levels))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(level.nbytes for level in self.levels)

    def right(self, texts: Texts) -> tuple[Keys, Mask]:
        """Per text the number of sorted texts that are at most as large, and whether the last of them is equal."""
        right, equal = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
        rows: Rows | None = None
        group = np.zeros(len(texts), np.int64)
        for number, level in enumerate(self.levels):
            words = texts.words(number, rows)
            entry, there = level.found(group, words)
            within = (entry >= 0) & (level.groups[entry] == group)
            on = there & goes_on(words)
            at = np.where(within, level.ends[entry], level.opens[group])
            if rows is None:
                right[:], equal[:] = at, there & ~on
            else:
                right[rows], equal[rows] = at, there & ~on
            chosen = np.flatnonzero(on)
            rows, group = (chosen if rows is None else rows[chosen]), entry[chosen]
            if not len(rows):
                break
        return right, equal
