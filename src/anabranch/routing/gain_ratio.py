"""Gain ratio: how much an attribute tells about what an operator lets pass.

A sample of tuples is split by the buckets of an attribute. `entered` counts the tuples of each bucket, `passed` those
that the operator let through. The more the buckets differ in selectivity, the more knowing the bucket tells about the
outcome (information gain); dividing by the information in the split itself keeps attributes with many values from
winning by their number. All functions take stacks of attributes at once: the last axis is the bucket.

>>> entered = np.full((3, 3), 100.0)                                # Table 1: values a, b, c; one row per operator
>>> passed = np.array([[32, 31, 27], [10, 20, 90], [55, 65, 60]])
>>> gain_ratio(entered, passed).round(4)
array([0.001 , 0.2635, 0.0032])
>>> significant(entered, passed)
array([False,  True, False])

Notes
-----
In, Out -> `entered`, `passed`; R -> the sample that they count; Entropy, InfoGain, SplitInformation, GainRatio
(equations 1 to 5) -> `entropy`, `information_gain`, `split_information`, `gain_ratio`; gamma -> `significant` decides,
or the caller's threshold.

Differs from the paper
----------------------
- Example 3.2 prints 0.33, 0.63 and 0.37 for Table 1. Its formulas give 0.0010, 0.2635 and 0.0032: the ranking of the
  winner is the same, the sizes are not.
- The threshold gamma is left open there. Any sample shows some gain by chance, the more of it the more buckets there
  are; `significant` asks whether the gain exceeds that (a G-test with Williams' correction for small samples).
- For operators whose "selectivity" is a fan-out (section 4.5 names variance) the share of the variance that the buckets
  explain takes the place of the gain.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 3.
E. B. Wilson, M. M. Hilferty, *The Distribution of Chi-Square*, 1931. D. A. Williams, *Improved likelihood ratio tests
for complete contingency tables*, 1976.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch.model.arrays import Floats, Mask

Stack = NDArray[np.float64]
Codes = NDArray[np.int64]
SIGNIFICANCE = 0.01


def entropy(selectivity: ArrayLike) -> Stack:
    """Bits needed to tell whether a tuple passed, from the share that did.

    >>> entropy([0.0, 0.5, 1.0])
    array([0., 1., 0.])
    """
    share = np.asarray(selectivity, dtype=np.float64)
    return np.abs(_p_log_p(share) + _p_log_p(1.0 - share))


def information_gain(entered: ArrayLike, passed: ArrayLike) -> Stack:
    """Bits that the bucket tells about the outcome."""
    inside, through = _floats(entered), _floats(passed)
    total = inside.sum(axis=-1, keepdims=True)
    within = np.sum(_divide(inside, total) * entropy(_divide(through, inside)), axis=-1)
    overall = entropy(_divide(through.sum(axis=-1), inside.sum(axis=-1)))
    gain: Stack = np.maximum(overall - within, 0.0)
    return gain


def split_information(entered: ArrayLike) -> Stack:
    """Bits needed to tell the bucket of a tuple."""
    inside = _floats(entered)
    bits: Stack = -np.sum(_p_log_p(_divide(inside, inside.sum(axis=-1, keepdims=True))), axis=-1)
    return np.abs(bits)


def gain_ratio(entered: ArrayLike, passed: ArrayLike) -> Stack:
    """Information gain per bit of the split; 0 where there is nothing to split."""
    return _divide(information_gain(entered, passed), split_information(entered))


def significant(entered: ArrayLike, passed: ArrayLike, level: float = SIGNIFICANCE) -> Mask:
    """Whether buckets differ in selectivity by more than chance explains, at a level of significance."""
    inside, through = _floats(entered), _floats(passed)
    tuples, gone = inside.sum(axis=-1), through.sum(axis=-1)
    degrees = np.count_nonzero(inside, axis=-1) - 1.0
    statistic = 2.0 * np.log(2.0) * tuples * information_gain(inside, through)
    rows = tuples * np.sum(_divide(np.ones_like(inside), inside), axis=-1) - 1.0
    columns = _divide(tuples, gone) + _divide(tuples, tuples - gone) - 1.0
    correction = 1.0 + _divide(rows * columns, 6.0 * tuples * np.maximum(degrees, 1.0))
    return exceeds_chance(statistic / correction, degrees, level)


def variance_ratio(entered: ArrayLike, produced: ArrayLike, squares: ArrayLike) -> Stack:
    """The gain ratio's counterpart for fan-outs: share of their variance that buckets explain, per bit of the split.

    `produced` and `squares` are the sums of the fan-outs and of their squares, bucket by bucket.
    """
    return _divide(explained_variance(entered, produced, squares), split_information(entered))


def explained_variance(entered: ArrayLike, produced: ArrayLike, squares: ArrayLike) -> Stack:
    """Variance between buckets / total variance of the fan-outs; 0 where they do not vary."""
    inside, sums = _floats(entered), _floats(produced)
    tuples, total = inside.sum(axis=-1), sums.sum(axis=-1)
    spread = np.maximum(_floats(squares).sum(axis=-1) - _divide(total**2, tuples), 0.0)
    between = np.maximum(np.sum(_divide(sums**2, inside), axis=-1) - _divide(total**2, tuples), 0.0)
    return np.minimum(_divide(between, np.where(spread > 1e-9 * tuples, spread, 0.0)), 1.0)


def significant_variance(
    entered: ArrayLike, produced: ArrayLike, squares: ArrayLike, level: float = SIGNIFICANCE
) -> Mask:
    """Whether buckets differ in mean fan-out by more than chance explains (the likelihood ratio of normal means)."""
    inside = _floats(entered)
    degrees = np.count_nonzero(inside, axis=-1) - 1.0
    unexplained = np.maximum(1.0 - explained_variance(inside, produced, squares), 1e-12)
    effective = np.maximum(inside.sum(axis=-1) - 1.0 - (degrees + 1.0) / 2.0, 0.0)
    return exceeds_chance(-effective * np.log(unexplained), degrees, level)


def telling(codes: Sequence[Codes], produced: Floats, width: int, level: float = SIGNIFICANCE) -> tuple[Floats, Mask]:
    """How much attributes tell about a sample, and whether that is more than chance explains.

    `codes` are the buckets of the tuples, attribute by attribute; `produced` what an operator made of each tuple: the
    gain ratio if it is a filter, the variance ratio if it is not.
    """
    entered, passed, squares = (
        np.stack([np.bincount(code, weights, width) for code in codes])
        for weights in (np.ones(len(produced)), produced, produced**2)
    )
    if np.all((produced == 0) | (produced == 1)):
        return gain_ratio(entered, passed), significant(entered, passed, level)
    return variance_ratio(entered, passed, squares), significant_variance(entered, passed, squares, level)


def exceeds_chance(statistic: Floats, degrees: Floats, level: float) -> Mask:
    """Whether chi-square statistics exceed the critical value of their degrees of freedom (Wilson-Hilferty).

    >>> exceeds_chance(np.array([6.5, 6.7]), np.array([1.0, 1.0]), 0.01)
    array([False,  True])
    """
    free = np.maximum(np.asarray(degrees, dtype=np.float64), 1.0)
    spread = 2.0 / (9.0 * free)
    critical = free * (1.0 - spread + NormalDist().inv_cdf(1.0 - level) * np.sqrt(spread)) ** 3
    exceeds: Mask = (np.asarray(degrees) > 0) & (np.asarray(statistic) > critical)
    return exceeds


def _floats(values: ArrayLike) -> Stack:
    return np.asarray(values, dtype=np.float64)


def _p_log_p(share: Stack) -> Stack:
    bits: Stack = share * np.log2(np.where(share > 0, share, 1.0))
    return bits


def _divide(above: Any, below: Any) -> Stack:
    """0 where there is nothing to divide by."""
    quotient: Stack = np.where(np.asarray(below) > 0, above, 0.0) / np.where(np.asarray(below) > 0, below, 1.0)
    return quotient
