"""Attempts at something that Spark may refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class _Quiet:
    """Spark's loggers are silent while anybody wants them to be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._before: dict[str, bool] = {}

    def want(self, more: int) -> None:
        with self._lock:
            if not self._wanted:
                self._before = {name: PySparkLogger.getLogger(name).disabled for name in LOGS}
            self._wanted += more
            for name, before in self._before.items():
                PySparkLogger.getLogger(name).disabled = self._wanted > 0 or before


_quiet = _Quiet()


@contextmanager
def quiet_errors() -> Iterator[None]:
    """Let a refusal be an exception alone: Spark also writes it, with a page of Java, to where users read.

    Several threads may be at it; when the last one leaves, Spark writes again.
    """
    _quiet.want(1)
    try:
        yield
    finally:
        _quiet.want(-1)
