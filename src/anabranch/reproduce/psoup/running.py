"""Builds the three systems over the same tuples and queries, and measures what they do: in time and in steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.psoup.names import COMPLETE, NOMAT, PARTIAL
from anabranch.reproduce.psoup.predicates import Query, Window
from anabranch.reproduce.psoup.query_stem import Probing
from anabranch.reproduce.psoup.system import Materialise, PSoup

MATERIALISE: dict[str, Materialise] = {NOMAT: "none", PARTIAL: "partial", COMPLETE: "complete"}
MICRO = 1e-6


def systems(rows: Counts, queries: Sequence[Query]) -> dict[str, PSoup]:
    """NoMat, PSoup-P and PSoup-C: tuples first, then queries, over a window of all tuples."""
    return {name: system(how, "index", rows, queries) for name, how in MATERIALISE.items()}


def system(materialise: Materialise, probing: Probing, rows: Counts, queries: Sequence[Query]) -> PSoup:
    """One of them."""
    soup = PSoup(rows.shape[1], len(rows), materialise, probing)
    soup.insert_all(rows)
    for query in queries:
        soup.register(query, Window.sliding(len(rows)))
    return soup


def microseconds(call: Callable[[], Any], repetitions: int = 3) -> float:
    """The shortest time of some calls."""
    found = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found) / MICRO


def response(invoke: Callable[[int], Any], queries: int) -> float:
    """The mean time of an invocation, in microseconds."""
    invoke(0)
    return float(np.mean([microseconds(partial(invoke, query)) for query in range(queries)]))


def steps(soup: PSoup, queries: int) -> float:
    """What an invocation visits on average: index entries, words or elements, and a tuple each that is copied."""
    before, copied = _visited(soup), 0
    for query in range(queries):
        copied += len(soup.slots(query))
    return (_visited(soup) - before + copied) / queries


def _visited(soup: PSoup) -> int:
    return soup.data.steps + (soup.results.steps if soup.results is not None else 0)


def same_answers(found: Mapping[str, PSoup], queries: int) -> float:
    """The tuples that a query answers on average, after a look at whether all systems answer the same."""
    first, *others = found.values()
    total = 0
    for query in range(queries):
        answer = np.sort(first.slots(query))
        if not all(np.array_equal(answer, np.sort(other.slots(query))) for other in others):
            raise AssertionError("systems disagree about a query's answer")
        total += len(answer)
    return total / queries
