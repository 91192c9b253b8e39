"""Partitioning functions: which of d buckets a value of an attribute falls into.

Discrete values are hashed; continuous ones fall into equal ranges between the least and the greatest value seen so far.
NULL and NaN have a bucket of their own, behind the others, so there are d + 1 codes.

>>> HashPartition(24).codes(np.array([3, 4, 27, 3]))
array([ 3,  4, 16,  3])
>>> HashPartition(24).codes(np.array(["tcp", "udp", None, "tcp"], dtype=object))
array([22, 12, 24, 22])
>>> ranges = RangePartition(4)
>>> ranges.codes(np.array([0.0, 5.0, 10.0, np.nan]))
array([0, 2, 3, 4])

`unfit` tells which attributes cannot be worth a look (section 4.4): constants, sequences, and keys.

>>> unfit(np.arange(150), buckets=24, discrete=True)
'monotone'

Notes
-----
f_j -> `codes`; d -> `buckets`; min(D_j), max(D_j) -> `low`, `high`.

Differs from the paper
----------------------
- The hash is not given. Ours is the same in every process, and keeps d neighbouring integers apart, so that a small
  domain of codes never collides.
- NULL is a value like any other: an operator may well be correlated with it.
- An attribute is judged by a sample of its values, not by the schema.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.model.arrays import Mask

Codes = NDArray[np.int64]
Column = NDArray[Any]

BUCKETS = 24
MOSTLY_DISTINCT = 0.8
LARGEST_WHOLE = 2.0**53


class Partition(Protocol):
    """What both partitioning functions offer."""

    @property
    def width(self) -> int:
        """Number of codes: the buckets and one for NULL."""

    def codes(self, values: Column) -> Codes:
        """The bucket of each value."""


@dataclass(frozen=True)
class HashPartition:
    """Buckets for discrete values: integers, floats, times or strings (an object array)."""

    buckets: int = BUCKETS

    @property
    def width(self) -> int:
        """Number of codes: the buckets and one for NULL."""
        return self.buckets + 1

    def codes(self, values: Column) -> Codes:
        """The bucket of each value, the same in every process."""
        kind = values.dtype.kind
        if kind in "biu":
            return self._integers(values.astype(np.int64))
        if kind == "f":
            return self._floats(values.astype(np.float64))
        if kind in "mM":
            return np.where(np.isnat(values), self.buckets, self._integers(values.view(np.int64)))
        return self._texts(values.astype(object))

    def _integers(self, values: NDArray[np.int64]) -> Codes:
        turn = _mixed(values // self.buckets) % np.uint64(self.buckets)
        codes: Codes = (values % self.buckets + turn.astype(np.int64)) % self.buckets
        return codes

    def _floats(self, values: NDArray[np.float64]) -> Codes:
        whole = (np.abs(values) < LARGEST_WHOLE) & (values == np.floor(values))
        integers = self._integers(np.where(whole, values, 0.0).astype(np.int64))
        others = (_mixed(values.view(np.int64)) % np.uint64(self.buckets)).astype(np.int64)
        return np.where(np.isnan(values), self.buckets, np.where(whole, integers, others))

    def _texts(self, values: Column) -> Codes:
        try:
            array = pa.array(values, pa.string(), from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            array = pa.array([None if _missing(value) else str(value) for value in values], pa.string())
        encoded = array.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        sums = np.array([zlib.crc32(name.encode()) for name in names], dtype=np.int64)
        hashed = (_mixed(sums) % np.uint64(self.buckets)).astype(np.int64)
        codes: Codes = np.append(hashed, self.buckets)[
            encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        ]
        return codes


class RangePartition:
    """Buckets for continuous values: equal ranges between the running minimum and maximum."""

    def __init__(self, buckets: int = BUCKETS) -> None:
        self.buckets = buckets
        self.low, self.high = np.inf, -np.inf

    @property
    def width(self) -> int:
        """Number of codes: the buckets and one for NULL."""
        return self.buckets + 1

    def extend(self, values: Column) -> None:
        """Widen the range to the values."""
        finite = values[np.isfinite(values)]
        if len(finite):
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def codes(self, values: Column) -> Codes:
        """Widen the range to the values, then the bucket of each."""
        numbers = _numbers(values)
        self.extend(numbers)
        missing, half = np.isnan(numbers), self.high / 2 - self.low / 2
        if half > 0:
            inside = np.clip(np.where(missing, self.low, numbers), self.low, self.high)
            share = (inside / 2 - self.low / 2) / half
        else:
            share = np.zeros(len(numbers))
        codes = np.minimum(np.floor(share * self.buckets), self.buckets - 1)
        return np.where(missing, self.buckets, codes).astype(np.int64)


def unfit(values: Column, *, buckets: int, discrete: bool) -> str:
    """Why an attribute cannot be a classifier, judged by a sample in order of arrival; empty if it may be one.

    Sequences differ from slow attributes, such as the hour, by having more values than buckets.
    """
    present = values[~_null(values)]
    if values.dtype.kind == "O":
        present = pa.array([str(value) for value in present], pa.string()).dictionary_encode().indices.to_numpy()
        ordered = np.zeros(0)
    else:
        ordered = present
    ranked = np.sort(present)
    distinct = min(len(ranked), 1) + int(np.count_nonzero(ranked[1:] != ranked[:-1]))
    if distinct + (len(present) < len(values)) <= 1:
        return "constant"
    if distinct > buckets and len(ordered) and (bool(np.all(ordered[1:] >= ordered[:-1])) or _falling(ordered)):
        return "monotone"
    if discrete and distinct > max(buckets, MOSTLY_DISTINCT * len(present)):
        return "distinct"
    return ""


def _falling(values: Column) -> bool:
    return bool(np.all(values[1:] <= values[:-1]))


def _mixed(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Spread the bits of integers (the finaliser of SplitMix64; 0 stays 0)."""
    bits = values.astype(np.int64).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _numbers(values: Column) -> NDArray[np.float64]:
    if values.dtype.kind in "mM":
        return np.where(np.isnat(values), np.nan, values.view(np.int64).astype(np.float64))
    if values.dtype.kind == "O":
        return np.array([np.nan if _missing(value) else float(value) for value in values])
    return values.astype(np.float64)


def _null(values: Column) -> Mask:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.array([_missing(value) for value in values], dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)
