"""Sums that depend on the bag of summands alone: not on their order, nor on what has been added and taken back.

A number is cut into *limbs* of 32 bits at fixed places, and every place is summed on its own, in 64-bit integers. No
bit is lost, so the order does not matter and taking back is exact; a total is rounded once, when it is read.

>>> values = np.array([1e300, 1.0, -1e300])
>>> total = ExactSums()
>>> total.grow(1)
>>> for value in values:
...     steps = Steps.of(np.array([0]), np.array([0]))
...     sums = total.add(double_parts(np.array([value]), np.array([1])), steps, DOUBLE_UNIT)
>>> sums.doubles()[-1].item(), values.sum().item()
(1.0, 0.0)

Notes
-----
A double is a whole number of at most 53 bits times 2**-1074 times a power of two, so it covers three limbs. Its square
has 106 bits, on a grid from 2**-2148. Totals are carried after every tick: all limbs but the highest are then in
[0, 2**32), and equal totals have equal limbs. Weights of a tick add up to less than `HEAVIEST`: no limb overflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import DataError
from anabranch.model.arrays import Floats
from anabranch.operators.groups import grown
from anabranch.operators.steps import Steps

Ints = npt.NDArray[np.int64]
Parts = dict[int, Ints]  # by bin: what is added there, one number per event

DOUBLE_UNIT, SQUARE_UNIT = -1074, -2148
HEAVIEST = 2**30
BITS = 32
MASK = 2**BITS - 1
SPARE_BINS = 4
NOISE = 2.0**-90  # of squares of the mean: what the leading bits of two totals cannot tell from nothing
MOST_DIGITS = 38
"""Of a decimal, in Arrow as in Spark."""
_LARGEST_HIGH = 10**MOST_DIGITS // 2**64
_SPLITTER = 2.0**27 + 1


@dataclass(frozen=True)
class Exact:
    """Exact totals, one per column of `limbs`: the sum of `limbs[i] * 2**(32 * i + exponent)`."""

    limbs: Ints
    exponent: int = 0

    def doubles(self) -> Floats:
        """The nearest doubles."""
        lead = _leading(self)
        rounded = (lead.bits | lead.inexact).astype(np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(np.where(lead.negative, -rounded, rounded), lead.exponent))

    def pairs(self) -> tuple[Floats, Floats, Ints]:
        """Two doubles and an exponent whose value `(high + low) * 2**exponent` is right to 90 bits and more."""
        lead = _leading(self)
        coarse = (lead.bits >> np.uint64(2)).astype(np.int64)
        high = coarse.astype(np.float64)
        low = (coarse - high.astype(np.int64)) + ((lead.bits & np.uint64(3)) + lead.fraction) / 4
        sign = np.where(lead.negative, -1.0, 1.0)
        return high * sign, low * sign, lead.exponent + 2

    def longs(self, name: str) -> Ints:
        """The totals as 64-bit integers; an error if one is beyond."""
        low, middle, high = np.pad(self.limbs, ((0, 3 - len(self.limbs)), (0, 0)))
        upper = middle + (high << BITS)
        if ((np.abs(high) > 1) | (upper < -(2**31)) | (upper >= 2**31)).any():
            raise DataError(
                f"the sum in {name!r} exceeds the range of a long", hint="cast its argument to double or decimal"
            )
        return np.asarray(low + (upper << BITS))

    def halves(self, name: str) -> tuple[Ints, Ints]:
        """The low and high 64 bits of the totals; an error if one has more than 38 digits."""
        low = self.limbs[0] | (self.limbs[1] << BITS)
        high = self.limbs[2] + (self.limbs[3] << BITS)
        if ((self.limbs[4] != high >> 63) | (high >= _LARGEST_HIGH) | (high < -_LARGEST_HIGH)).any():
            raise DataError(
                f"{name!r} exceeds {MOST_DIGITS} digits", hint="cast its argument to double, or to fewer decimals"
            )
        return low, high

    def divided(self, divisor: Ints, digits: int) -> Exact:
        """The totals times 10**digits over the divisors, rounded half up (away from zero)."""
        limbs, negative = _magnitude(self.limbs)
        limbs = limbs * 10**digits
        _carry(limbs)
        rest = np.zeros(limbs.shape[1], np.int64)
        for limb in limbs[::-1]:
            upper, rest = np.divmod((rest << 16) | (limb >> 16), divisor)
            lower, rest = np.divmod((rest << 16) | (limb & 0xFFFF), divisor)
            limb[:] = (upper << 16) + lower
        limbs[0] += 2 * rest >= divisor
        limbs = np.where(negative, -limbs, limbs)
        _carry(limbs)
        return Exact(limbs)


class ExactSums:
    """A total per group.

    Parameters
    ----------
    bins
        Limbs that are always held, from bin 0; others come and go with the values.
    """

    def __init__(self, bins: int = 0) -> None:
        self._fixed = bins
        self.low = 0
        self.limbs: Ints = np.zeros((bins, 0), np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for groups."""
        self.limbs = grown(self.limbs, capacity)

    def add(self, parts: Parts, steps: Steps, unit: int = 0) -> Exact:
        """Add what the events bring (in the order of the steps), return the totals after each step."""
        if parts:
            self._cover(min(parts), max(parts) + 1)
        held = self.limbs[:, steps.slots]
        after = np.take(held, steps.owner, axis=1)
        for place, part in parts.items():
            after[place - self.low] = steps.running(part, held[place - self.low])
        _carry(after)
        self.limbs[:, steps.slots] = after[:, steps.final]
        if not len(after):
            after = np.zeros((1, len(steps.owner)), np.int64)
        return Exact(after, BITS * self.low + unit)

    def _cover(self, low: int, high: int) -> None:
        """Hold the bins from low to high, and no longer those far away that have become zero."""
        if self._fixed:
            return
        if not len(self.limbs):
            self.low, self.limbs = low, np.zeros((high - low + 1, self.limbs.shape[1]), np.int64)
        while self.low < low - SPARE_BINS and len(self.limbs) > 1 and not self.limbs[0].any():
            self.low, self.limbs = self.low + 1, self.limbs[1:]
        while self.low + len(self.limbs) - 1 > high + SPARE_BINS and _only_signs(self.limbs):
            self.limbs[-2] += self.limbs[-1] << BITS
            self.limbs = self.limbs[:-1]
        below, above = max(self.low - low, 0), max(high - self.low - len(self.limbs) + 1, 0)
        if below or above:
            self.low, self.limbs = self.low - below, np.pad(self.limbs, ((below, above), (0, 0)))


