"""Attempts at something that Spark may refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def attempt() -> Iterator[None]:
    """Let a refusal be an exception alone: Spark also writes it, with a page of Java, to where users read."""
    loggers = [PySparkLogger.getLogger(name) for name in LOGS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was
