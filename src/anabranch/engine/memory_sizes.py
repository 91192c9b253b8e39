"""Sizes of memory as people write them.

>>> bytes_of("256 MB", "cache_memory"), bytes_of("1.5 kB", "cache_memory"), bytes_of(4096, "cache_memory")
(256000000, 1500, 4096)
>>> bytes_of("much", "cache_memory")
Traceback (most recent call last):
...
anabranch.errors.QueryError: cache_memory is 'much'
  hint: give a number of bytes, or a text such as '256 MB'; 0 for none
"""

from __future__ import annotations

import re

from anabranch.errors import QueryError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*\Z", re.IGNORECASE)


SMALLEST_LIMIT = 2**20


def limit_of(memory: int | str | None) -> int | None:
    """The bytes of a limit of memory, if there is one.

    >>> limit_of("2 MB"), limit_of(None)
    (2000000, None)
    >>> limit_of(0)
    Traceback (most recent call last):
    ...
    anabranch.errors.QueryError: memory is 0
      hint: give a limit of 1 MiB or more, such as '1 GB', or leave it out
    """
    if memory is None:
        return None
    limit = bytes_of(memory, "memory")
    if limit < SMALLEST_LIMIT:
        raise QueryError(f"memory is {memory!r}", hint="give a limit of 1 MiB or more, such as '1 GB', or leave it out")
    return limit


def bytes_of(size: int | str, name: str) -> int:
    """A number of bytes, of an option with a name."""
    found = _SIZE.match(str(size))
    if found is None or found[2].lower() not in _UNITS:
        hint = "give a number of bytes, or a text such as '256 MB'; 0 for none"
        raise QueryError(f"{name} is {size!r}", hint=hint)
    return int(float(found[1]) * _UNITS[found[2].lower()])
