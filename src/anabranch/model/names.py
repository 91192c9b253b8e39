"""Names in texts of SQL: wherever one is written down, it is quoted here."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name as SQL takes it literally, dots, blanks, backticks and all.

    >>> quoted("id.orig_h"), quoted("a`b")
    ('`id.orig_h`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"
