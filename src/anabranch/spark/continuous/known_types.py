"""What Spark has said about types, for queries that differ in constants alone: it is asked once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from anabranch.planning.constants import masked
from anabranch.spark.continuous.flows import Nested, Select, Sql

Answer = TypeVar("Answer")


class KnownTypes:
    """Answers of Spark's, by questions in which constants of comparisons are replaced by their types."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def ask(self, question: tuple[object, ...], spark: Callable[[], Answer]) -> Answer:
        """What Spark says; an error is not remembered."""
        if question not in self._known:
            self._known[question] = spark()
        found: Answer = self._known[question]
        return found

    def get(self, question: tuple[object, ...]) -> object | None:
        """What is known."""
        return self._known.get(question)

    def forget(self) -> None:
        """A source is gone; another one may come under its name."""
        self._known.clear()


def without_constants(flow: Sql) -> str:
    """The text of a flow, with types instead of constants that columns are compared with.

    Views go by what they stand for: a query that is registered again may have other ones under the same names.
    """
    masked_flow = Sql(tuple(map(_masked, flow.branches)), flow.stage)
    return masked_flow.over(lambda view: replace(view, name=view.identity)).text


def _masked(select: Select) -> Select:
    source = Nested(_masked(select.source.select)) if isinstance(select.source, Nested) else select.source
    return replace(select, source=source, conditions=tuple(map(masked, select.conditions)))
