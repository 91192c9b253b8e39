"""Which queries want which rows, found in a worker by an index of their constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Broadcast

from anabranch.planning.index_look_up import IndexLookUp


@dataclass(frozen=True)
class IndexTask:
    """Finds the queries that want rows.

    Parameters
    ----------
    index
        Of the constants of queries.
    schema
        Of what is found: columns of the rows, and of the queries.
    """

    index: Broadcast[IndexLookUp]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each row with each query that wants it."""
        for batch in batches:
            found = self.index.value.found(pa.Table.from_batches([batch]))
            yield from found.select(self.schema.names).cast(self.schema).to_batches()
