"""Section 6.1.1: packets on the links C, B and O of a network, and how few of them have to be kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.config import ConstraintConfig, Mode
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.kmon import KMonJoin
from anabranch.constraints.windows import Range
from anabranch.measure import at_least, at_most, informed
from anabranch.model.arrays import Counts
from anabranch.reproduce.constraints.running import MICRO
from anabranch.reproduce.thesis.exhibit import Exhibit

ONE_ONE = JoinGraph(3, (Edge(0, 1, 0, 0, one_one=True), Edge(1, 2, 0, 0, one_one=True)))
MILLISECONDS = 1000
GO_ON = 0.1
LATENCY = 200
PAPER = 0.18 / 72
MOST_HELD, MOST_MISSED = 0.005, 2.3
MODES: tuple[Mode, ...] = ("off", "discard", "exact")


@dataclass(frozen=True)
class Plan:
    """Tuples per second of C, B and O, seconds of the windows, and of the run."""

    rates: tuple[int, int, int] = (100, 1_000, 100)
    window: int = 600
    seconds: int = 720


QUICK = Plan(rates=(50, 500, 50), window=40, seconds=55)


@dataclass(frozen=True)
class Held:
    """Rows in memory and aside at the end, results, and processor time per tuple."""

    rows: int
    aside: int
    results: int
    rescued: int
    microseconds: float


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The example."""
    plan = QUICK if quick else Plan()
    found = {mode: _run(plan, mode) for mode in MODES}
    whole, kept, exact = found["off"], found["discard"], found["exact"]
    missed = 100 * (whole.results - kept.results) / whole.results
    return [
        Exhibit(
            "Section 6.1.1",
            f"{whole.rows:,} rows in whole windows, {kept.rows:,} with constraints ({kept.rows / whole.rows:.4f}), of "
            f"which most are the sample; {exact.aside:,} aside in `exact` mode. {missed:.2f} % of {whole.results:,} "
            f"results are missed by `discard`, {exact.rescued:,} are found aside by `exact`.",
            [
                at_most("Section 6.1.1 rows, discard / whole windows", kept.rows / whole.rows, MOST_HELD, "0.0025"),
                at_most("Section 6.1.1 results missed by discard, percent", missed, MOST_MISSED),
                at_most("Section 6.1.1 results missed by exact", whole.results - exact.results, 0),
                informed("Section 6.1.1 rows in memory, exact / whole windows", exact.rows / whole.rows),
                at_least(
                    "Section 6.1.1 throughput, discard / whole windows", _gain(whole, kept), 1.0, "processor time"
                ),
                informed("Section 6.1.1 throughput, exact / whole windows", _gain(whole, exact), "processor time"),
            ],
            table=[
                ("mode", "rows in memory", "rows aside", "results", "us per tuple"),
                *(
                    (mode, f"{each.rows:,}", f"{each.aside:,}", f"{each.results:,}", f"{each.microseconds:.2f}")
                    for mode, each in found.items()
                ),
            ],
        )
    ]


def _gain(whole: Held, kept: Held) -> float:
    return whole.microseconds / kept.microseconds


def packets(plan: Plan, second: int, rng: np.random.Generator) -> list[tuple[Counts, Counts]]:
    """Times and packets of a second on C, B and O; a tenth goes on from C to B, and of these a tenth to O.

    Packets that did not come that way have numbers of their own.
    """
    first = second * MILLISECONDS
    c, b, o = plan.rates
    sent = first + np.sort(rng.integers(0, MILLISECONDS, c))
    ids = second * c + np.arange(c)
    to_b = rng.random(c) < GO_ON
    at_b, id_b = sent[to_b] + rng.integers(1, LATENCY, np.count_nonzero(to_b)), ids[to_b]
    to_o = rng.random(len(id_b)) < GO_ON
    at_o, id_o = at_b[to_o] + rng.integers(1, LATENCY, np.count_nonzero(to_o)), id_b[to_o]
    return [(sent, ids), _with_others(at_b, id_b, b, -1, second, rng), _with_others(at_o, id_o, o, -2, second, rng)]


def _with_others(
    at: Counts, ids: Counts, rate: int, kind: int, second: int, rng: np.random.Generator
) -> tuple[Counts, Counts]:
    others = rate - len(ids)
    times = second * MILLISECONDS + rng.integers(0, MILLISECONDS, others)
    own = kind - 2 * (second * rate + np.arange(others))
    return np.concatenate((at, times)), np.concatenate((ids, own))


def _run(plan: Plan, mode: Mode) -> Held:
    config = ConstraintConfig(mode, "time", sample_share=0.001, kinds=frozenset({"rids"}), seed=1)
    join = KMonJoin(ONE_ONE, [Range(plan.window * MILLISECONDS)] * 3, (1, 1, 1), config)
    results, place, spent, timed = 0, 0, 0.0, 0
    for second, batch in _batches(plan):
        begin = time.process_time()
        results += len(join.advance(Arrivals.merged(*batch, place)).inserted)
        if second > plan.window:
            spent += time.process_time() - begin
            timed += len(batch[0])
        place += len(batch[0])
    return Held(join.held, join.set_aside, results, join.rescued, spent / MICRO / timed)


def _batches(plan: Plan) -> list[tuple[int, tuple[Counts, Counts, list[Counts]]]]:
    """Seconds and what arrives in them, in the order of time."""
    rng = np.random.default_rng(61)
    parts = [packets(plan, second, rng) for second in range(plan.seconds)]
    times = [np.concatenate([part[stream][0] for part in parts]) for stream in range(3)]
    ids = [np.concatenate([part[stream][1] for part in parts]) for stream in range(3)]
    owner = np.repeat(np.arange(3), [len(each) for each in times])
    time_of, id_of = np.concatenate(times), np.concatenate(ids)
    order = np.argsort(time_of, kind="stable")
    owner, time_of, id_of = owner[order], time_of[order], id_of[order]
    cuts = np.searchsorted(time_of, MILLISECONDS * np.arange(plan.seconds + 1))
    found = []
    for second, (begin, end) in enumerate(pairwise(cuts.tolist())):
        mine, these = owner[begin:end], id_of[begin:end, np.newaxis]
        found.append((second, (mine, time_of[begin:end], [these[mine == stream] for stream in range(3)])))
    return found
