"""Table 6.3: two joins of Linear Road, whose inputs are relations: elements with both of their ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.config import ConstraintConfig, Mode
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.kmon import KMonJoin
from anabranch.constraints.windows import FAR, Until
from anabranch.linear_road_traffic import REPORT_EVERY, generate
from anabranch.measure import Bar, at_most, informed
from anabranch.model.arrays import Counts
from anabranch.reproduce.thesis.exhibit import Exhibit

MANY_ONE = JoinGraph(2, (Edge(0, 1, 0, 0),))
MICROSECONDS = 1_000_000
STOPPED_FOR = 4
PAPER_MEMORY = {"CurCarSeg": 0.09, "AccSeg": 0.13}
PAPER_TIME = {"CurCarSeg": 0.65, "AccSeg": 0.99}
MOST_MEMORY = 0.15

Relation = tuple[Counts, Counts, Counts]
"""Elements: since when, until when, and their key."""


@dataclass(frozen=True)
class Plan:
    """Cars and minutes of the generator."""

    cars: int = 8_000
    minutes: int = 180


QUICK = Plan(cars=600, minutes=150)


@dataclass(frozen=True)
class Cost:
    """Rows on average over the last quarter, seconds of the processor, and results."""

    rows: float
    seconds: float
    results: int


def exhibits(*, quick: bool) -> list[Exhibit]:
    """The table, as far as the thesis prints its queries."""
    plan = QUICK if quick else Plan()
    reports = generate(minutes=plan.minutes, cars=plan.cars, seed=63)
    order = np.lexsort((reports["ts"].to_numpy().astype("int64"), reports["cid"].to_numpy()))
    car, xpos = reports["cid"].to_numpy()[order], reports["xpos"].to_numpy()[order]
    ts = reports["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)[order] // MICROSECONDS
    last, active = last_reports(car, ts), active_cars(car, ts)
    segments = _met(last, active)
    joins = {"CurCarSeg": (last, active), "AccSeg": (segments, stopped_cars(car, ts, xpos))}
    costs = {name: {mode: _run(inputs, mode) for mode in ("off", "discard")} for name, inputs in joins.items()}
    return [_exhibit(costs)]


def last_reports(car: Counts, ts: Counts) -> Relation:
    """[Partition By cid Rows 1]: a report is there until the next one of the car.

    >>> last_reports(np.array([1, 1, 2]), np.array([0, 30, 5]))[1].tolist() == [30, FAR, FAR]
    True
    """
    until = np.full(len(car), FAR)
    until[:-1] = np.where(car[1:] == car[:-1], ts[1:], FAR)
    return ts, until, car


def active_cars(car: Counts, ts: Counts) -> Relation:
    """Cars that reported within the last 30 seconds, once each: spells without a gap.

    >>> [each.tolist() for each in active_cars(np.array([1, 1, 1]), np.array([0, 30, 90]))]
    [[0, 90], [60, 120], [1, 1]]
    """
    fresh = np.ones(len(car), np.bool_)
    fresh[1:] = (car[1:] != car[:-1]) | (ts[1:] > ts[:-1] + REPORT_EVERY)
    starts = np.flatnonzero(fresh)
    ends = np.append(starts[1:], len(car)) - 1
    return ts[starts], ts[ends] + REPORT_EVERY, car[starts]


def stopped_cars(car: Counts, ts: Counts, xpos: Counts) -> Relation:
    """Cars whose last four reports are from one place.

    >>> [each.tolist() for each in stopped_cars(np.ones(6, int), 30 * np.arange(6), np.array([5, 5, 5, 5, 5, 6]))]
    [[90], [150], [1]]
    """
    same = np.zeros(len(car), np.bool_)
    before = STOPPED_FOR - 1
    same[before:] = True
    for lag in range(1, STOPPED_FOR):
        same[before:] &= (car[before:] == car[before - lag : -lag]) & (xpos[before:] == xpos[before - lag : -lag])
    _, until, _ = last_reports(car, ts)
    starts = np.flatnonzero(same & ~np.concatenate(([False], same[:-1] & (car[1:] == car[:-1]))))
    found = [(ts[start], _last_of(same, car, start, until), car[start]) for start in starts.tolist()]
    columns = np.array(found, np.int64).reshape(len(found), 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _last_of(same: np.typing.NDArray[np.bool_], car: Counts, start: int, until: Counts) -> int:
    place = start
    while place + 1 < len(same) and same[place + 1] and car[place + 1] == car[start]:
        place += 1
    return int(until[place])


def _met(parents: Relation, children: Relation) -> Relation:
    """The join of two relations by key: when both are there. A parent meets the spell in which it begins."""
    since, until, key = parents
    order = np.lexsort((children[0], children[2]))
    code = children[2][order] * 2**40 + children[0][order]
    place = np.searchsorted(code, key * 2**40 + since, side="right") - 1
    child = order[place]
    ends = np.minimum(until, children[1][child])
    found = (children[2][child] == key) & (since < ends)
    return since[found], ends[found], key[found]


def _run(inputs: Sequence[Relation], mode: Mode) -> Cost:
    config = ConstraintConfig(mode, "time", sample_share=0.01, kinds=frozenset({"rids"}), window_arrivals=10)
    join = KMonJoin(MANY_ONE, (Until(1), Until(1)), (2, 2), config)
    since = np.concatenate([each[0] for each in inputs])
    owner = np.repeat([0, 1], [len(each[0]) for each in inputs])
    order = np.lexsort((1 - owner, since))
    since, owner = since[order], owner[order]
    columns = [np.stack([k, u], axis=1)[np.argsort(s, kind="stable")] for s, u, k in inputs]
    cuts = np.searchsorted(since, np.arange(since[0], since[-1] + 2, REPORT_EVERY // 3))
    rows, seconds, results, taken = [], 0.0, 0, [0, 0]
    for begin, end in zip(cuts[:-1], np.append(cuts[1:-1], len(since)), strict=True):
        mine = owner[begin:end]
        counts = [int(np.count_nonzero(mine == stream)) for stream in (0, 1)]
        these = [columns[s][taken[s] : taken[s] + counts[s]] for s in (0, 1)]
        taken = [taken[s] + counts[s] for s in (0, 1)]
        clock = time.process_time()
        results += len(join.advance(Arrivals.merged(mine, since[begin:end], these, int(begin))).inserted)
        seconds += time.process_time() - clock
        rows.append(join.held)
    return Cost(float(np.mean(rows[-len(rows) // 4 :])), seconds, results)


def _exhibit(costs: Mapping[str, Mapping[str, Cost]]) -> Exhibit:
    bars: list[Bar] = []
    table: list[tuple[str, ...]] = [("query", "rows without", "rows with", "results", "memory", "time")]
    told = []
    for name, each in costs.items():
        off, on = each["off"], each["discard"]
        memory, spent = on.rows / off.rows, on.seconds / off.seconds
        bars += [
            at_most(f"Table 6.3 {name} memory with / without", memory, MOST_MEMORY, f"paper: {PAPER_MEMORY[name]}"),
            at_most(f"Table 6.3 {name} results missed", off.results - on.results, 0, "paper: accurate"),
            informed(f"Table 6.3 {name} time with / without", spent, f"paper: {PAPER_TIME[name]}"),
        ]
        table.append((name, f"{off.rows:,.0f}", f"{on.rows:,.0f}", f"{on.results:,}", f"{memory:.2f}", f"{spent:.2f}"))
        told.append(f"{name}: memory {memory:.2f}, time {spent:.2f}")
    return Exhibit("Table 6.3", "; ".join(told) + ". All results are found.", bars, table=table)
