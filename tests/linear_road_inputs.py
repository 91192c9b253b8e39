"""Inputs of Linear Road that are small, and hard on the borders of windows, speeds and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.benches.linearroad import Inputs, Rules, asked, generate

RULES = Rules(crowd=3, day=4)
ASKED = 0.2
SECOND = 1_000_000


def generated() -> Inputs:
    """Some traffic."""
    return asked(generate(minutes=12, cars=150, seed=7, crowd=3, accidents=12), seed=7, share=ASKED)


def hostile(cars: int = 40, ticks: int = 40, segments: int = 14) -> Inputs:
    """Cars that jump between few segments or stay, at the limits of speed, every 15 seconds or not."""
    rng = np.random.default_rng(5)
    ts, cid = (axis.ravel() for axis in np.meshgrid(np.arange(ticks), np.arange(cars), indexing="ij"))
    here = rng.random(len(ts)) < np.where(rng.random((ticks, cars)) < 0.2, 0.0, 0.6).ravel()
    stays = cid % 4 > 0
    sid = np.where(stays, cid // 2 % segments, rng.integers(0, segments, len(ts)))
    columns = {"cid": cid, "speed": rng.choice([38, 40, 41], len(ts)), "xpos": 5280 * sid, "sid": sid, "ts": 15 * ts}
    moved = rng.random(len(ts)) < 0.45
    columns["xpos"] = columns["xpos"] + moved * rng.integers(1, 100, len(ts))
    table: dict[str, Any] = {name: values[here] for name, values in columns.items()}
    table["ts"] = pa.array(table["ts"] * SECOND).cast(pa.timestamp("us", "UTC"))
    return asked(pa.table(table | {"seq": np.arange(here.sum())}), seed=5, share=ASKED)
