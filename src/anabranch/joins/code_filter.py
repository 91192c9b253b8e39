"""Which codes may be among many, in little memory: a Bloom filter whose bits of a code lie in one word.

>>> some = CodeFilter(np.array([7, 9, 7]))
>>> some.may_have(np.array([9, 7])).tolist()
[True, True]

One code in thirty or so that is not there may pass:

>>> many = CodeFilter(np.arange(100_000))
>>> bool(many.may_have(np.arange(100_000)).all()), bool(many.may_have(np.arange(10**6, 2 * 10**6)).mean() < 0.05)
(True, True)
>>> many.nbytes < 2 * 100_000
True
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.model.arrays import Counts, Mask

BITS_PER_CODE = 10
BITS_IN_WORD = 5
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SIX_BITS = np.uint64(63)


class CodeFilter:
    """What `may_have` is true of all codes, and of a few others."""

    def __init__(self, codes: Counts) -> None:
        words = max(1, len(codes) * BITS_PER_CODE // 64)
        self._words: NDArray[np.uint64] = np.zeros(words, np.uint64)
        hashed = hashes(codes)
        np.bitwise_or.at(self._words, self._at(hashed), hashed.bits)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._words.nbytes

    def may_have(self, codes: Counts) -> Mask:
        """Whether each code may be among them."""
        return self.may_have_hashed(hashes(codes))

    def may_have_hashed(self, hashed: Hashes) -> Mask:
        """The same for codes whose hashes are known, as where several filters are asked."""
        return np.asarray(self._words[self._at(hashed)] & hashed.bits == hashed.bits)

    def _at(self, hashed: Hashes) -> NDArray[np.int64]:
        """The word of each code."""
        return (hashed.high * np.uint64(len(self._words)) >> np.uint64(32)).astype(np.int64)


class Hashes(NamedTuple):
    """Of codes: what chooses their word, and their bits there."""

    high: NDArray[np.uint64]
    bits: NDArray[np.uint64]


def hashes(codes: Counts) -> Hashes:
    """Of codes, for any filter."""
    hashed = codes.astype(np.int64).view(np.uint64).copy()
    for mix, shift in zip(_MIX, (30, 27), strict=True):
        hashed ^= hashed >> np.uint64(shift)
        hashed *= mix
    hashed ^= hashed >> np.uint64(31)
    bits = np.zeros(len(codes), np.uint64)
    for place in range(BITS_IN_WORD):
        bits |= np.uint64(1) << (hashed >> np.uint64(6 * place) & _SIX_BITS)
    return Hashes(hashed >> np.uint64(32), bits)
