"""Single rows of a join and the partners that they meet: sampled, read beside the probes, and never counted.

>>> tracer = JoinTracer(share=1.0, seed=(0, 7))
>>> tracer.chosen(10, 12)
[10, 11]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.joins.probe_pipeline import ProbePipeline
from anabranch.model.arrays import Rows

MOST_OF_A_TICK = 20
"""Rows that one cell traces in a tick; a join of many rows would tell no more by more of them."""
SHOWN_PARTNERS = 5
SHOWN_CHARACTERS = 200

Values = tuple[tuple[str, str], ...]
"""Names of columns, and values as texts."""
RowsOf = Callable[[int, Rows], list[dict[str, Any]]]
"""Reads rows of an input."""


@dataclass(frozen=True)
class Meeting:
    """The partners of a row in one window.

    Parameters
    ----------
    input
        Whose window.
    partners
        How many rows of it the row met, on its own or along the path that leads there.
    shown
        The first of them.
    """

    input: int
    partners: int
    shown: tuple[Values, ...]


@dataclass(frozen=True)
class JoinTrace:
    """What a row of an input met.

    Parameters
    ----------
    input
        Whose row.
    time
        The first instant at which it counts, in microseconds.
    values
        Its columns.
    met
        Windows in the order in which they were probed, up to the first without a partner.
    results
        Combinations that it made.
    """

    input: int
    time: int
    values: Values
    met: tuple[Meeting, ...]
    results: int


class JoinTracer:
    """Picks rows and looks what they meet.

    Parameters
    ----------
    share
        Of the new rows.
    seed
        Of the choice.
    """

    def __init__(self, share: float, seed: Sequence[int]) -> None:
        self._share, self._random = share, np.random.default_rng(seed)
        self.traces: list[JoinTrace] = []

    def chosen(self, first: int, until: int) -> list[int]:
        """Which of the rows from `first` to before `until` are traced."""
        drawn = self._random.random(until - first) < self._share
        left = MOST_OF_A_TICK - len(self.traces)
        return [first + int(row) for row in np.flatnonzero(drawn)[:left]]

    def look(self, pipeline: ProbePipeline, rows_of: RowsOf, first: int, until: int) -> None:
        """Trace some of the new rows of an input, while the windows are as those rows find them."""
        root = pipeline.tree.root
        for row in self.chosen(first, until):
            found, results = pipeline.met(row)
            met = tuple(
                Meeting(other, len(rows), tuple(map(_shown, rows_of(other, rows[:SHOWN_PARTNERS]))))
                for other, rows in found
            )
            (values,) = map(_shown, rows_of(root, np.array([row])))
            self.traces.append(JoinTrace(root, int(pipeline.stores[root].start[row]), values, met, results))


def _shown(row: Mapping[str, Any]) -> Values:
    """A row for people; columns that nobody wrote are left out.

    >>> _shown({"host": "web", "n": None, "_key0": 7})
    (('host', 'web'), ('n', 'NULL'))
    """
    texts = {name: "NULL" if value is None else str(value) for name, value in row.items() if not name.startswith("_")}
    most = SHOWN_CHARACTERS
    return tuple((name, text if len(text) <= most else text[: most - 1] + "…") for name, text in texts.items())
