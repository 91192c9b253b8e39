"""What Linear Road reads: reports of cars, questions for accounts, and the segments that there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.linear_road_traffic import MILES, SEGMENT_STRIDE, Ints, generate

SECOND = 1_000_000
ASKED_SHARE = 0.01
"""Questions of each kind, per report of a car."""


@dataclass(frozen=True)
class Inputs:
    """Three streams and a relation; questions are ``(cid, qid, ts, seq)``."""

    cars: pa.Table
    balances: pa.Table
    expenses: pa.Table
    segments: pa.Table

    def write(self, folder: Path) -> None:
        """As files, for the script; `folder` is what it calls ``linear-road``."""
        for name in ("cars", "balances", "expenses", "segments"):
            (folder / name).mkdir(parents=True)
            pq.write_table(getattr(self, name), folder / name / "0.parquet")


def inputs(
    expressways: int = 1, minutes: int = 30, cars: int = 7000, seed: int = 0, *, crowd: int = 50, accidents: int = 6
) -> Inputs:
    """Traffic as `generate` makes it, and questions of cars that have been seen."""
    return asked(generate(expressways, minutes, cars, seed, crowd=crowd, accidents=accidents), seed)


def asked(reports: pa.Table, seed: int = 0, share: float = ASKED_SHARE) -> Inputs:
    """Questions to reports, all over their time: what a car owes, and what it has spent in a day."""
    rng = np.random.default_rng(seed)
    times = reports["ts"].cast(pa.int64()).to_numpy()
    cids = reports["cid"].to_numpy()
    roads = np.unique(reports["sid"].to_numpy() // SEGMENT_STRIDE)
    segments = (SEGMENT_STRIDE * roads[:, None] + np.arange(MILES)).ravel()
    count = max(1, round(share * len(reports)))
    balances, expenses = (_questions(times, cids, count, kind, rng) for kind in (0, 1))
    return Inputs(reports, balances, expenses, pa.table({"sid": segments}))


def _questions(times: Ints, cids: Ints, count: int, kind: int, rng: np.random.Generator) -> pa.Table:
    """Half of them at the very moment of a report; numbers of the second kind are odd."""
    about = np.sort(rng.integers(0, len(times), count))
    at = times[about] + np.where(rng.random(count) < 0.5, 0, rng.integers(0, 30 * SECOND, count))
    order = np.argsort(np.minimum(at, times[-1]), kind="stable")
    numbers = np.arange(count)
    return pa.table(
        {
            "cid": cids[about][order],
            "qid": 2 * numbers + kind,
            "ts": pa.array(np.minimum(at, times[-1])[order]).cast(pa.timestamp("us", "UTC")),
            "seq": numbers,
        }
    )