BUNDLE = pa.struct([("_count", pa.int64()), ("_low", pa.int64()), ("_high", pa.int64())])
"""Long integers that have been summed up already: how many, and the sums of their lower 32 bits and of the rest."""


def is_bundle(kind: pa.DataType) -> bool:
    """Whether a column holds bundles, whatever may be NULL in them."""
    return pa.types.is_struct(kind) and [field.name for field in kind] == [field.name for field in BUNDLE]


def bundle_parts(bundles: pa.StructArray, signs: Ints) -> tuple[Ints, Parts]:
    """Bundles that come (1) or go (-1): the numbers of values, and what they add up to.

    >>> bundles = pa.array([{"_count": 2, "_low": 7, "_high": 1}, None], BUNDLE)
    >>> counts, parts = bundle_parts(bundles, np.array([-1, 1]))
    >>> counts.tolist(), parts[0].tolist(), parts[1].tolist()
    ([-2, 0], [-7, 0], [-1, 0])
    """
    counts, low, high = (field.fill_null(0).to_numpy(zero_copy_only=False) * signs for field in bundles.flatten())
    return counts, {0: low, 1: high}


def long_parts(values: Ints, weights: Ints) -> Parts:
    """64-bit integers, each as often as its weight says."""
    most = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    if most * int(np.abs(weights).sum()) < 2**62:
        return {0: values * weights}
    return {0: (values & MASK) * weights, 1: (values >> BITS) * weights}


def decimal_parts(low: Ints, high: Ints, weights: Ints) -> Parts:
    """128-bit integers, given as halves."""
    if (high == low >> 63).all():
        return long_parts(low, weights)
    limbs = (low & MASK, (low >> BITS) & MASK, high & MASK, high >> BITS)
    return {place: limb * weights for place, limb in enumerate(limbs)}


def double_parts(values: Floats, weights: Ints) -> Parts:
    """Finite doubles."""
    mantissa, place, weights = _cut(values, weights)
    return _deposit(mantissa, place, weights)


def square_parts(values: Floats, weights: Ints) -> Parts:
    """The squares of finite doubles, without rounding."""
    mantissa, place, _ = _cut(values, weights)
    upper, lower = mantissa >> 27, mantissa & (2**27 - 1)
    parts = _deposit(lower * lower, 2 * place, weights)
    for product, shift in ((upper * lower, 28), (upper * upper, 54)):
        for at, part in _deposit(product, 2 * place + shift, weights).items():
            parts[at] = parts[at] + part if at in parts else part
    return parts


def halves(array: pa.Array) -> tuple[Ints, Ints]:
    """The low and high 64 bits of decimals; 0 where they are NULL."""
    whole = array.cast(pa.decimal128(array.type.precision, array.type.scale)).fill_null(0)
    words = np.frombuffer(whole.buffers()[1], np.int64)[2 * whole.offset : 2 * (whole.offset + len(whole))]
    return words[::2], words[1::2]


