"""Indexes of tables that rows are looked up in: made on the driver after a change of a relation, for all workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engine.manifest import Manifest
from anabranch.engine.relations import Relations
from anabranch.planning.index_look_up import IndexLookUp
from anabranch.spark.continuous.programs import LookUpStep
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow


@dataclass(frozen=True)
class LookUpTask:
    """Combines rows with those of a table, in a worker."""

    table: Broadcast[IndexLookUp]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The combinations of some rows."""
        for batch in batches:
            found = self.table.value.found(pa.Table.from_batches([batch]))
            yield from found.select(self.schema.names).cast(self.schema).to_batches()


class Indexes:
    """The indexes of one engine, each as of the last change of what it is made of.

    Parameters
    ----------
    views
        What texts read from.
    relations
        Tell versions.
    """

    def __init__(self, views: Views, relations: Relations) -> None:
        self._views = views
        self._relations = relations
        self._made: dict[str, tuple[list[str], Broadcast[IndexLookUp]]] = {}

    def look_up(self, step: LookUpStep, rows: DataFrame, manifest: Manifest) -> DataFrame:
        """Rows combined with those of the table of a step, whose views are bound."""
        version = [self._relations.version(name, manifest) for name in step.relations]
        known = self._made.get(step.view)
        if known is None or known[0] != version:
            table = self._views.select(step.table.text).toArrow()
            made = IndexLookUp.over(table, step.pairs, step.factors)
            self.forget([step.view])
            known = version, self._views.session.sparkContext.broadcast(made)
            self._made[step.view] = known
        return map_in_arrow(rows, LookUpTask(known[1], step.schema), from_arrow_schema(step.schema))

    def forget(self, views: Iterable[str]) -> None:
        """Some look-ups are gone, or their tables have changed."""
        for view in views:
            _, index = self._made.pop(view, (None, None))
            if index is not None:
                index.unpersist()
