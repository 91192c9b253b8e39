"""Traces of single rows: their values, the route they took, and the verdict and time of every predicate."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.row_trace import ChunkWatch, RowSampler, Said
from anabranch.routing.route_plan import RoutePlan

RECENT_TRACES = 200
MOST_OF_A_TASK = 20
MOST_OF_A_CHUNK = 4
SHOWN_CHARACTERS = 200
OTHER_PLAN = "the other plan"


@dataclass(frozen=True)
class PredicateTrace:
    """What a predicate said about a row.

    Parameters
    ----------
    predicate
        Its name.
    verdict
        `passed`, `dropped` or `failed`.
    seconds
        Per row, on average over the rows of the call.
    rows
        Of the call.
    profiling
        Whether another one had dropped the row before, so that it was tried for the statistics alone.
    """

    predicate: str
    verdict: Said
    seconds: float
    rows: int
    profiling: bool


@dataclass(frozen=True)
class RowTrace:
    """What became of a row in one stage of a filter.

    Parameters
    ----------
    values
        Of the columns that predicates read, as texts.
    route
        By what the row was sent its way; empty where all rows take one, `OTHER_PLAN` if a rival of the plan in use
        was compared on it.
    calls
        In the order in which the predicates were called.
    passed
        Whether it passed all predicates of the stage.
    partition, at
        Of which input, and how many rows of the task came before.
    """

    values: tuple[tuple[str, str], ...]
    route: str
    calls: tuple[PredicateTrace, ...]
    passed: bool
    partition: int
    at: int


class TaskTraces:
    """Watches a few rows of a task; the latest ones are kept.

    Parameters
    ----------
    share
        Of the rows.
    names
        Of the predicates.
    partition
        Of the input.
    """

    def __init__(self, share: float, names: Sequence[str], partition: int) -> None:
        self._sampler = RowSampler(share, MOST_OF_A_CHUNK, seed=partition)
        self._names, self._partition = names, partition
        self._traces: deque[RowTrace] = deque(maxlen=MOST_OF_A_TASK)
        self._first = self._rows = 0

    def watch(self, rows: int) -> ChunkWatch | None:
        """Watches some rows of a chunk, or none; called for every chunk."""
        self._first, self._rows = self._rows, self._rows + rows
        return self._sampler.watch(rows)

    def note(self, watch: ChunkWatch, values: dict[str, pa.Array], routes: Sequence[str], passed: set[int]) -> None:
        """Enter what was watched in a chunk, with the columns of the chunk."""
        for (row, said), route in zip(watch.calls.items(), routes, strict=True):
            shown = tuple((name, _shown(array[row].as_py())) for name, array in values.items())
            calls = tuple(
                PredicateTrace(self._names[each.filter], each.verdict, each.seconds, each.rows, each.profiling)
                for each in said
            )
            self._traces.append(RowTrace(shown, route, calls, row in passed, self._partition, self._first + row))

    def taken(self) -> tuple[RowTrace, ...]:
        """All that are kept."""
        return tuple(self._traces)


class TraceLog:
    """The latest traces of a filter, as they reached the driver."""

    def __init__(self) -> None:
        self._traces: deque[RowTrace] = deque(maxlen=RECENT_TRACES)

    def extend(self, traces: Iterable[RowTrace]) -> None:
        """Add traces; the oldest make room."""
        self._traces.extend(traces)

    def all(self) -> tuple[RowTrace, ...]:
        """Oldest first."""
        return tuple(self._traces)


def require_share(share: Any) -> float:
    """A share of rows, from 0 to 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise QueryError(f"share is {share!r}", hint="give the share of rows to trace, from 0 (none) to 1")
    return float(share)


def routes_of(watch: ChunkWatch, plan: RoutePlan | None, attributes: AttributeArrays) -> list[str]:
    """By what each watched row was sent its way."""
    rows = list(watch.calls)
    if plan is None:
        return [""] * len(rows)
    picked = pa.array(np.array(rows, dtype=np.int64))
    codes = plan.classifier.classify({name: array.take(picked) for name, array in attributes.items()})
    return [" | ".join(plan.classifier.shown([int(code)])) or "all other rows" for code in codes]


def _shown(value: Any) -> str:
    """A value for people.

    >>> _shown("x" * 300)[-3:], _shown(None), _shown(1.5)
    ('xx…', 'NULL', '1.5')
    """
    text = "NULL" if value is None else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
