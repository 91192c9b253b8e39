"""How a predicate calls: what its user has said about it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anabranch.calls.durations import seconds_of
from anabranch.calls.rate import Rate
from anabranch.errors import QueryError
from anabranch.storage import folder_of

Cost = Literal["time", "money"]
MOST_AT_ONCE = 10_000
USUAL_SECONDS = 60.0


@dataclass(frozen=True)
class CallRules:
    """The rules of a predicate that calls.

    Parameters
    ----------
    concurrency
        Calls at a time, per worker.
    rate
        What the service allows, over all workers.
    timeout
        Seconds after which a call has failed.
    retries
        How many times a call that was refused for the moment is made again.
    cost
        What a call costs: `"time"` as it is measured, `"money"` as replies tell, or an amount of money.
    cache
        Folder of the answers; None keeps them for as long as the program runs.
    batch
        Rows that the function is given at a time, as lists; None for one row, as values.
    version
        Of the function: answers of another version are not used.
    kept_as
        Name under which answers are kept; the predicate's, where there is none.
    error_is_null
        Whether a call without an answer, after a time-out say, answers NULL, as a look-up that finds nothing does.
    """

    concurrency: int = 16
    rate: Rate | None = None
    timeout: float = USUAL_SECONDS
    retries: int = 4
    cost: Cost | float = "time"
    cache: Path | None = None
    batch: int | None = None
    version: str = "1"
    kept_as: str = ""
    error_is_null: bool = False

    @property
    def price(self) -> float | None:
        """Money that every call costs, where that was said."""
        return float(self.cost) if not isinstance(self.cost, str) else None


def call_rules(name: str, options: dict[str, Any]) -> CallRules:
    """The rules that a user means.

    >>> call_rules("relevant", {"timeout": "20 s", "concurrency": 64}).timeout
    20.0
    >>> call_rules("relevant", {"cost": "gold"})
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: predicate 'relevant' has cost='gold'
      hint: use "time", "money" (each reply tells it), or the money that a call costs
    """
    given = {option: value for option, value in options.items() if value is not None}
    where = f"predicate {name!r} has"
    for option, least in (("concurrency", 1), ("retries", 0), ("batch", 1)):
        value = given.get(option, least)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_AT_ONCE:
            raise QueryError(f"{where} {option}={value!r}", hint=f"use a whole number from {least} on")
    if "rate" in given and not isinstance(given["rate"], Rate):
        raise QueryError(f"{where} rate={given['rate']!r}", hint='use ab.Rate(requests="600/min", tokens="90000/min")')
    if "timeout" in given:
        given["timeout"] = seconds_of(given["timeout"], f"the time-out of predicate {name!r}")
    if "cost" in given and not _is_cost(given["cost"]):
        hint = 'use "time", "money" (each reply tells it), or the money that a call costs'
        raise QueryError(f"{where} cost={given['cost']!r}", hint=hint)
    if not isinstance(given.get("cache", ""), str | os.PathLike):
        raise QueryError(f"{where} cache={given['cache']!r}", hint="the name of a folder for its answers")
    if "cache" in given:
        given["cache"] = folder_of(given["cache"], f"the cache of predicate {name!r}")
    return CallRules(**{**given, "version": str(given.get("version", CallRules.version))})


def _is_cost(cost: Any) -> bool:
    if isinstance(cost, str):
        return cost in ("time", "money")
    return isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf
