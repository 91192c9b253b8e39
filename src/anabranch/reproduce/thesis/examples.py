"""Examples 4.5.1 and 4.6.1: how far Independent and LocalSwaps can be from the optimum, exactly.

The stream runs through the values 1 to 100 again and again, every dropped tuple is profiled, and a chunk is one such
round: so all counts are exact, and a tie stays a tie.

>>> missed_correlation(10)
Costs(worse=5.41, better=1.49)
>>> local_optimum(10)
Costs(worse=5.5, better=1.1)

Notes
-----
Example 4.5.1: F_1 to F_{n-1} pass 1 to 49, F_n passes the rest. Independent stays at 0.49 n + 0.51 evaluations per
tuple, A-Greedy gets to 1.49.

Example 4.6.1: F_i drops the i-th of n equal blocks of values; then F_n changes, and passes only the block that F_{n-1}
drops. LocalSwaps stays in the order as written, A-Greedy moves F_n to the front.

Differs from the paper
----------------------
For example 4.6.1 the paper prints 50 (n + 1) and 1 + 200/n evaluations per tuple. The first one is for 100 tuples: per
tuple it is (n + 1) / 2. In the second order F_n processes every tuple, F_{n-1} only the n-th part that is left, and
drops it: 1 + 1/n. The ratio grows with n all the same.

LocalSwaps is held by an exact tie. With sampled tuples chance breaks it, and LocalSwaps gets out, the sooner the fewer
profile tuples it decides on (`escape`).

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 4.5.1 and 4.6.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.measure import at_most, informed
from anabranch.model.arrays import BoolMatrix
from anabranch.reproduce.thesis.exhibit import LABELS, Chart, Exhibit, Mark, Series
from anabranch.reproduce.thesis.running import Setting

VALUES = 100
ROUNDS = 30
NUMBERS = (4, 5, 10, 20)
EXACT = 1e-9
SEED = 461


class Costs(NamedTuple):
    """Evaluations per tuple in the end: the policy that the example is about, and A-Greedy."""

    worse: float
    better: float


def missed_correlation(filters: int) -> Costs:
    """Example 4.5.1."""
    values = np.arange(1, VALUES + 1)
    low = values < VALUES // 2
    return _settled("independent", np.stack([*[low] * (filters - 1), ~low], axis=1), _exact(filters))


def local_optimum(filters: int) -> Costs:
    """Example 4.6.1, after the change; the number of filters divides 100."""
    return _settled("localswaps", _one_block(filters), _exact(filters))


def escape(filters: int, tuples: int = 200_000) -> float:
    """Example 4.6.1 with sampled tuples and the product's minimum of profile tuples: LocalSwaps in the end."""
    stream = np.random.default_rng(SEED).integers(0, VALUES, tuples)
    run = Setting(np.ones(filters), full_windows=False).run("localswaps", _one_block(filters)[stream])
    return run.between(tuples // 2, tuples).processing


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Both examples."""
    numbers = NUMBERS[:3] if quick else NUMBERS
    missed = {n: missed_correlation(n) for n in numbers}
    stuck = {n: local_optimum(n) for n in numbers}
    return [
        _exhibit("4.5.1", "independent", missed, {n: Costs(0.49 * n + 0.51, 1.49) for n in numbers}),
        _exhibit(
            "4.6.1",
            "localswaps",
            stuck,
            {n: Costs((n + 1) / 2, 1 + 1 / n) for n in numbers},
            f" Sampled, deciding on 30 profile tuples, LocalSwaps gets out: {escape(10):.2f} for n = 10.",
        ),
    ]


def _exhibit(
    number: str, policy: str, found: dict[int, Costs], formulas: dict[int, Costs], remark: str = ""
) -> Exhibit:
    off = max(abs(a - b) for n in found for a, b in zip(found[n], formulas[n], strict=True))
    most = max(found)
    series = [
        Series(LABELS[policy], [costs.worse for costs in found.values()]),
        Series(LABELS["agreedy"], [costs.better for costs in found.values()]),
    ]
    marks = [Mark("formula", n, value) for n, costs in formulas.items() for value in costs]
    ratio = found[most].worse / found[most].better
    return Exhibit(
        f"Example {number}",
        "; ".join(f"n = {n}: {costs.worse:.2f} and {costs.better:.2f}" for n, costs in found.items()) + "." + remark,
        [
            at_most(f"{number} largest distance to the formulas", off, EXACT, "evaluations per tuple, exact"),
            informed(f"{number} {LABELS[policy]} / A-Greedy, n = {most}", ratio, "grows with n"),
        ],
        [Chart("number of filters", "evaluations per tuple", list(found), series, marks=marks)],
    )


def _one_block(filters: int) -> BoolMatrix:
    block = np.arange(VALUES) * filters // VALUES
    passes: BoolMatrix = block[:, np.newaxis] != np.arange(filters)
    passes[:, -1] = block == filters - 2
    return passes


def _exact(filters: int) -> Setting:
    return Setting(np.ones(filters), probability=1.0, chunk=VALUES)


def _settled(policy: str, values: BoolMatrix, setting: Setting) -> Costs:
    passes = np.tile(values, (ROUNDS, 1))
    last = (len(passes) - VALUES, len(passes))
    worse, better = (setting.run(name, passes).between(*last).processing for name in (policy, "agreedy"))
    return Costs(worse, better)
