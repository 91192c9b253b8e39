"""What went wrong: in a worker, without the traces of all that it went through; for one stream, or for all."""

from __future__ import annotations

import re

from anabranch import errors

_RAISED = re.compile(r"^anabranch\.errors\.(\w+): (.*?)(?:\n  hint: ([^\n]*))?\s*$", re.MULTILINE)


def plain(error: BaseException) -> BaseException:
    """An error of ours that Spark brings back as text is the error again; others stay as they are.

    >>> plain(ValueError("Traceback:\\n ...\\nanabranch.errors.DataError: too large\\n  hint: cast it\\n"))
    DataError('too large\\n  hint: cast it')
    """
    found = _RAISED.findall(str(error)) if not isinstance(error, errors.AnabranchError) else []
    if not found:
        return error
    name, what, hint = found[-1]
    kind = getattr(errors, name, errors.InternalError)
    made: BaseException = kind.__new__(kind)
    errors.AnabranchError.__init__(made, what, hint=hint or None)  # type: ignore[arg-type]
    made.__cause__ = error
    return made


def concerns_all(error: BaseException) -> bool:
    """Whether nobody can go on, as on a full disk; else only those who read what cannot be read."""
    return isinstance(plain(error), errors.ResourceError | OSError)
