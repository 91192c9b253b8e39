"""Streams and relations as plain data, as the oracle and the generators of queries see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Columns: TypeAlias = tuple[tuple[str, str], ...]
Row: TypeAlias = tuple[Any, ...]

SECOND = 1_000_000


@dataclass(frozen=True)
class Stream:
    """A finite stream.

    Parameters
    ----------
    name
        Of the stream.
    columns
        Name and type (`bigint`, `string`) of each column; the sequence and the time are no columns.
    rows
        `(sequence, time in microseconds, value of each column...)`.
    sequenced
        Whether the sequence is declared: it then orders rows of the same time, else their values do.
    arrival
        The order in which the rows arrive, as places in `rows`; empty means as they stand.
    skew
        Microseconds by which a row may arrive behind a row with a later time.
    """

    name: str
    columns: Columns
    rows: tuple[Row, ...]
    sequenced: bool = True
    arrival: tuple[int, ...] = ()
    skew: int = 0

    @property
    def arrived(self) -> list[Row]:
        """The rows in the order of their arrival."""
        return [self.rows[place] for place in self.arrival] if self.arrival else list(self.rows)


@dataclass(frozen=True)
class Relation:
    """A relation: the rows that it begins with, and what changes later.

    A change is `(time, weight, row)`: a row is inserted (1), or one copy of a row that is there is deleted (-1).
    Changes stand in the order of their times.
    """

    name: str
    columns: Columns
    rows: tuple[Row, ...]
    changes: tuple[tuple[int, int, Row], ...] = ()

    @property
    def versions(self) -> list[tuple[Row, int | None, int | None]]:
        """All rows that it ever has, with the time of their insertion (None: ever) and deletion (None: never)."""
        found: list[tuple[Row, int | None, int | None]] = [(row, None, None) for row in self.rows]
        for time, weight, row in self.changes:
            if weight > 0:
                found.append((row, time, None))
            else:
                place = next(i for i, (its, _, end) in enumerate(found) if its == row and end is None)
                found[place] = (row, found[place][1], time)
        return [(row, start, end) for row, start, end in found if start is None or start != end]


@dataclass(frozen=True)
class Cuts:
    """How arrivals come in ticks, and over how many cells: tick i takes the next `batches[name][i]` rows of each."""

    batches: dict[str, tuple[int, ...]]
    cells: int


@dataclass(frozen=True)
class Case:
    """All that a comparison of an engine with the oracle needs."""

    streams: tuple[Stream, ...]
    relations: tuple[Relation, ...]
    query: str
    cuts: Cuts
