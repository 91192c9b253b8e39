"""What routes cost by themselves, measured on this machine: telling rows apart, and handling one more route.

>>> import pyarrow as pa
>>> rng = np.random.default_rng(0)
>>> attributes = {"x": pa.array(rng.random(400)), "zone": pa.array(["a", "b"] * 200)}
>>> found = measured(MeshConfig(), attributes, filters=3, row_seconds=1e-5)
>>> 0 < found.classification_seconds < 1e-5, 0 < found.overhead_seconds < 1e-5
(True, True)

Notes
-----
Equation 2 of the paper: the cost of classification is `classification_seconds` per test on a row's way through the
tree; OVH is `overhead_seconds` for a tuple and route: what a group of rows costs beyond its filters, shared by a chunk.
A chunk is no longer than a batch of Spark's, and for every group each filter is called once more, which takes its time
however few rows there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.mesh.config import MeshConfig
from anabranch.ordering.fixed import Fixed
from anabranch.ordering.pipeline import CHUNK_SECONDS, FilterPipeline, Verdict
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.value_classes import split

TIMES = 3
BATCH_ROWS = 4096
CALL_SECONDS = 5e-5


def measured(config: MeshConfig, attributes: Mapping[str, pa.Array], *, filters: int, row_seconds: float) -> MeshConfig:
    """The configuration with measured overheads, for rows that all filters together take `row_seconds` for."""
    chunk = _chunk_rows(row_seconds)
    tests = [_test_seconds(name, array, chunk) for name, array in attributes.items()]
    known = [seconds for seconds in tests if seconds is not None]
    classification = float(np.median(known)) / chunk if known else config.classification_seconds
    return replace(config, classification_seconds=classification, overhead_seconds=_group_seconds(filters) / chunk)


def seconds_around(plan: RoutePlan, attributes: Mapping[str, pa.Array], row_seconds: float) -> float:
    """Seconds per row that a plan costs beside its filters: its own classifier, and the routes beyond the first."""
    chunk = _chunk_rows(row_seconds)
    seen = {name: _repeated(attributes[name], chunk) for name in plan.classifier.attributes}
    groups = (len(plan.orders) - 1) * _group_seconds(len(plan.orders[0]))
    return (_fastest(lambda: plan.classifier.classify(seen)) + groups) / chunk


def _chunk_rows(row_seconds: float) -> int:
    return int(min(max(CHUNK_SECONDS / max(row_seconds, 1e-9), 1), BATCH_ROWS))


def _repeated(array: pa.Array, rows: int) -> pa.Array:
    return pa.concat_arrays([array] * (1 + rows // max(len(array), 1))).slice(0, rows)


def _test_seconds(name: str, array: pa.Array, rows: int) -> float | None:
    """Seconds to tell a chunk of rows apart by one attribute."""
    found = split(name, array)
    if found is None:
        return None
    whole = _repeated(array, rows)
    return _fastest(lambda: found.encode(whole))


def _group_seconds(filters: int) -> float:
    """Seconds that a group of rows takes on its way through filters that cost nothing, beside calling them."""
    pipeline, rows = FilterPipeline(Fixed(filters)), 64
    passed = np.ones(rows, dtype=np.bool_)
    way = _fastest(lambda: pipeline.process(rows, lambda f, chosen: Verdict(passed[: len(chosen)])))
    return way + filters * CALL_SECONDS


def _fastest(run: Callable[[], object]) -> float:
    def once() -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    return min(once() for _ in range(TIMES))
