"""Texts as spans of bytes, and as words that compare like the bytes do.

A word has seven bytes of a text and says how many of them count, so that words are equal only where texts are. Words
of texts are found with a few operations on whole columns, whatever the texts' lengths.

>>> some = Texts.of(pa.array(["ab", "abcdefghi", "ab\\0", ""]))
>>> words = some.words(0)
>>> np.argsort(words).tolist()  # '', 'ab', 'ab\\0', 'abcdefghi'
[3, 0, 2, 1]
>>> goes_on(words).tolist()
[False, True, False, False]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.arrays import Mask, Rows

WORD_BYTES = 7
_GOES_ON = WORD_BYTES + 1
_SIGN = np.uint64(1 << 63)
_COUNTED = np.array([(1 << 64) - (1 << (64 - 8 * min(n, WORD_BYTES))) for n in range(_GOES_ON + 1)], np.uint64)


@dataclass(frozen=True)
class Texts:
    """Texts within one array of bytes.

    Parameters
    ----------
    data
        Bytes, with `WORD_BYTES + 1` more at the end.
    begins, ends
        Of each text in `data`.
    """

    data: npt.NDArray[np.uint8]
    begins: Rows
    ends: Rows

    @classmethod
    def of(cls, array: pa.Array) -> Texts:
        """The bytes of strings or binaries; a NULL has any."""
        array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        if offsets is None or not len(array):
            return cls.of_bytes(np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64))
        at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        return cls.of_bytes(held[at[0] : at[-1]], at - at[0])

    @classmethod
    def of_bytes(cls, data: npt.NDArray[np.uint8], offsets: Rows) -> Texts:
        """Texts one after the other."""
        return cls(np.concatenate((data, np.zeros(_GOES_ON, np.uint8))), offsets[:-1], offsets[1:])

    @classmethod
    def of_width(cls, data: npt.NDArray[np.uint8]) -> Texts:
        """Texts of one length: the rows of a matrix of bytes."""
        count, width = data.shape
        return cls.of_bytes(data.reshape(-1), np.arange(count + 1, dtype=np.int64) * width)

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes + self.begins.nbytes + self.ends.nbytes

    def words(self, level: int, rows: Rows | None = None) -> npt.NDArray[np.int64]:
        """The word number `level` of the texts at some places, which have one."""
        begins, ends = (self.begins, self.ends) if rows is None else (self.begins[rows], self.ends[rows])
        begins = begins + level * WORD_BYTES
        eight: npt.NDArray[Any] = np.ndarray((len(self.data) - WORD_BYTES,), ">u8", self.data, strides=(1,))
        counted = np.minimum(ends - begins, _GOES_ON)
        words = eight[begins].astype(np.uint64) & _COUNTED[counted]
        words |= counted.view(np.uint64)
        words ^= _SIGN
        return np.asarray(words.view(np.int64))

    def array(self) -> pa.Array:
        """As Arrow has them; only for texts that stand one after the other."""
        offsets = np.append(self.begins, self.ends[-1:]) if len(self) else np.zeros(1, np.int64)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def gathered(self) -> Texts:
        """The same texts, one after the other."""
        lengths = self.ends - self.begins
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        places = np.arange(offsets[-1]) + np.repeat(self.begins - offsets[:-1], lengths)
        return Texts.of_bytes(self.data[places], offsets)

    def followed_by(self, other: Texts) -> Texts:
        """The texts of both, one after the other."""
        shift = self.ends[-1] if len(self) else 0
        data = np.concatenate((self.data[:shift], other.data))
        return Texts(data, np.append(self.begins, other.begins + shift), np.append(self.ends, other.ends + shift))

    def successors(self) -> Texts:
        """For each text the least one that is greater than all that start with it; '' stays as it is.

        No byte of UTF-8 is the last one, so the last byte can be raised.
        """
        data = self.data.copy()
        data[self.ends[self.ends > self.begins] - 1] += 1
        return Texts(data, self.begins, self.ends)


def goes_on(words: npt.NDArray[np.int64]) -> Mask:
    """Whether the texts of these words have a next word."""
    return np.asarray((words & 15) == _GOES_ON)
