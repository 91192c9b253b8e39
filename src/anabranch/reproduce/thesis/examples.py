"""Examples 4.5.1 and 4.6.1: how far Independent and LocalSwaps can be from the optimum, exactly.

The stream runs through the values 1 to 100 again and again, every dropped tuple is profiled, and a chunk is one such
round: so all counts are exact, and a tie stays a tie.

>>> missed_correlation(10)
Costs(worse=5.41, better=1.49)
>>> local_optimum(10)
Costs(worse=5.5, better=1.1)

Notes
-----
Example 4.5.1: F_1 to F_{n-1} pass 1 to 49, F_n passes the rest. Independent stays at 0.49 n + 0.51 evaluations per tuple,
A-Greedy gets to 1.49.

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

from collections.abc import Callable, Sequence
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
    """Example 4.6.1 with sampled tuples and the product's minimum of profile tuples: what LocalSwaps costs in the end."""
    stream = np.random.default_rng(SEED).integers(0, VALUES, tuples)
    run = Setting(np.ones(filters), full_windows=False).run("localswaps", _one_block(filters)[stream])
    return run.between(tuples // 2, tuples).processing


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Both examples."""
    numbers = NUMBERS[:3] if quick else NUMBERS
    return [
        _exhibit("Example 4.5.1", "independent", missed_correlation, numbers, lambda n: 0.49 * n + 0.51, lambda _: 1.49,
                 "0.49 n + 0.51 evaluations per tuple for Independent, 1.49 for A-Greedy.", "None."),
        _exhibit("Example 4.6.1", "localswaps", local_optimum, numbers, lambda n: (n + 1) / 2, lambda n: 1 + 1 / n,
                 "50 (n + 1) for LocalSwaps, 1 + 200/n for A-Greedy.",
                 "The printed figures count 100 tuples in the first and something else in the second; per tuple they are (n + 1) / 2 and 1 + 1/n. "
                 "LocalSwaps is held by an exact tie: with sampled tuples and decisions on 30 of them it gets out, and to "
                 f"{escape(10):.2f} for n = 10."),
    ]  # fmt: skip


def _exhibit(
    name: str,
    policy: str,
    measure: Callable[[int], Costs],
    numbers: Sequence[int],
    worse: Callable[[int], float],
    better: Callable[[int], float],
    paper: str,
    why: str,
) -> Exhibit:
    found = {n: measure(n) for n in numbers}
    off = max(max(abs(c.worse - worse(n)), abs(c.better - better(n))) for n, c in found.items())
    most = numbers[-1]
    series = [
        Series(LABELS[policy], [c.worse for c in found.values()]),
        Series(LABELS["agreedy"], [c.better for c in found.values()]),
    ]
    return Exhibit(
        name,
        f"{LABELS[policy]} is O(n) times worse than A-Greedy",
        paper,
        "; ".join(f"n = {n}: {c.worse:.2f} and {c.better:.2f}" for n, c in found.items()) + ".",
        why,
        [
            at_most(f"{name}, largest distance to the formulas", off, EXACT, "evaluations per tuple, exact"),
            informed(
                f"{name}, {LABELS[policy]} / A-Greedy, n = {most}",
                found[most].worse / found[most].better,
                "grows with n",
            ),
        ],
        [
            Chart(
                "number of filters",
                "evaluations per tuple",
                numbers,
                series,
                marks=[Mark("formula", n, worse(n)) for n in numbers],
            )
        ],
    )


def _one_block(filters: int) -> BoolMatrix:
    block = np.arange(VALUES) * filters // VALUES
    passes = block[:, np.newaxis] != np.arange(filters)
    passes[:, -1] = block == filters - 2
    return passes


def _exact(filters: int) -> Setting:
    return Setting(np.ones(filters), probability=1.0, chunk=VALUES)


def _settled(policy: str, values: BoolMatrix, setting: Setting) -> Costs:
    passes = np.tile(values, (ROUNDS, 1))
    last = (len(passes) - VALUES, len(passes))
    worse, better = (setting.run(name, passes).between(*last).processing for name in (policy, "agreedy"))
    return Costs(worse, better)
