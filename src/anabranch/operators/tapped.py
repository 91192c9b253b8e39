"""An operator and what follows on it in the same cells: the last step of a query is its own, what comes before is not.

What follows from a group is in the cell of the group, so its changes can be computed there: one shuffle serves both.
Queries that share an operator tap it, each in its own way: one wants the elements as they are, one the changes of some
columns, one a window of fewer rows. The log is that of the operator's inputs; a snapshot has the state of the operator
and, by itself, that of each tap.

>>> from anabranch.operators.changelog import Changelog
>>> from anabranch.operators.set_operation import SetOperator
>>> taps = {"all": Tap(), "changes": Tap(("city",), lambda: Changelog("relation"))}
>>> both = TappedOperator(lambda: SetOperator(1, "distinct"), taps)
>>> table = pa.table({"city": [7, 7], "_key": [1, 1], "_start": [3, 5], "_end": [9, 9], "_weight": [1, 1]})
>>> [(key, part.to_pydict()) for key, part in both.in_parts([table], Tick(0, 10, origin=3))][1]
('changes', {'city': [7, 7], '_time': [3, 9], '_weight': [1, -1]})
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.joins.join_trace import JoinTrace, JoinTracer
from anabranch.joins.probe_report import ProbeReport
from anabranch.operators.base import ELEMENT, Operator, Port, Tick
from anabranch.operators.elements import KEY, codes, with_ints
from anabranch.operators.state_parts import part_of, united
from anabranch.ordering.base import Seed


@dataclass(frozen=True)
class Made:
    """An operator as data: what makes it, and of which values. It is called to start one, and can be compared.

    >>> from anabranch.operators.changelog import Changelog
    >>> Made(Changelog, ("istream",))().kind, Made(Changelog, ("istream",)) == Made(Changelog, ("dstream",))
    ('istream', False)
    """

    operator: Callable[..., Operator]
    values: tuple[Any, ...] = ()

    def __call__(self, *more: Any) -> Operator:
        """Start one."""
        return self.operator(*self.values, *more)


BASE = ""
"""In a snapshot, the operator itself among its taps."""


@dataclass(frozen=True)
class Tap:
    """What is wanted of an operator.

    Parameters
    ----------
    columns
        Of the operator, that the next one gets.
    make
        Starts the operator that follows; without one the elements are wanted as they are.
    port
        Which of several outputs; see `Operator.ports`.
    slides
        Steps at whose multiples the operator that follows is asked.
    """

    columns: tuple[str, ...] = ()
    make: Callable[[], Operator] | None = None
    port: Port | None = None
    slides: tuple[int, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Tap:
        """The same with other names of the operator's columns."""
        return replace(self, columns=tuple(names[name] for name in self.columns))


