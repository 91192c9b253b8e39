"""Errors of Spark and of workers, in a line without stack traces; which of them stop one stream, and which all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from anabranch import errors
from anabranch.spark.filters.filter_task import ASIDE

if TYPE_CHECKING:
    from anabranch.engine.query import ContinuousQuery

SPARKS = (Py4JJavaError, PySparkException)
_RAISED = re.compile(r"^anabranch\.errors\.(\w+): (.*?)(?:\n  hint: ([^\n]*))?\s*$", re.MULTILINE)
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]{3,}\] [^\n]*")
_CAUSE = re.compile(r"^(?:Caused )?(?:by)?: [\w.$]+: ([^\n]+)", re.MULTILINE)
_WRAPPING = ("[STREAM_FAILED]", "[TASK_WRITE_FAILED]")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*")
_TRACE = re.compile(r"^Traceback \(most recent call last\):\n((?:[ \t].*\n)*)(\S.*)", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
HINT = "fix its source or the query, then start it again"


def unwrap(error: BaseException) -> BaseException:
    """Turn the text of one of our errors, as Spark brings it back, into that error; shorten others to a line or two.

    All that Spark says about it is the `__cause__`.

    >>> unwrap(ValueError("Traceback:\\n ...\\nanabranch.errors.DataError: too large\\n  hint: cast it\\n"))
    DataError('too large\\n  hint: cast it')
    >>> unwrap(ValueError(f"\\nanabranch.errors.DataError: it failed\\n  hint: guard it{ASIDE}"))
    DataError('it failed\\n  hint: guard it')
    """
    made: BaseException
    found = _RAISED.findall(str(error)) if not isinstance(error, errors.AnabranchError) else []
    if found:
        name, what, hint = found[-1]
        kind = getattr(errors, name, errors.InternalError)
        made = kind.__new__(kind)
        errors.AnabranchError.__init__(made, what, hint=hint.removesuffix(ASIDE) or None)  # type: ignore[arg-type]
    elif isinstance(error, SPARKS):
        made = errors.DataError(_of_a_function(error) or summarize(error), hint=HINT)
    else:
        return error
    made.__cause__ = error
    return made


def of_stream(name: str, error: BaseException) -> BaseException:
    """Why a stream cannot go on."""
    found = unwrap(error)
    if not isinstance(found, errors.AnabranchError):
        return found
    made = type(found).__new__(type(found))
    errors.AnabranchError.__init__(made, f"stream {name!r} failed: {found.what}", hint=found.hint)
    made.__cause__ = found.__cause__ or found
    return made


def summarize(error: BaseException) -> str:
    """What Spark says about an error, without the traces; else how it begins.

    >>> summarize(ValueError("in o7.load.\\n: java.lang.E: [NO_FILE] There is no file. SQLSTATE: 42\\n\\tat x.y(z)"))
    '[NO_FILE] There is no file.'
    >>> summarize(ValueError("in o7.load.\\n: java.lang.E: Job aborted\\nCaused by: java.io.E: No room\\n\\tat y"))
    'No room'
    """
    text = str(error)
    conditions = [_STATE.sub("", each) for each in _CONDITION.findall(text) if not each.startswith(_WRAPPING)]
    causes = conditions or _CAUSE.findall(text)[-1:] or text.splitlines()[:1] or [type(error).__name__]
    return "; ".join(dict.fromkeys(each.strip() for each in causes))


def _of_a_function(error: BaseException) -> str | None:
    """What a function of the user's has raised, and where; None if it was not one.

    >>> trace = 'Traceback (most recent call last):\\n  File "/home/me/job.py", line 7, in odd\\nValueError: no\\n'
    >>> _of_a_function(PythonException(f"in the worker: x\\n{trace}"))
    'a function raised ValueError: no (job.py, line 7)'
    """
    text = str(error)
    if not isinstance(error, PythonException) and "api.python.PythonException" not in text:
        return None
    frames, raised = [("", ""), *_TRACE.findall(text)][-1]
    place = "".join(f" ({Path(file).name}, line {line})" for file, line in _FRAME.findall(frames)[-1:])
    return f"a function raised {raised}{place}" if raised else None


def is_fatal(error: BaseException) -> bool:
    """Whether an error stops all queries, as a full disk does, not only the readers of one stream."""
    return isinstance(unwrap(error), errors.ResourceError | OSError)


def fail(query: ContinuousQuery, error: BaseException) -> None:
    """A query cannot go on; the error names it."""
    found = unwrap(error)
    found.add_note(f"in query {query.name!r}")
    query._fail(found)
