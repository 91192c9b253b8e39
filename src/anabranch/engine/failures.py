"""What went wrong: in a worker, without the traces of all that it went through; for one stream, or for all."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from anabranch import errors

SPARKS = (Py4JJavaError, PySparkException)
_RAISED = re.compile(r"^anabranch\.errors\.(\w+): (.*?)(?:\n  hint: ([^\n]*))?\s*$", re.MULTILINE)
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]{3,}\] [^\n]*")
_CAUSE = re.compile(r"^(?:Caused )?(?:by)?: [\w.$]+: ([^\n]+)", re.MULTILINE)
_WRAPPING = ("[STREAM_FAILED]", "[TASK_WRITE_FAILED]")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*")
HINT = "mend what it reads or the query; start() goes on from there"


def plain(error: BaseException) -> BaseException:
    """An error of ours that Spark brings back as text is the error again; Spark's own are told in a line or two.

    What a function of the user's raises keeps its trace.

    >>> plain(ValueError("Traceback:\\n ...\\nanabranch.errors.DataError: too large\\n  hint: cast it\\n"))
    DataError('too large\\n  hint: cast it')
    """
    made: BaseException
    found = _RAISED.findall(str(error)) if not isinstance(error, errors.AnabranchError) else []
    if found:
        name, what, hint = found[-1]
        kind = getattr(errors, name, errors.InternalError)
        made = kind.__new__(kind)
        errors.AnabranchError.__init__(made, what, hint=hint or None)  # type: ignore[arg-type]
    elif isinstance(error, SPARKS) and not _of_a_function(error):
        made = errors.DataError(brief(error), hint=HINT)
    else:
        return error
    made.__cause__ = error
    return made


def brief(error: BaseException) -> str:
    """What Spark says about an error, without the traces; else how it begins.

    >>> brief(ValueError("in o7.load.\\n: java.lang.E: [NO_FILE] There is no file. SQLSTATE: 42\\n\\tat x.y(z)"))
    '[NO_FILE] There is no file.'
    >>> brief(ValueError("in o7.load.\\n: java.lang.E: Job aborted\\nCaused by: java.io.E: No room\\n\\tat y"))
    'No room'
    """
    text = str(error)
    told = [_STATE.sub("", each) for each in _CONDITION.findall(text) if not each.startswith(_WRAPPING)]
    causes = told or _CAUSE.findall(text)[-1:] or text.splitlines()[:1] or [type(error).__name__]
    return "; ".join(dict.fromkeys(each.strip() for each in causes))


def _of_a_function(error: BaseException) -> bool:
    return isinstance(error, PythonException) or "api.python.PythonException" in str(error)


def concerns_all(error: BaseException) -> bool:
    """Whether nobody can go on, as on a full disk; else only those who read what cannot be read."""
    return isinstance(plain(error), errors.ResourceError | OSError)