class TappedOperator:
    """An operator with its taps.

    Parameters
    ----------
    make
        Starts the operator; if it has ports, with those that are wanted.
    taps
        What is wanted of it, under names that are the same for all who want the same.
    """

    def __init__(self, make: Callable[..., Operator], taps: Mapping[str, Tap]) -> None:
        ports = {tap.port for tap in taps.values() if tap.port is not None}
        self._base = make(tuple(sorted(ports))) if ports else make()
        self._taps = taps
        self._next = {key: tap.make() for key, tap in taps.items() if tap.make is not None}

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[tuple[str, pa.Table]]:
        """What each tap gives, in tables one after the other; the state is up to date once all have been taken."""
        [(key, only), *others] = self._taps.items()
        if not others and only == Tap():
            yield from ((key, part) for part in self._base.in_parts(inputs, tick))
            return
        found = self._base.ports(inputs, tick)
        for key, tap in self._taps.items():
            if key in self._next:
                parts = self._next[key].in_parts([self._between(found[tap.port], tap)], _asked(tick, key, tap))
                yield from ((key, part) for part in parts)
            else:
                yield key, found[tap.port]

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        if not self._next:
            self._base.absorb(inputs, tick)
            return
        found = self._base.ports(inputs, tick)
        for key, follower in self._next.items():
            tap = self._taps[key]
            follower.absorb([self._between(found[tap.port], tap)], _asked(tick, key, tap))

    def _between(self, found: pa.Table, tap: Tap) -> pa.Table:
        table = found.select([*tap.columns, *ELEMENT])
        return with_ints(table, {KEY: codes(table, tap.columns)})

    def learn(self, seeds: Mapping[int, Seed]) -> None:
        """Begin with what the operator, a join, has learned elsewhere."""
        self._base.learn(seeds)

    def limit_caches(self, cache_bytes: int) -> None:
        """How much caches of the operator, a join, may take from now on."""
        self._base.limit_caches(cache_bytes)

    def limit_memory(self, limit: int | None) -> None:
        """How many bytes of memory the operator may take from now on; what follows on it keeps what it needs."""
        self._base.limit_memory(limit)

    def take_peak(self) -> int:
        """The most bytes in memory since the last call."""
        return self._base.take_peak() + sum(each.held_bytes for each in self._next.values())

    @property
    def goes_to_disk(self) -> bool:
        """Whether the operator can keep to a limit of memory."""
        return self._base.goes_to_disk

    @property
    def fixed_bytes(self) -> int:
        """Of the bytes in memory, those that cannot go to disk."""
        return self.held_bytes - (self.base_bytes if self._base.goes_to_disk else 0)

    def take_probes(self) -> tuple[ProbeReport, ...]:
        """What the inputs of a join have probed since the last call."""
        return self._base.take_probes()

    def trace(self, tracer: JoinTracer | None) -> None:
        """Look at some of the rows that come to the operator, if it is a join, or at none."""
        self._base.trace(tracer)

    def take_traces(self) -> tuple[JoinTrace, ...]:
        """The rows that a join was to look at."""
        return self._base.take_traces()

    def take_constraints(self) -> ConstraintReport | None:
        """What a join has found out about its inputs."""
        return self._base.take_constraints()

    def snapshot(self) -> list[pa.Table]:
        """State of the operator and of its taps, and how many tables each has."""
        parts = {BASE: self._base.snapshot()} | {key: each.snapshot() for key, each in self._next.items()}
        return _together(parts)

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot, which may have more taps."""
        parts = _apart(tables)
        self._base.restore(parts[BASE])
        for key, each in self._next.items():
            each.restore(parts[key])

    @property
    def held_rows(self) -> int:
        """Rows in the state of all."""
        return self.base_rows + sum(each.held_rows for each in self._next.values())

    @property
    def held_bytes(self) -> int:
        """Bytes of all in memory, approximately."""
        return self.base_bytes + sum(each.held_bytes for each in self._next.values())

    @property
    def file_bytes(self) -> int:
        """Bytes of the state on disk, outside of the log."""
        return self._base.file_bytes

    @property
    def base_rows(self) -> int:
        """Rows in the state of the operator itself, which all taps share."""
        return self._base.held_rows

    @property
    def base_bytes(self) -> int:
        """Bytes of the operator itself."""
        return self._base.held_bytes


def tapped_part(tables: Sequence[pa.Table], column: str, values: Collection[int]) -> list[pa.Table]:
    """Of a snapshot, what belongs to some values of a column."""
    return _together({key: part_of(some, column, values) for key, some in _apart(tables).items()})


def tapped_united(states: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
    """One snapshot of several that know different values of a column; all have the taps of the first."""
    apart = [_apart(tables) for tables in states]
    return _together({key: united([each[key] for each in apart]) for key in apart[0]})


def _apart(tables: Sequence[pa.Table]) -> dict[str, list[pa.Table]]:
    head, *rest = tables
    parts: dict[str, list[pa.Table]] = {}
    for key, count in zip(head["of"].to_pylist(), head["tables"].to_pylist(), strict=True):
        parts[key], rest = rest[:count], rest[count:]
    return parts


def _together(parts: Mapping[str, Sequence[pa.Table]]) -> list[pa.Table]:
    head = pa.table({"of": list(parts), "tables": [len(tables) for tables in parts.values()]})
    return [head, *(table for tables in parts.values() for table in tables)]


def _asked(tick: Tick, key: str, tap: Tap) -> Tick:
    """The tick with the instants at which a tap is asked."""
    return replace(tick, instants=tick.taps.get(key, np.empty(0, np.int64)), slides=tap.slides, taps={})
