"""What a call returns and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from anabranch.errors import DataError


@dataclass(frozen=True)
class Reply:
    """What a model or a service answered, and what that cost.

    Parameters
    ----------
    value
        The answer; with `batch`, a list of them.
    tokens
        Tokens that the call took, in both directions.
    money
        What it cost, in the unit of `budget`.

    >>> Reply(0.8, tokens=120, money=0.0004).value
    0.8
    >>> Reply(0.8, money="0.0004")
    Traceback (most recent call last):
        ...
    anabranch.errors.DataError: a reply has money='0.0004'
      hint: a number from 0 on: what the call has cost
    """

    value: Any
    tokens: float = 0.0
    money: float | None = None

    def __post_init__(self) -> None:
        given: Any
        for name, given in (("tokens", self.tokens), ("money", self.money or 0.0)):
            if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < math.inf:
                raise DataError(f"a reply has {name}={given!r}", hint="a number from 0 on: what the call has cost")


@dataclass
class Bill:
    """What some rows have cost: calls made, rows that needed none, retries, tokens, money, rows that were not asked."""

    calls: float = 0
    hits: float = 0
    retries: float = 0
    tokens: float = 0.0
    money: float = 0.0
    unasked: float = 0

    def add(self, other: Bill) -> None:
        """Count another bill in."""
        for f in fields(Bill):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


class Unasked(str):
    """Why a row was not asked: no error of the row, and no answer either."""

    __slots__ = ()
