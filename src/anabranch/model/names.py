"""Names of columns: how one is quoted in SQL, and those that answers have besides their own."""

from __future__ import annotations

import re

TS, OP = "_ts", "_op"
"""The time of a row of an answer, and in relations whether it enters or leaves."""
_NUMBER = re.compile(r"_\d+$")


def quoted(name: str) -> str:
    """A name as SQL takes it literally, dots, blanks, backticks and all.

    >>> quoted("id.orig_h"), quoted("a`b")
    ('`id.orig_h`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def without_number(name: str) -> str:
    """The name of a column without the number that makes it unique.

    >>> without_number("k_12")
    'k'
    """
    return _NUMBER.sub("", name)
