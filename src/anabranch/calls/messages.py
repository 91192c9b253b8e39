"""What a user's function says when it fails on a row, and where.

>>> def inverse(number):
...     return 1 / number
>>> try:
...     inverse(0)
... except ZeroDivisionError as error:
...     print(message(error))
ZeroDivisionError: division by zero (<doctest ...>, line 2)
"""

from __future__ import annotations

import os
from concurrent import futures
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
CALLERS = (
    str(PACKAGE / "calls"),
    str(PACKAGE / "spark" / "filters"),
    str(Path(futures.__file__).parent),
)
"""Who calls functions: a function's own lines come behind theirs."""
CONVERTERS = {"pandas", "pyarrow"}
"""Where a value fails that never reaches a function."""


def message(error: BaseException) -> str:
    """Kind, text and place of an exception, as a text that can be written anywhere."""
    try:
        said = str(error)
    except Exception:
        said = "an error that cannot say what it is"
    return f"{type(error).__name__}: {said}{_place(error)}".encode(errors="backslashreplace").decode()


def _place(error: BaseException) -> str:
    """The line of the function that was called, however deep below it the error was raised; none if it is built in."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.startswith(CALLERS):
        step = step.tb_next
    if step is None:
        return ""
    file = step.tb_frame.f_code.co_filename
    return "" if CONVERTERS & set(Path(file).parts) else f" ({os.path.basename(file)}, line {step.tb_lineno})"
