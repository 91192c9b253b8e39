"""Names of columns: how one is quoted in SQL, and those that answers have besides their own."""

from __future__ import annotations

TS, OP = "_ts", "_op"
"""The time of a row of an answer, and in relations whether it enters or leaves."""


def quoted(name: str) -> str:
    """A name as SQL takes it literally, dots, blanks, backticks and all.

    >>> quoted("id.orig_h"), quoted("a`b")
    ('`id.orig_h`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"
