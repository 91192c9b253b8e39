"""Where the times of a stream come from, and how far out of order its rows may be, as a user says it.

>>> AutoSkew(late=0.01)
AutoSkew(late=0.01, begin='10 seconds')
>>> AutoSkew(late=2)
Traceback (most recent call last):
    ...
anabranch.errors.QueryError: late is 2
  hint: the share of rows that may come late, 0.001 for one of a thousand
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final

from anabranch.errors import QueryError


class Arrival(Enum):
    """The one value that says that rows have no times of their own."""

    ARRIVAL = "arrival"


ARRIVAL: Final = Arrival.ARRIVAL
"""`Engine.stream(..., timestamp=ARRIVAL)`: rows get the time at which their batch is taken."""


@dataclass(frozen=True)
class AutoSkew:
    """`Engine.stream(..., skew=AutoSkew())`: the skew follows the delays of rows.

    Parameters
    ----------
    late
        The share of rows that may come late.
    begin
        The skew before enough rows have been seen to know a better one.
    """

    late: float = 0.001
    begin: str | timedelta = "10 seconds"

    def __post_init__(self) -> None:
        """Refuse what is not a share."""
        if not 0 < self.late < 1:
            hint = "the share of rows that may come late, 0.001 for one of a thousand"
            raise QueryError(f"late is {self.late}", hint=hint)
