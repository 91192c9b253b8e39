"""Joins of Linear Road whose inputs are relations: elements with both of their ends, with constraints and without.

`joins` makes the inputs of three many-one joins from reports of cars; `cost` runs one. The other four of the benchmark
have nothing to let go: where one side is ``[Now]``, or a row per segment, what the other side holds may be
asked for at any time.

References
----------
S. Babu: Adaptive query processing in data stream management systems (thesis, 2005), section 6.11, Table 6.3.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.config import ConstraintConfig, Mode
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.kmon import KMonJoin
from anabranch.constraints.windows import FAR, Until
from anabranch.linear_road_traffic import REPORT_EVERY, generate
from anabranch.model.arrays import Counts, Mask

MANY_ONE = JoinGraph(2, (Edge(0, 1, 0, 0),))
MICROSECONDS = 1_000_000
STOPPED_FOR = 4

Relation = tuple[Counts, Counts, Counts]
"""Elements: since when, until when, and their key."""


@dataclass(frozen=True)
class Drive:
    """Cars and minutes of the generator."""

    cars: int = 8_000
    minutes: int = 180


QUICK = Drive(cars=600, minutes=150)


@dataclass(frozen=True)
class Cost:
    """Rows on average over the last quarter, seconds of the processor, and results."""

    rows: float
    seconds: float
    results: int


def joins(drive: Drive) -> dict[str, tuple[Relation, Relation]]:
    """Parents and children of *CurCarSeg*, *AccSeg* and *CarExitStr*."""
    reports = generate(minutes=drive.minutes, cars=drive.cars, seed=63)
    order = np.lexsort((reports["ts"].to_numpy().astype("int64"), reports["cid"].to_numpy()))
    car, xpos = reports["cid"].to_numpy()[order], reports["xpos"].to_numpy()[order]
    ts = reports["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)[order] // MICROSECONDS
    last, active = last_reports(car, ts), active_cars(car, ts)
    return {
        "CurCarSeg": (last, active),
        "AccSeg": (_met(last, active), stopped_cars(car, ts, xpos)),
        "CarExitStr": (last, exits(active, int(ts.max()))),
    }


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


def exits(active: Relation, end: int) -> Relation:
    """Cars that have just left, up to the end of what is known.

    >>> [each.tolist() for each in exits((np.array([0, 5]), np.array([90, 99]), np.array([1, 2])), 95)]
    [[90], [91], [1]]
    """
    left = active[1] <= end
    return active[1][left], active[1][left] + 1, active[2][left]


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


def _last_of(same: Mask, car: Counts, start: int, until: Counts) -> int:
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


def cost(inputs: Sequence[Relation], mode: Mode) -> Cost:
    """Run a join, ten seconds of time at once."""
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
