"""Table 4.2, and Figures 4.16 and 4.18 measured: where the time really goes.

A filter is what it is in the paper, a hash probe per tuple on an index of 10,000 entries: the tuple's text is hashed
(blake2b) and looked up in a set of digests, a Python call of about a microsecond. A stream draws from 20,000 distinct
texts, so that an index of half of them passes half of the tuples. A filter of cost c makes c probes.

The policies start in the best order with a full window and run as in the product: chunks by `chunk_rows`. The clock
counts the thread's processor time, so that other work on the machine does not blur the shares.

Notes
-----
The components are those of section 4.3.4: profile-tuple creation (choosing tuples and the additional evaluations),
profile-window maintenance (with the running averages of the processing times), matrix-view update, detection and
correction of violations. Tuple processing is the rest.

Differs from the paper
----------------------
Window, view and violations are handled once per chunk of up to 16,384 tuples, in numpy, and hardly show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from time import thread_time

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Rows
from anabranch.ordering.agreedy import AGreedy
from anabranch.ordering.pipeline import FilterPipeline, Verdict
from anabranch.ordering.time_budget import TimeBudget
from anabranch.reproduce.thesis.exhibit import LABELS, Chart, Exhibit, Series
from anabranch.reproduce.thesis.running import THESIS, Setting
from anabranch.reproduce.thesis.workload import Workload

PROCESSING, PROFILES, WINDOW, VIEW, VIOLATIONS = "tuple processing", "profile tuples", "window", "view", "violations"
COMPONENTS = (PROCESSING, PROFILES, WINDOW, VIEW, VIOLATIONS)
PAPER = {
    (3, 0.01): (98.77, 0.88, 0.20, 0.15, 0.0),
    (3, 0.05): (94.17, 4.17, 0.93, 0.73, 0.0),
    (8, 0.01): (96.62, 2.92, 0.20, 0.22, 0.04),
    (8, 0.05): (84.77, 13.34, 0.91, 0.98, 0.0),
}
DISTINCT = 20_000
SEED = 42


@dataclass(frozen=True)
class Plan:
    """Tuples to time, as many with expensive filters, how many filters, and how expensive; half as many go before."""

    tuples: int = 600_000
    costly_tuples: int = 60_000
    filters: Sequence[int] = (3, 5, 8)
    costs: Sequence[int] = (1, 10, 100)


QUICK = Plan(tuples=80_000, costly_tuples=12_000, filters=(8,), costs=(100,))


class Probes:
    """Filters that look tuples up in hash indexes."""

    def __init__(self, passes: BoolMatrix, costs: Counts, stream: Rows) -> None:
        self.texts = [str(value).encode() for value in range(len(passes))]
        digests = [blake2b(text, digest_size=8).digest() for text in self.texts]
        self.indexes = [{digests[v] for v in np.flatnonzero(column)} for column in passes.T]
        self.costs = costs.tolist()
        self.stream = stream
        self.start = 0

    def __call__(self, f: int, rows: Rows) -> Verdict:
        """Look the rows' texts up, as often as the filter's cost demands."""
        texts, index, probes = self.texts, self.indexes[f], range(self.costs[f])
        values = self.stream[self.start + rows].tolist()
        passed = [sum(blake2b(texts[v], digest_size=8).digest() in index for _ in probes) > 0 for v in values]
        return Verdict(np.array(passed, dtype=np.bool_))


class Stopwatch:
    """Seconds spent in methods, by account."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def watch(self, owner: object, method: str, account: str) -> None:
        """Time a method of one object from now on."""
        inner: Callable[..., object] = getattr(owner, method)

        def timed(*args: object) -> object:
            began = thread_time()
            try:
                return inner(*args)
            finally:
                self.seconds[account] += thread_time() - began

        setattr(owner, method, timed)


