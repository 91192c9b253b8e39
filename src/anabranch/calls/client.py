"""How a worker has rows asked about: through the process that makes the calls of its machine."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch import side_process
from anabranch.calls.asking import Answer
from anabranch.calls.reply import Bill, Unasked
from anabranch.calls.rules import CallRules
from anabranch.calls.wire import Answers, Predicate, Question, address, exchanged
from anabranch.errors import ResourceError

TRIES = 3


class _Lines(threading.local):
    """Lines to callers, one per thread: who waits for an answer has a line alone."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, Path], socket.socket] = {}


_lines = _Lines()


@dataclass(frozen=True)
class CallClient:
    """Asks about rows; pickled into the Spark plan with the predicate.

    Parameters
    ----------
    name, rules
        Of the predicate.
    function
        Pickled.
    folder
        Where its answers are kept.
    repeatable
        Whether an answer may be used again.
    meter, budget
        What counts the calls of a filter, and the most that they may cost together.
    scope
        The filter for which failures are remembered, if they are asked about again.
    """

    name: str
    function: bytes
    rules: CallRules
    folder: Path
    meter: Path
    repeatable: bool = True
    budget: float | None = None
    scope: str = ""
    _bills: list[Bill] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, arguments: Sequence[list[Any]], rows: int) -> tuple[list[Any], dict[int, str]]:
        """The values of some rows, given column by column; and what went wrong, by row."""
        asked = list(zip(*arguments, strict=True)) if arguments else [()] * rows
        if not asked:
            return [], {}
        found = self._ask(asked)
        self._bills.append(found.bill)
        if found.problem is not None or found.answers is None:
            raise ResourceError(
                f"predicate {self.name!r} could not be asked: {found.problem}",
                hint="its function and what that imports must load in a process of their own",
            )
        failures = {at: said for at, each in enumerate(found.answers) if (said := self._error(each)) is not None}
        return [each.value for each in found.answers], failures

    def _error(self, answer: Answer) -> str | None:
        """What went wrong, if that is an error; a row that was not asked has no answer at all."""
        excused = self.rules.error_is_null and not isinstance(answer.problem, Unasked)
        return None if excused else answer.problem

    def renewal(self) -> str:
        """How answers that were kept are left behind."""
        return f"this answer is kept for version {self.rules.version!r}: give the mended function another version=..."

    def take_bill(self) -> Bill:
        """What rows have cost since the last time."""
        total = Bill()
        for bill in self._bills:
            total.add(bill)
        self._bills.clear()
        return total

    def _ask(self, rows: list[tuple[Any, ...]]) -> Answers:
        predicate = Predicate(self.name, self.function, self.rules, self.repeatable, tuple(filter(None, sys.path)))
        question = Question(predicate.identity, rows, self.meter, self.budget, self.scope)
        for _ in range(TRIES):
            line = connected(self.folder)
            try:
                found: Answers = exchanged(line, question)
                if found.answers is None:
                    met: Answers = exchanged(line, predicate)
                    found = exchanged(line, question) if met.problem is None else met
                return found
            except (ConnectionError, OSError):  # it was killed; what it had been answered is kept
                _lines.of.pop((os.getpid(), self.folder), None)
        raise ResourceError(
            f"the process that makes the calls of predicate {self.name!r} ends again and again",
            hint="its function may end the process, or use more memory than there is",
        )


def connected(folder: Path) -> socket.socket:
    """A line to the caller of a folder, which is started if there is none."""
    own = (os.getpid(), folder)
    if own not in _lines.of:
        _lines.of[own] = _connected(folder)
    return _lines.of[own]


def _connected(folder: Path) -> socket.socket:
    hint = "workers need to be able to start processes, and to write to that folder, on a local disk"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return side_process.connected(address(folder), "anabranch.calls.caller", str(folder))
    except OSError as error:
        raise ResourceError(f"answers cannot be kept in {str(folder)!r}: {error}", hint=hint) from error
