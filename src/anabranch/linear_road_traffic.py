"""Linear Road: cars that drive on expressways, crowd, collide, and report every 30 seconds."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]

ZERO = 1_767_225_600  # seconds: 2026-01-01
REPORT_EVERY = 30  # seconds
MILE, MILES, SEGMENT_STRIDE = 5280, 100, 128
FEET_PER_REPORT = 44  # in 30 seconds, at one mile per hour
RUSH_SHARE, RUSH_MILE, RUSH_SPREAD = 0.35, 30, 5
SHORTEST_TRIP, LONGEST_TRIP = 2 * MILE, 25 * MILE
SHORTEST_STOP, LONGEST_STOP = 5, 10  # reports
FREE_SHARE = 0.6  # of a crowd, drives as fast as it likes
PAST_ACCIDENT = 0.5  # of the speed
LOST = 0.001  # of the reports


def generate(
    expressways: int = 1, minutes: int = 30, cars: int = 7000, seed: int = 0, *, crowd: int = 50, accidents: int = 6
) -> pa.Table:
    """Make the reports ``CarStr(cid, speed, xway, dir, xpos, sid, lane, ts, seq)``, in the order of time.

    Cars enter all the time, a third of them around mile 30 of each direction. Where a segment holds many cars they
    are slow. In an accident two cars stop at the same place for five to ten reports, and the others in the segment
    slow down. One report of a thousand is lost, so a car may seem to leave and to come back.

    Parameters
    ----------
    expressways, minutes, cars, accidents
        How many; cars and accidents are per expressway.
    seed
        The same seed gives the same reports.
    crowd
        Cars per segment that make traffic slower than 40 miles per hour; take fewer for a test with few cars.
    """
    rng = np.random.default_rng(seed)
    steps = minutes * 60 // REPORT_EVERY
    parts = [part for xway in range(expressways) for part in _drive(_Road(xway, cars, steps, crowd, rng), accidents)]
    reports = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrived = np.flatnonzero(rng.random(len(reports["ts"])) >= LOST)
    order = arrived[np.lexsort((reports["cid"][arrived], reports["ts"][arrived]))]
    columns: dict[str, Any] = {name: values[order] for name, values in reports.items()}
    columns["ts"] = pa.array((ZERO + columns["ts"]) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns | {"seq": np.arange(len(order))})


class _Road:
    """The cars of one expressway; their places are feet from where their direction begins."""

    def __init__(self, xway: int, cars: int, steps: int, crowd: int, rng: np.random.Generator) -> None:
        self.xway, self.steps, self.crowd, self.rng = xway, steps, crowd, rng
        self.heading = rng.integers(0, 2, cars)
        self.phase = rng.integers(0, REPORT_EVERY, cars)
        self.entry = np.sort(rng.integers(0, steps, cars))
        self.free_speed = np.clip(rng.normal(60, 6, cars), 42, 80)
        rush = np.clip(rng.normal(RUSH_MILE, RUSH_SPREAD, cars), 0, MILES - 5)
        mile = np.where(rng.random(cars) < RUSH_SHARE, rush, rng.uniform(0, MILES - 5, cars))
        self.place: Ints = np.rint(mile * MILE).astype(np.int64)
        self.goal = np.minimum(self.place + rng.integers(SHORTEST_TRIP, LONGEST_TRIP, cars), MILES * MILE - 1)
        self.stopped_until: Ints = np.zeros(cars, dtype=np.int64)

    def on_road(self, step: int) -> Ints:
        """The cars that have entered and not arrived."""
        return np.flatnonzero((self.entry <= step) & (self.place < self.goal))

    def segments(self, cars: Ints) -> Ints:
        """The segments they are in."""
        return SEGMENT_STRIDE * (2 * self.xway + self.heading[cars]) + self.place[cars] // MILE

    def collide(self, step: int, accidents: int) -> None:
        """Stop pairs of cars that drive in the same segment at the same place."""
        cars = self.rng.permutation(self.on_road(step))
        cars = cars[self.stopped_until[cars] <= step]
        cars = cars[np.argsort(self.segments(cars), kind="stable")]
        segments = self.segments(cars)
        near = np.flatnonzero(segments[1:] == segments[:-1])
        first = self.rng.choice(near, min(accidents, len(near)), replace=False)
        pairs = np.column_stack([cars[first], cars[first + 1]])
        self.place[pairs] = self.place[pairs[:, :1]]
        self.goal[pairs] = np.maximum(self.goal[pairs], self.place[pairs] + 1)
        stop = self.rng.integers(SHORTEST_STOP, LONGEST_STOP, (len(pairs), 1), endpoint=True)
        self.stopped_until[pairs] = step + stop

    def speeds(self, step: int, cars: Ints, segments: Ints) -> Ints:
        """Miles per hour until the next report."""
        stopped = self.stopped_until[cars] > step
        ease = np.minimum(1, FREE_SHARE * self.crowd / np.bincount(segments)[segments])
        ease *= np.where(np.isin(segments, segments[stopped]), PAST_ACCIDENT, 1.0)
        wish = self.free_speed[cars] * self.rng.uniform(0.9, 1.1, len(cars))
        return np.where(stopped, 0, np.rint(wish * ease)).astype(np.int64)

    def report(self, step: int) -> dict[str, Ints]:
        """What the cars report, before they drive on."""
        cars = self.on_road(step)
        place, segments = self.place[cars], self.segments(cars)
        speed = self.speeds(step, cars, segments)
        lane = np.where(place // MILE == self.goal[cars] // MILE, 4, self.rng.integers(1, 4, len(cars)))
        self.place[cars] += speed * FEET_PER_REPORT
        return {
            "cid": self.xway * len(self.place) + cars,
            "speed": speed,
            "xway": np.full(len(cars), self.xway),
            "dir": self.heading[cars],
            "xpos": np.where(self.heading[cars] == 0, place, MILES * MILE - 1 - place),
            "sid": segments,
            "lane": np.where(self.entry[cars] == step, 0, lane),
            "ts": step * REPORT_EVERY + self.phase[cars],
        }


def _drive(road: _Road, accidents: int) -> list[dict[str, Ints]]:
    """All reports of an expressway; accidents happen in its middle part, when there is traffic."""
    first, last = road.steps // 6, max(road.steps * 2 // 3, road.steps // 6 + 1)
    crashes = np.bincount(road.rng.integers(first, last, accidents), minlength=road.steps)
    parts = []
    for step in range(road.steps):
        if crashes[step]:
            road.collide(step, int(crashes[step]))
        parts.append(road.report(step))
    return parts