def timed_run(name: str, filters: int, tuples: int, *, probability: float | None = None, expensive: int = 1) -> Floats:
    """Seconds per component; all policies but A-Greedy report their decisions as a whole, under violations."""
    rng, costs = np.random.default_rng([SEED, filters]), np.where(np.arange(filters) % 2, expensive, 1)
    passes = Workload(filters).draw(DISTINCT, rng)
    setting = Setting(costs.astype(np.float64), probability, learned=~passes[~passes.all(axis=1)][:1000])
    policy = replace(setting, start=setting.best_order(passes)).policy(name)
    budget = TimeBudget.unlimited()  # the thesis decides after every tuple, whatever it costs
    pipeline, watch = FilterPipeline(policy, seed=SEED, clock=thread_time, budget=budget), Stopwatch()
    watch.watch(pipeline, "sample", PROFILES)
    if isinstance(policy, AGreedy):
        _watch_parts(watch, pipeline, policy)
    probes = Probes(passes, costs, rng.integers(0, DISTINCT, tuples + tuples // 2))
    _feed(pipeline, probes, tuples // 2)
    watch.seconds.clear()
    pipeline.take_tally()
    began = thread_time()
    _feed(pipeline, probes, tuples)
    total, tally = thread_time() - began, pipeline.take_tally()
    watch.seconds[PROFILES] += tally.profiling_seconds
    if not isinstance(policy, AGreedy):
        watch.seconds[VIOLATIONS] += tally.deciding_seconds
    rest = [watch.seconds[component] for component in COMPONENTS[1:]]
    return np.array([total - sum(rest), *rest])


def _watch_parts(watch: Stopwatch, pipeline: FilterPipeline, policy: AGreedy) -> None:
    watch.watch(pipeline.times, "record", WINDOW)
    watch.watch(pipeline.times, "per_tuple", WINDOW)
    watch.watch(policy.window, "insert", WINDOW)
    watch.watch(policy.view, "insert", VIEW)
    watch.watch(policy.view, "delete", VIEW)
    watch.watch(policy.window, "rows", VIOLATIONS)
    watch.watch(policy.view, "violation", VIOLATIONS)
    watch.watch(policy.view, "correct", VIOLATIONS)


def _feed(pipeline: FilterPipeline, probes: Probes, tuples: int) -> None:
    end = probes.start + tuples
    while probes.start < end:
        rows = pipeline.chunk_rows(end - probes.start)
        pipeline.process(rows, probes)
        probes.start += rows


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Table 4.2 and the two figures."""
    plan = QUICK if quick else Plan()
    return [shares(plan), by_filters(plan), by_cost(plan)]


def shares(plan: Plan) -> Exhibit:
    """Table 4.2."""
    found = {case: timed_run("agreedy", case[0], plan.tuples, probability=case[1]) for case in PAPER}
    ours = {case: 100 * seconds / seconds.sum() for case, seconds in found.items()}
    useful = min(float(share[:2].sum()) for share in ours.values())
    apart = max(abs(float(ours[case][1]) - PAPER[case][1]) for case in PAPER)
    return Exhibit(
        "Table 4.2",
        f"At least {useful:.1f} % is processing or creating profile tuples; the latter from {ours[3, 0.01][1]:.2f} % "
        f"(n = 3, p = 0.01) to {ours[8, 0.05][1]:.2f} % (n = 8, p = 0.05).",
        [
            at_least("Table 4.2 processing + profile tuples, least, %", useful, 98.0, "paper: more than 98"),
            at_most("Table 4.2 profile tuples, distance to paper, most", apart, 2.0, "percentage points"),
            *(
                informed(f"Table 4.2 profile tuples, n = {n}, p = {p}, %", ours[n, p][1], f"paper: {PAPER[n, p][1]}")
                for n, p in PAPER
            ),
        ],
        [_next_to_paper(ours)],
        [*_table(ours)],
    )


def _table(ours: dict[tuple[int, float], Floats]) -> list[list[str]]:
    head = ["", *(f"n = {n}, p = {p}: {who}" for n, p in PAPER for who in ("paper", "ours"))]
    rows = [
        [name, *(f"{share[i]:.2f}" for case in PAPER for share in (PAPER[case], ours[case]))]
        for i, name in enumerate(COMPONENTS)
    ]
    return [head, *rows]


def _next_to_paper(ours: dict[tuple[int, float], Floats]) -> Chart:
    names = [f"n = {n}, p = {p}|{who}" for n, p in PAPER for who in ("paper", "ours")]
    shares = [share for case in PAPER for share in (PAPER[case], ours[case])]
    layers = [Series(name, [float(share[i]) for share in shares]) for i, name in enumerate(COMPONENTS) if i]
    return Chart("", "% of the time, without processing", names, layers, kind="columns")


def by_filters(plan: Plan) -> Exhibit:
    """Figure 4.16, timed."""
    return _timed(
        "4.16",
        {
            f"n = {n}": {name: timed_run(name, n, plan.tuples, probability=0.05) for name in THESIS}
            for n in plan.filters
        },
    )


def by_cost(plan: Plan) -> Exhibit:
    """Figure 4.18, timed."""
    return _timed(
        "4.18",
        {
            f"c = {c}": {name: timed_run(name, 8, plan.costly_tuples, expensive=c) for name in THESIS}
            for c in plan.costs
        },
    )


def _timed(number: str, found: dict[str, dict[str, Floats]]) -> Exhibit:
    names = [f"{group}|{LABELS[name]}" for group, each in found.items() for name in each]
    parts = [100 * seconds / seconds.sum() for each in found.values() for seconds in each.values()]
    deciding, (last, most) = [float(part[2:].sum()) for part in parts], list(found.items())[-1]
    share = {name: float(seconds[1] / seconds.sum()) for name, seconds in most.items()}
    layers = [Series("profile tuples", [float(part[1]) for part in parts]), Series("decisions", deciding)]
    listed = ", ".join(f"{LABELS[name]} {value:.1%}" for name, value in share.items())
    return Exhibit(
        f"Figure {number}, timed",
        f"Profile tuples at {last}: {listed}. All decisions together take at most {max(deciding):.2f} % of the time.",
        [
            *(
                at_least(
                    f"{number} timed, A-Greedy / {LABELS[name]}, profile tuples",
                    share["agreedy"] / share[name],
                    2.0,
                    last,
                )
                for name in ("sweep", "localswaps")
            ),
            informed(f"{number} timed, decisions, most, %", max(deciding), "window, view and violations"),
        ],
        [Chart("", "% of the time, without processing", names, layers, kind="columns")],
    )
