"""Gain ratio: the equations of the paper, Table 1, and what chance explains."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.routing.gain_ratio import (
    entropy,
    exceeds_chance,
    explained_variance,
    gain_ratio,
    information_gain,
    significant,
    significant_variance,
    split_information,
    telling,
    variance_ratio,
)

THIRDS = np.full((3, 3), 100.0)
TABLE_1 = np.array([[32, 31, 27], [10, 20, 90], [55, 65, 60]])


def test_table_1_gives_what_the_equations_give_and_the_second_operator_dominates() -> None:
    ratios = gain_ratio(THIRDS, TABLE_1)
    assert ratios == pytest.approx([0.001021, 0.263504, 0.003167], abs=1e-6)
    assert split_information(THIRDS) == pytest.approx(np.log2(3))
    assert ratios[1] > 50 * max(ratios[0], ratios[2])


def test_equations_by_hand() -> None:
    assert entropy(0.25) == pytest.approx(0.811278)
    entered, passed = np.array([2.0, 6.0]), np.array([2.0, 0.0])
    assert information_gain(entered, passed) == pytest.approx(entropy(0.25))
    assert gain_ratio(entered, passed) == pytest.approx(1.0)


def test_nothing_to_split_or_nothing_to_tell_gives_zero() -> None:
    constant, equal = np.array([100.0, 0.0]), np.array([50.0, 50.0])
    assert gain_ratio(constant, [40, 0]) == 0.0
    assert gain_ratio(equal, [0, 0]) == gain_ratio(equal, [50, 50]) == 0.0
    assert gain_ratio([0.0, 0.0], [0.0, 0.0]) == 0.0
    assert not significant([0.0, 0.0], [0.0, 0.0])


def test_attributes_are_judged_in_one_call_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    entered = rng.integers(0, 20, (6, 25)).astype(float)
    passed = rng.binomial(entered.astype(int), 0.4).astype(float)
    for judge in (gain_ratio, significant):
        together = judge(entered, passed)
        assert all(together[j] == judge(entered[j], passed[j]) for j in range(6))


@pytest.mark.parametrize("buckets", [2, 8, 24])
@pytest.mark.parametrize("selectivity", [0.1, 0.5, 0.9])
def test_chance_is_rarely_taken_for_a_classifier(buckets: int, selectivity: float) -> None:
    rng = np.random.default_rng(2)
    entered = rng.multinomial(150, np.full(buckets, 1 / buckets), 4000).astype(float)
    passed = rng.binomial(entered.astype(int), selectivity).astype(float)
    assert significant(entered, passed, 0.01).mean() < 0.02


def test_classes_that_differ_are_found_in_a_sample_of_150() -> None:
    rng = np.random.default_rng(3)
    entered = rng.multinomial(150, np.full(8, 1 / 8), 500)
    passed = rng.binomial(entered, [0.05] + [0.8] * 7)
    assert significant(entered, passed).mean() > 0.99


@pytest.mark.parametrize(("degrees", "critical"), [(1, 6.635), (7, 18.475), (23, 41.638)])
def test_critical_values_are_those_of_chi_square_at_one_percent(degrees: int, critical: float) -> None:
    values, free = np.array([critical - 0.15, critical + 0.15]), np.full(2, float(degrees))
    assert exceeds_chance(values, free, 0.01).tolist() == [False, True]


def test_fan_outs_are_judged_by_the_variance_that_buckets_explain() -> None:
    rng = np.random.default_rng(4)
    codes, noise = rng.integers(0, 4, 300), rng.integers(0, 4, 300)
    produced = rng.poisson(np.array([0.2, 1.0, 3.0, 6.0])[codes]).astype(float)
    ratios, clear = telling([codes, noise], produced, 5)
    assert ratios[0] > 10 * ratios[1]
    assert clear.tolist() == [True, False]
    sums = tuple(np.bincount(codes, weights, 5) for weights in (np.ones(300), produced, produced**2))
    between = 1 - sum(produced[codes == c].var() * (codes == c).sum() for c in range(4)) / (produced.var() * 300)
    assert explained_variance(*sums) == pytest.approx(between)
    assert variance_ratio(*sums) == pytest.approx(between / split_information(sums[0]))
    assert significant_variance(sums[0], sums[1], sums[2])


def test_constant_fan_outs_tell_nothing() -> None:
    entered = np.array([10.0, 10.0])
    assert explained_variance(entered, 3 * entered, 9 * entered) == 0.0
    assert not significant_variance(entered, 3 * entered, 9 * entered)
