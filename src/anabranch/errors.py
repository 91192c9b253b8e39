"""Errors that say what went wrong, where, and what to do about it.

The tree is small: the user's query (`QueryError`), the user's data (`DataError`), what the machine lacks
(`ResourceError`) and our own bug (`InternalError`). All are `AnabranchError`.

>>> raise UnknownColumn("txt", ["id", "text"], where="predicate 'even'")
Traceback (most recent call last):
    ...
anabranch.errors.UnknownColumn: unknown column 'txt' in predicate 'even'
  hint: did you mean 'text'? The columns are: id, text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any


class AnabranchError(Exception):
    """Base of every error raised on purpose; `hint` tells the way out."""

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        self.what = what
        self.hint = hint
        super().__init__(what if hint is None else f"{what}\n  hint: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.hint))


def _rebuild(kind: type[AnabranchError], what: str, hint: str | None) -> AnabranchError:
    """Unpickle an error in another process, whatever its constructor takes."""
    error = kind.__new__(kind)
    AnabranchError.__init__(error, what, hint=hint)
    return error


class QueryError(AnabranchError):
    """What was asked for cannot be: a wrong name, type, option or combination."""


class DataError(AnabranchError):
    """A row or a predicate's answer cannot be processed."""


class ResourceError(AnabranchError):
    """The machine or the session lacks something: memory, time, Java, an extra."""


class InternalError(AnabranchError):
    """A promise of this library was broken; please report it."""


class QueriesFailed(AnabranchError):
    """Some queries of a bounded run have failed, each for reasons of its own; the others have run to the end.

    Parameters
    ----------
    failures
        What stopped each of them, by name; the `__cause__` of an error has all that Spark had to say.
    answers
        Of the others, by name.

    >>> str(QueriesFailed({"busy": DataError("the sum is too large", hint="cast it")}, {"quiet": ...})).splitlines()[:2]
    ['1 of 2 queries failed', '  busy: the sum is too large']
    """

    def __init__(self, failures: Mapping[str, BaseException], answers: Mapping[str, Any]) -> None:
        self.failures = dict(failures)
        self.answers = dict(answers)
        lines = [f"  {name}: {in_a_line(error)}" for name, error in failures.items()]
        count = f"{len(failures)} of {len(failures) + len(answers)} queries failed"
        hint = "error of each of these queries says more; the others have answered, as to_dataframe() shows"
        super().__init__("\n".join([count, *lines]), hint=hint)


def in_a_line(error: BaseException) -> str:
    """What an error says, without traces."""
    text = error.what if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
    return text.splitlines()[0]


class UnknownColumn(QueryError):
    """A predicate reads a column that is not there."""

    def __init__(self, column: str, columns: Sequence[str], *, where: str, more: str = "") -> None:
        hint = ". ".join(each for each in (suggest(column, columns, "columns"), more) if each)
        super().__init__(f"unknown column {column!r} in {where}", hint=hint)


class MissingExtra(ResourceError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{package} is needed for {needed_for}, and is not installed",
            hint=f"pip install 'anabranch[{extra}]'",
        )


def suggest(name: str, known: Sequence[str], noun: str) -> str:
    """Propose the closest known name, then list what there is.

    >>> suggest("agredy", ["auto", "agreedy"], "policies")
    "did you mean 'agreedy'? The policies are: auto, agreedy"
    """
    close = get_close_matches(name, known, n=1, cutoff=0.5) or get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    listing = f"The {noun} are: {', '.join(known) if known else 'none'}"
    return f"did you mean {close[0]!r}? {listing}" if close else listing
