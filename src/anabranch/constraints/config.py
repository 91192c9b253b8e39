"""The knobs of k-Mon, named, with their units and the thesis's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anabranch.errors import QueryError, suggest

Mode = Literal["off", "exact", "discard"]
Unit = Literal["time", "tuples"]
Kind = Literal["rids", "ca", "oap", "oac"]
Selection = Literal["all", "cost"]

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class ConstraintConfig:
    """How constraints are found and used.

    Parameters
    ----------
    mode
        `off` keeps whole windows; `exact` sets aside what a constraint lets go, where rows still find it; `discard`
        forgets it, and loses results when a constraint is violated.
    unit
        Whether k is a span of time, in the unit of the arrivals' times, or a number of tuples.
    threshold
        A constraint is used while its k is at most this, in the same unit.
    slack
        By how much the adherence may worsen and still be noticed for certain: rows wait for `slack` times k.
    sample_share
        The share of rows that are kept to the end of their windows, to notice what is worse than that.
    sample_rows
        So many rows of a window are kept for that at most, in joins of queries, whose windows may be large.
    window_arrivals
        How many arrivals k is learned from.
    kinds
        The constraints that are looked for.
    selection
        `all` uses whatever is below the threshold, as the thesis does; `cost` leaves out what makes rows stay longer.
    keep_no
        Whether rows that cannot contribute are remembered where other rows may still ask for them.
    stop_on_rescue
        In `exact` mode: whether a constraint stops as soon as a row that it set aside is found again.
    seed
        Of the sample.

    >>> ConstraintConfig(mode="exakt")
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: constraints='exakt' is not a mode
      hint: did you mean 'exact'? The modes are: off, exact, discard

    Notes
    -----
    c -> `slack`, p -> `sample_share`, W -> `window_arrivals`.

    References
    ----------
    S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.1.6 and 6.6.3.
    """

    mode: Mode = "exact"
    unit: Unit = "time"
    threshold: float = float("inf")
    slack: float = 1.2
    sample_share: float = 0.01
    sample_rows: int = 500
    window_arrivals: int = 1000
    kinds: frozenset[Kind] = frozenset(KINDS)
    selection: Selection = "cost"
    keep_no: bool = True
    stop_on_rescue: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        modes = get_args(Mode)
        if self.mode not in modes:
            raise QueryError(f"constraints={self.mode!r} is not a mode", hint=suggest(self.mode, modes, "modes"))
        if self.slack < 1:
            raise QueryError(f"slack={self.slack:g} is below 1", hint="1.2 notices that k has grown by a fifth")
        if not 0 <= self.sample_share <= 1:
            raise QueryError(f"sample_share={self.sample_share:g} is not a share", hint="0.01 keeps one row of 100")
        if self.sample_rows < 0:
            raise QueryError(f"sample_rows={self.sample_rows} is below 0", hint="500 are enough to notice most growth")
        if self.window_arrivals < 1:
            raise QueryError("window_arrivals is below 1", hint="1000 learns k from a thousand arrivals")
