"""Which codes may be among many, in little memory: a Bloom filter whose bits of a code lie side by side.

>>> some = CodeFilter(np.array([7, 9, 7]))
>>> some.may_have(np.array([9, 7])).tolist()
[True, True]

One code in eighty or so that is not there may pass, and fewer where there are not so many:

>>> many = CodeFilter(np.arange(200_000))
>>> bool(many.may_have(np.arange(200_000)).all()), bool(many.may_have(np.arange(10**6, 2 * 10**6)).mean() < 0.02)
(True, True)
>>> many.nbytes < 1.3 * 200_000
True
>>> bool(CodeFilter(np.arange(10_000)).may_have(np.arange(10**6, 2 * 10**6)).mean() < 0.003)
True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.joins.codes import compiles
from anabranch.model.arrays import Counts, Mask

BITS_PER_CODE = ((1 << 14, 16), (1 << 17, 12))
"""Up to so many codes have so many bits each: there are many small filters, and who asks asks all of them."""
LEAST_BITS = 10
BITS = 6
"""Of a code."""
WORDS_IN_BLOCK = 4
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15))


class CodeFilter:
    """What `may_have` is true of all codes, and of a few others."""

    def __init__(self, codes: Counts) -> None:
        bits = next((bits for most, bits in BITS_PER_CODE if len(codes) <= most), LEAST_BITS)
        self._blocks = max(1, -(-len(codes) * bits // (64 * WORDS_IN_BLOCK)))
        self._words: NDArray[np.uint64] = np.zeros(self._blocks * WORDS_IN_BLOCK, np.uint64)
        if compiles():
            from anabranch.joins import kernels  # takes a moment to load

            kernels.fill_filter(codes, self._words)
            return
        for at, bit in self._places(codes):
            np.bitwise_or.at(self._words, at, bit)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._words.nbytes

    def may_have(self, codes: Counts) -> Mask:
        """Whether each code may be among them."""
        if compiles():
            from anabranch.joins import kernels

            found: Mask = np.empty(len(codes), np.bool_)
            kernels.test_filter(codes, self._words, found)
            return found
        may = np.ones(len(codes), np.bool_)
        for at, bit in self._places(codes):
            may &= self._words[at] & bit != 0
        return may

    def _places(self, codes: Counts) -> list[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
        """The words of each code, and its bit there, one after the other."""
        hashed = codes.astype(np.int64).view(np.uint64).copy()
        for mix, shift in zip(MIX[:2], (30, 27), strict=True):
            hashed ^= hashed >> np.uint64(shift)
            hashed *= mix
        hashed ^= hashed >> np.uint64(31)
        block = ((hashed >> np.uint64(32)) * np.uint64(self._blocks) >> np.uint64(32)).astype(np.int64)
        hashed ^= hashed >> np.uint64(29)
        hashed *= MIX[2]
        found = []
        for place in range(BITS):
            eight = hashed >> np.uint64(8 * (place + 2)) & np.uint64(255)
            at = block * WORDS_IN_BLOCK + (eight >> np.uint64(6)).astype(np.int64)
            found.append((at, np.uint64(1) << (eight & np.uint64(63))))
        return found
