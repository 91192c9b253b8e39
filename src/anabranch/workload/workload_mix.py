"""The mix of queries as a vector of features, and a signal when queries that are registered differ from those before.

>>> few, many = [_example(columns=2) for _ in range(20)], [_example(columns=15) for _ in range(20)]
>>> mix(few)["projected columns"], mix(many)["projected columns"]
(2.0, 15.0)
>>> [str(each) for each in mix_drifts([*few, *many])]
['from q on, 15.0 projected columns instead of 2.0']
>>> mix_drifts(few)
[]

Notes
-----
Table 1 of the report: *number of attributes in the select clause* is `projected columns`, *in the where clause*
`condition columns`, *tables referenced* `sources`, *nested subqueries* `nested queries`, *attributes in aggregation
clauses* `aggregate columns`. Names of attributes and tables become one number, `familiarity`: the cosine of the angle
between the columns of a query and how often the queries before read each column.

A feature n is seen by its detector as n / (n + 4), from 0 to 1, so that ten columns more count at 2 and hardly at 50.
The detector is Page's test with the parameters below. Of 200 random mixes of 120 queries none gave an alarm; where 3
projected columns became 12 in the middle, or other columns were read from there on, all did, and in the median named
the very query. ADWIN (delta 0.1) noticed a change after 30 queries
42 queries later in the median, and none with river's own delta of 0.002.

*Differs from the paper*: it measures what changed features do to indexes that were chosen before, and has no detector.

References
----------
S. Papadomanolakis, M. Shao, *Characterizing Change in SQL Workloads*, HotDB 2002 (CMU), section 2. E. S. Page,
*Continuous inspection schemes*, Biometrika 41, 1954.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from anabranch.errors import MissingExtra
from anabranch.workload.query_features import QueryFeatures

NUMBERS: dict[str, Callable[[QueryFeatures], int]] = {
    "projected columns": lambda query: len(query.output),
    "condition columns": lambda query: len(query.condition_columns),
    "sources": lambda query: len(query.streams) + len(query.relations),
    "nested queries": lambda query: query.nested,
    "aggregate columns": lambda query: len(query.aggregate_columns),
}
FAMILIARITY = "familiarity"
HALF = 4
"""A feature of this size is seen as a half."""
FEWEST_QUERIES = 10
"""Before so many queries there is no mix that could change."""
TOLERATED = 0.05
"""By so much a feature may differ from its mean at every query."""
THRESHOLD = 2.0
"""What differs beyond that adds up to so much at a change."""


@dataclass(frozen=True)
class Drift:
    """The mix of queries has changed: a feature's mean before a query, and from it on."""

    query: str
    feature: str
    before: float
    now: float

    def __str__(self) -> str:
        return f"from {self.query} on, {self.now:.1f} {self.feature} instead of {self.before:.1f}"


def mix(queries: Sequence[QueryFeatures]) -> dict[str, float]:
    """The mean of each feature, and for each column the share of queries that read it."""
    count = max(1, len(queries))
    means = {name: sum(map(number, queries)) / count for name, number in NUMBERS.items()}
    read = Counter(column for query in queries for column in query.columns)
    return means | {column: times / count for column, times in sorted(read.items())}


def mix_drifts(queries: Sequence[QueryFeatures]) -> list[Drift]:
    """Changes of the mix, given queries in the order in which they were registered; after each a new mix begins."""
    if len(queries) <= FEWEST_QUERIES:
        return []
    found: list[Drift] = []
    watch = _MixWatch()
    for query in queries:
        changes = watch.add(query)
        if changes:
            found += changes
            watch = _MixWatch()
    return found


class _MixWatch:
    """Watches the features of one mix until it changes."""

    def __init__(self) -> None:
        self._detectors = {name: _detector("both") for name in NUMBERS} | {FAMILIARITY: _detector("down")}
        self._values: dict[str, list[float]] = {name: [] for name in self._detectors}
        self._queries: list[QueryFeatures] = []
        self._read: Counter[str] = Counter()

    def add(self, query: QueryFeatures) -> list[Drift]:
        """The features that have changed."""
        values = {name: float(number(query)) for name, number in NUMBERS.items()} | {FAMILIARITY: self._known(query)}
        self._queries.append(query)
        self._read.update(query.columns)
        for name, value in values.items():
            self._values[name].append(value)
            if name != FAMILIARITY:
                self._detectors[name].update(value / (value + HALF))
            elif len(self._queries) > FEWEST_QUERIES:
                self._detectors[name].update(value)
        return [self._drift(name) for name, detector in self._detectors.items() if detector.drift_detected]

    def _known(self, query: QueryFeatures) -> float:
        """How far this query reads what the queries before do, 0 to 1."""
        columns, values = query.columns, self._values[FAMILIARITY]
        if not columns and values:
            return values[-1]  # it reads nothing that could be new
        length = math.sqrt(len(columns) * sum(times**2 for times in self._read.values()))
        return sum(self._read[column] for column in columns) / length if length else 0.0

    def _drift(self, feature: str) -> Drift:
        values = np.array(self._values[feature])
        place = _change(values)
        return Drift(self._queries[place].name, feature, float(values[:place].mean()), float(values[place:].mean()))


def _change(values: np.ndarray[Any, Any]) -> int:
    """Where values change: both parts differ least from their means."""
    after = np.arange(1, len(values))
    gaps = values.cumsum()[:-1] / after - values[::-1].cumsum()[-2::-1] / (len(values) - after)
    return int(after[np.argmax(gaps**2 * after * (len(values) - after))])


def _detector(mode: str) -> Any:
    """Page's test for changes of a mean up, down or both: queries become familiar by themselves."""
    try:
        module = import_module("river.drift")
    except ImportError:
        raise MissingExtra("river", "mesh", needed_for="changes of the mix of queries") from None
    return module.PageHinkley(min_instances=FEWEST_QUERIES, delta=TOLERATED, threshold=THRESHOLD, alpha=1.0, mode=mode)


def _example(columns: int) -> QueryFeatures:
    """A query that reads some columns of one stream, for the example above."""
    names = tuple(f"c{number}" for number in range(columns))
    return QueryFeatures("q", ("s",), (), (("s", names[:1]),), (), (), (), (), (), (), (), names)
