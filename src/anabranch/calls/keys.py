"""The key of a call: a digest of the predicate, its version, and the arguments.

Equal arguments have equal keys in every process: types are told apart, dictionaries do not depend on the order in
which they were filled.

>>> key_of("relevant", "1", ("a text", 3)) == key_of("relevant", "1", ("a text", 3))
True
>>> len({key_of("relevant", version, (value,)) for version in "12" for value in (1, 1.0, True, "1", None)})
10
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from anabranch.errors import DataError

PLAIN = (bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, type(None))
BYTES = 20


def key_of(predicate: str, version: str, arguments: tuple[Any, ...]) -> bytes:
    """The key of one call."""
    text = f"{predicate!r}{version!r}{_canonical(arguments)}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=BYTES).digest()


def _canonical(value: Any) -> str:
    if isinstance(value, PLAIN):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, bytearray):
        return _canonical(bytes(value))
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_canonical(k)}={_canonical(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):  # rows are tuples
        return f"[{','.join(map(_canonical, value))}]"
    if hasattr(value, "tolist"):
        return _canonical(value.tolist())
    raise DataError(
        f"a call has an argument of type {type(value).__name__}, for which no answer can be kept",
        hint="pass numbers, texts, bytes, times, or lists and structs of them",
    )
