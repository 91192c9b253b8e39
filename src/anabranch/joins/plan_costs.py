"""What probing would cost in other orders, by what was profiled: in the present one, as written, in the best one.

>>> from anabranch.joins.probe_report import ProbeCounts
>>> from anabranch.ordering import Seed
>>> dropped = np.array([[False, True], [False, True], [True, False]])      # of three rows; one more was not dropped
>>> seed = Seed((0, 1), dropped, np.array([1e-6, 1e-6]))
>>> windows = {1: ProbeCounts(4, 1), 2: ProbeCounts(3, 2)}
>>> found = plan_costs(ProbeReport(0, (1, 2), 4, windows, seed=seed, passed=1))
>>> found.best_order, f"{found.now:.3g} {found.written:.3g} {found.best:.3g}"
((2, 1), '1.75e-06 1.75e-06 1.5e-06')
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.joins.probe_report import ProbeReport
from anabranch.model.arrays import Order
from anabranch.ordering import Precedence, expected_cost, optimal_order

MOST_INPUTS = 10


@dataclass(frozen=True)
class PlanCosts:
    """Seconds of drop probing per row, estimated.

    Parameters
    ----------
    now, written, best
        In the present order, in that of the inputs, and in the best one that does not change.
    best_order
        Which that is.
    """

    now: float
    written: float
    best: float
    best_order: Order


def plan_costs(report: ProbeReport) -> PlanCosts | None:
    """Estimates from the rows that were profiled last; None where none were."""
    seed, others = report.seed, sorted(report.windows)
    dropped = sum(each.dropped for each in report.windows.values())
    if seed is None or not len(seed.drops) or not dropped or len(others) >= MOST_INPUTS:
        return None
    edges = frozenset((others.index(one), others.index(other)) for one, other in report.paths)
    precedence = Precedence(len(others), edges)
    # Dropped rows alone are profiled: as many more have passed as passed for each that was dropped.
    passed = round(len(seed.drops) * report.passed / dropped)
    sample = np.concatenate((seed.drops, np.zeros((passed, len(others)), np.bool_)))
    written, best = precedence.legal(range(len(others))), optimal_order(sample, seed.costs, precedence)
    present = tuple(others.index(each) for each in report.order)
    costs = [expected_cost(order, sample, seed.costs) for order in (present, written, best)]
    return PlanCosts(costs[0], costs[1], costs[2], tuple(others[f] for f in best))