def from_halves(low: Ints, high: Ints, scale: int, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Decimals of 38 digits from their halves."""
    words = np.column_stack((low, high))
    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(MOST_DIGITS, scale), len(low), [validity, pa.py_buffer(words)])


def squared_deviations(sums: Exact, squared: Exact, counts: Ints) -> Floats:
    """The sums of the squared distances from the mean, from the exact sums of values and of squares."""
    (first, first_low, power), (second, second_low, second_power) = sums.pairs(), squared.pairs()
    scale = np.maximum(power, (second_power + 1) // 2)
    first, first_low = np.ldexp(first, power - scale), np.ldexp(first_low, power - scale)
    second, second_low = (np.ldexp(part, second_power - 2 * scale) for part in (second, second_low))
    number = np.maximum(counts, 1).astype(np.float64)
    whole, whole_rest = _product(number, second)
    mean, mean_rest = _product(first, first)
    left = (whole - mean) + ((whole_rest + number * second_low) - (mean_rest + 2 * first * first_low))
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.where(left > NOISE * whole, left, 0.0) / number, 2 * scale))


@dataclass(frozen=True)
class _Lead:
    """The 64 leading bits of magnitudes, what follows as a fraction of the last one, and the last one's exponent."""

    negative: npt.NDArray[np.bool_]
    bits: npt.NDArray[np.uint64]
    inexact: npt.NDArray[np.bool_]
    fraction: Floats
    exponent: Ints


def _leading(total: Exact) -> _Lead:
    limbs, negative = _magnitude(total.limbs)
    top, bottom = np.zeros(limbs.shape[1], np.int64), np.zeros(limbs.shape[1], np.int64)
    for place, limb in enumerate(limbs):
        np.copyto(top, place, where=limb != 0)
    for place in reversed(range(len(limbs))):
        np.copyto(bottom, place, where=limbs[place] != 0)
    padded = np.pad(limbs, ((3, 0), (0, 0))).astype(np.uint64)
    first, second, third, fourth = (padded[top + 3 - below, np.arange(len(top))] for below in range(4))
    length = np.frexp(first.astype(np.float64))[1].astype(
        np.int64
    )  # bits of the first limb; the rest come from the third
    shift, spare = (BITS - length).astype(np.uint64), length.astype(np.uint64)
    bits = (((first << np.uint64(BITS)) | second) << shift) | (third >> spare)
    rest = third & ((np.uint64(1) << spare) - np.uint64(1))
    fraction = np.ldexp(rest + fourth / 2.0**BITS, -length)
    exponent = BITS * (top - 1) - (BITS - length) + total.exponent
    return _Lead(negative, bits, (rest > 0) | (bottom < top - 2), fraction, exponent)


def _magnitude(limbs: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    negative = limbs[-1] < 0
    if negative.any():
        limbs = np.where(negative, -limbs, limbs)
        _carry(limbs)
    return limbs, negative


def _only_signs(limbs: Ints) -> bool:
    """Whether the last limb tells no more than the sign, and there is one before it that has room for that."""
    if len(limbs) < 2:
        return False
    folded = limbs[-2] + (limbs[-1] << BITS)
    return bool(((np.abs(limbs[-1]) <= 1) & (np.abs(folded) < 2**31)).all())


def _carry(limbs: Ints) -> None:
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> BITS
        limbs[place] &= MASK


def _cut(values: Floats, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """Mantissas, their places in bits above the lowest one of all, and weights with the sign."""
    bits = np.ascontiguousarray(values).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & (2**52 - 1)) | ((exponent > 0).astype(np.int64) << 52)
    return mantissa, np.maximum(exponent, 1) - 1, np.where(bits < 0, -weights, weights)


def _deposit(numbers: Ints, place: Ints, weights: Ints) -> Parts:
    """Whole numbers of less than 63 bits from a place on, cut into limbs."""
    bins, shift = place // BITS, place % BITS
    used = np.unique(bins[(numbers != 0) & (weights != 0)]).tolist()
    limbs = ((numbers << shift) & MASK, (numbers >> (BITS - shift)) & MASK, (numbers >> BITS) >> (BITS - shift))
    parts: Parts = {}
    for at in used:
        chosen = weights if len(used) == 1 else np.where(bins == at, weights, 0)
        for up, limb in enumerate(limbs):
            part = limb * chosen
            parts[at + up] = parts[at + up] + part if at + up in parts else part
    return parts


def _product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """A product and its rounding error (Dekker)."""
    product = left * right
    (left_high, left_low), (right_high, right_low) = _halved(left), _halved(right)
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low
    return product, error


def _halved(values: Floats) -> tuple[Floats, Floats]:
    large = _SPLITTER * values
    high = large - (large - values)
    return high, values - high
