"""How rows reach cells, by their columns: which cells these are is for a placement to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """How the rows of one input reach the cells of a stage.

    Parameters
    ----------
    codes
        Columns to add: a name, and the columns of which it is the hash code.
    routes
        For every dimension in which cells may lie the columns whose code chooses the place, or None: to all places.
    rows
        Columns whose code tells rows of the same key apart, so that a hot key may be spread; none if it may not.
    """

    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    routes: tuple[tuple[str, ...] | None, ...] = ()
    rows: tuple[str, ...] = ()
