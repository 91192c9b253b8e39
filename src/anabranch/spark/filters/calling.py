"""What a filter knows of its predicates that call: where answers are kept, what is counted, and what they may cost."""

from __future__ import annotations

import atexit
import math
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pyspark import cloudpickle

from anabranch.calls.client import CallClient
from anabranch.calls.meter import Meter
from anabranch.calls.secrets import leaked
from anabranch.errors import QueryError
from anabranch.model.predicates import Predicate, PythonPredicate
from anabranch.routing import policies
from anabranch.spark.filters.task_spec import CallSettings
from anabranch.storage import temporary_folder

Minimize = Literal["time", "money"]


class FilterCalls:
    """The calls of one filter.

    Parameters
    ----------
    predicates
        Of the filter.
    policy
        Of the filter: with money to be saved, one that keeps one order for all rows.
    minimize, budget, limit
        See `Filter`.
    scope
        Under which failures are remembered; empty where they are not asked about again.
    """

    def __init__(
        self,
        predicates: Sequence[Predicate],
        policy: str,
        *,
        minimize: Minimize,
        budget: float | None,
        limit: int | None,
        scope: str,
    ) -> None:
        self.predicates = [p for p in predicates if isinstance(p, PythonPredicate) and p.calls is not None]
        _check(self.predicates, policy, minimize, budget, limit)
        self.minimize, self.budget, self.limit, self._scope = minimize, budget, limit, scope
        self._functions = {p.name: pickled(p) for p in self.predicates}
        self._folder: Path | None = None
        self._meter: Meter | None = None

    def __bool__(self) -> bool:
        return bool(self.predicates)

    def client(self, p: PythonPredicate) -> CallClient | None:
        """What asks a predicate in workers; None if it calls nobody."""
        if p.calls is None:
            return None
        return CallClient(
            name=p.name,
            function=self._functions[p.name],
            rules=p.calls if p.calls.cache else replace(p.calls, kept_as=f"{p.name} {self.folder.name}"),
            folder=p.calls.cache or _program_folder(),
            meter=self.meter.path,
            repeatable=p.kind != "volatile",
            budget=self.budget,
            scope=self._scope,
        )

    def settings(self, members: Sequence[Predicate], *, counted: bool) -> CallSettings:
        """What the tasks of a stage need to know."""
        calling = any(isinstance(p, PythonPredicate) and p.calls is not None for p in members)
        limited = self.limit is not None and counted
        return CallSettings(
            by_money=self.minimize == "money",
            meter=self.meter.path if calling else None,
            limit=self.limit if limited else None,
            kept=self.folder / "kept" if limited else None,
        )

    @property
    def meter(self) -> Meter:
        """Counts the calls of all workers."""
        if self._meter is None:
            self._meter = Meter(self.folder / "meter", self.budget)
        return self._meter

    @property
    def folder(self) -> Path:
        """Files of this filter alone, for as long as the program runs."""
        if self._folder is None:
            self._folder = _program_folder() / uuid.uuid4().hex
        return self._folder


@cache
def _program_folder() -> Path:
    """Files of this program: answers that are kept while it runs, and a folder per filter."""
    folder = temporary_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def pickled(p: PythonPredicate) -> bytes:
    """The function of a predicate that calls, for the process that calls it."""
    data: bytes = cloudpickle.dumps(p.function)  # type: ignore[no-untyped-call]
    secret = leaked(data)
    if secret is not None:
        raise QueryError(
            f"the function of predicate {p.name!r} holds the value of the environment variable {secret}, "
            "which would be written into plans",
            hint=f"read os.environ[{secret!r}] inside the function: workers have the same environment",
        )
    return data


def _check(calling: Sequence[PythonPredicate], policy: str, minimize: Any, budget: Any, limit: Any) -> None:
    if minimize not in ("time", "money"):
        raise QueryError(f"minimize is {minimize!r}", hint='use minimize="time" or minimize="money"')
    if minimize == "money" and policy in policies.BY_CONTENT and policy != "auto":
        raise QueryError(
            f'minimize is "money", and the policy {policy!r} finds routes by their time',
            hint='use policy="auto" or another one that keeps one order for all rows',
        )
    if budget is not None and not (_is_number(budget) and 0 <= budget < math.inf):
        raise QueryError(f"budget is {budget!r}", hint="the most money that calls may cost together, such as 25.0")
    if budget is not None and not any(p.calls is not None and p.calls.cost != "time" for p in calling):
        raise QueryError(
            "there is a budget, and no predicate that costs money",
            hint='give those that call cost="money" (their replies tell it), or the money that a call costs',
        )
    if limit is not None and not (isinstance(limit, int) and not isinstance(limit, bool) and limit > 0):
        raise QueryError(f"limit is {limit!r}", hint="how many rows are wanted, 1 or more")
    nameless = [p for p in calling if p.calls is not None and p.calls.cache and p.name == "<lambda>"]
    if nameless:
        raise QueryError("answers of a function without a name are to be kept", hint="give the predicate name=...")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
