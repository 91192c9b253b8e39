"""What all operators share: elements, ticks, and the interface of an operator.

A relation that varies with time is a bag of *elements*: rows of an Arrow table with the columns of the relation and

| column | meaning |
|---|---|
| `_start` | microseconds, the first instant at which the element counts |
| `_end` | the first instant at which it counts no longer; `FOREVER` if that is not known (yet) |
| `_weight` | how often the row is there meanwhile; negative elements take earlier ones back |

The relation at t is the bag of rows of the elements with `_start <= t < _end`, each as often as the sum of its weights.
A window over time gives every row both ends at once, so that no operator has to look for rows that expire; a window
over rows takes an element back when newer rows push it out. Selection, projection and union work on elements one by
one; a join multiplies weights and intersects intervals. Only operators that count rows have to see all changes of an
instant together.

Notes
-----
Elements are STREAM's (thesis, section 2.2.1) with both signs in one where both are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.joins.join_trace import JoinTrace, JoinTracer
from anabranch.joins.probe_report import ProbeReport
from anabranch.ordering.base import Seed

Micros = npt.NDArray[np.int64]
Port: TypeAlias = tuple[int, ...]
"""One of several outputs of an operator: the sizes of the windows over which it is wanted."""

START, END, WEIGHT = "_start", "_end", "_weight"
ELEMENT = (START, END, WEIGHT)
TIME = "_time"
EVER = -(2**62)
FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Tick:
    """A step in time: all input before `until` has come, so the results in [start, until) are final.

    Parameters
    ----------
    start, until
        Microseconds; until is excluded.
    origin
        The first instant of the query: that of its first input. Before, there was nothing. None while nothing has come.
    instants
        Sorted instants in [start, until) at which some input has an element; only `Rstream` asks for them.
    slides
        Or the steps at whose multiples, from the origin on, these instants lie.
    taps
        Instants for each of the taps of an operator; see `tapped.py`.
    """

    start: int
    until: int
    origin: int | None = None
    instants: Micros = field(default_factory=lambda: np.empty(0, np.int64))
    slides: tuple[int, ...] = ()
    taps: Mapping[str, Micros] = field(default_factory=dict)


class Operator(ABC):
    """One stateful operator in one cell.

    Attributes
    ----------
    goes_to_disk
        Whether it can keep to a limit of memory, by putting rows on disk.

    `advance` is called tick after tick, each starting where the last one ended. It is a function of the inputs alone:
    the same inputs in other ticks, or in another order of rows, give the same relation. Inputs say nothing about the
    time before `tick.start`, except that elements from `EVER` stand for what was always there.
    """

    goes_to_disk = False

    @abstractmethod
    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those that follow from them."""

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[pa.Table]:
        """Like `advance`, in tables one after the other, at least one: the result may be far more than fits in memory.

        The state is that of the end of the tick once all have been taken.
        """
        yield self.advance(inputs, tick)

    def ports(self, inputs: Sequence[pa.Table], tick: Tick) -> Mapping[Port | None, pa.Table]:
        """Like `advance`, for an operator that has several outputs."""
        return {None: self.advance(inputs, tick)}

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Like `advance` without the result: to bring a copy of the state up to date."""
        self.advance(inputs, tick)

    @abstractmethod
    def snapshot(self) -> list[pa.Table]:
        """All state, as tables; a fresh operator that restores them goes on in the same way."""

    @abstractmethod
    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over what `snapshot` returned; called before the first tick."""

    def learn(self, seeds: Mapping[int, Seed]) -> None:
        """Begin with what joins have learned in other workers, by input; of no use to operators that join nothing."""
        return

    def limit_caches(self, cache_bytes: int) -> None:
        """How much caches of joins may take from now on; of no use to operators that join nothing."""
        return

    def limit_memory(self, limit: int | None) -> None:
        """Take so many bytes of memory from now on, if that is possible; None takes what is needed."""
        return

    def take_peak(self) -> int:
        """The most bytes in memory since the last call, approximately."""
        return self.held_bytes

    def take_probes(self) -> tuple[ProbeReport, ...]:
        """What the inputs of a join have probed since the last call; other operators report nothing."""
        return ()

    def trace(self, tracer: JoinTracer | None) -> None:
        """Look at some of the rows that come to a join, or at none; other operators have nothing to trace."""
        return

    def take_traces(self) -> tuple[JoinTrace, ...]:
        """The rows that a join was to look at."""
        return ()

    def take_constraints(self) -> ConstraintReport | None:
        """What a join has found out about its inputs, if it looks for that."""
        return None

    @property
    def file_bytes(self) -> int:
        """Bytes of the state on disk, outside of the log."""
        return 0

    @property
    @abstractmethod
    def held_rows(self) -> int:
        """Rows in the state."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes of the state in memory, approximately."""
