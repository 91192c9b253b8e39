"""What Spark has said about texts: queries that differ in constants alone are analysed once.

An analysis takes Spark some ten milliseconds, and registering a query asks for about eight. What a text selects has the
same types whatever numbers its columns are compared with, and whatever the views of its query are called, as long as
they have the same columns. So texts are known by their *shape*.

>>> shape("SELECT * FROM v WHERE `value_1` > 17 AND `k_2` <= -2.5", {})
'SELECT * FROM v WHERE `value_1` > 0 AND `k_2` <= 0.0'
>>> shape("SELECT round(`a_1`, 2) FROM `q1_stage`", {"`q1_stage`": "a_1: double"})
'SELECT round(`a_1`, 2) FROM <a_1: double>'
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

MOST = 4_096
_QUOTED = r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`"
_COMPARED = re.compile(rf"({_QUOTED})|([<>=] *)-?(?:\d{{1,9}}|(\d+\.\d+))(?![\w.'])(?! *[-+*/%|&^])")
_NUMBER = re.compile(r"-?\d{1,9}")

Answer = TypeVar("Answer")


class Analyses:
    """Answers of Spark, by what was asked; the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, ask: Callable[[], Answer]) -> Answer:
        """The answer to a question; an error is no answer."""
        with self._lock:
            if key in self._known:
                found: Answer = self._known[key]
                return found
        answer = ask()
        with self._lock:
            self._known[key] = answer
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return answer

    def forget(self) -> None:
        """Something goes by another meaning from now on: a stream, a relation, or a function."""
        with self._lock:
            self._known.clear()


def shape(text: str, views: Mapping[str, str]) -> str:
    """A text without the numbers that values are compared with, and with the columns of some views for their names."""
    for view, columns in views.items():
        text = text.replace(view, f"<{columns}>")
    return _COMPARED.sub(_without_number, text)


def _without_number(found: re.Match[str]) -> str:
    """Numbers of one type look alike: those of few digits, and fractions with as many."""
    return found[1] or found[2] + re.sub(r"\d", "0", found[3] or "0")


def is_small_number(text: str) -> bool:
    """Whether a text is a whole number that Spark takes for an INT.

    >>> is_small_number("17"), is_small_number("1.5"), is_small_number("9999999999")
    (True, False, False)
    """
    return _NUMBER.fullmatch(text) is not None
