"""Secrets of the environment: their values must not be pickled into plans, nor shown in messages.

>>> environment = {"MODEL_API_KEY": "sk-123456789", "HOME": "/home/me"}
>>> redacted("401 for key sk-123456789", environment)
'401 for key ***'
>>> leaked(b"...sk-123456789...", environment)
'MODEL_API_KEY'
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping

NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
SHORTEST = 8
OF_SPARK = ("SPARK_", "PYSPARK_", "PYTHON_WORKER_")
"""Secrets between the processes of one session: other ones in each."""


def redacted(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text without the values of secrets."""
    for _, value in _secrets(environment):
        text = text.replace(value, "***")
    return text


def leaked(data: bytes, environment: Mapping[str, str] = os.environ) -> str | None:
    """The name of a secret whose value is in some data."""
    return next((name for name, value in _secrets(environment) if value.encode() in data), None)


def fingerprint(environment: Mapping[str, str] = os.environ) -> str:
    """Tells environments with different secrets apart, those of Spark's own left out.

    >>> fingerprint({"MODEL_API_KEY": "sk-123456789"}) == fingerprint({"MODEL_API_KEY": "sk-123456780"})
    False
    >>> fingerprint({"PYTHON_WORKER_FACTORY_SECRET": "0123456789"}) == fingerprint({})
    True
    """
    known = sorted(pair for pair in environment.items() if NAMES.search(pair[0]) and not pair[0].startswith(OF_SPARK))
    return hashlib.sha256(repr(known).encode(errors="surrogateescape")).hexdigest()


def _secrets(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if NAMES.search(name) and len(value) >= SHORTEST:
            yield name, value
