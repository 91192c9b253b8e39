"""What Parquet files say about themselves, without a look at their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from anabranch import storage
from anabranch.model.names import TS


@dataclass(frozen=True)
class ParquetStatistics:
    """What the footers of answers say: how many rows there are, how many have no time, and the first and last time."""

    rows: int
    nulls: int
    first: int | None
    last: int | None

    @classmethod
    def of(cls, files: Sequence[Path]) -> ParquetStatistics:
        """Read the footers of some files or folders; a job over their rows would cost a quarter of a batch."""
        rows = nulls = 0
        times: list[int] = []
        for file in (part for path in files for part in storage.parts(path)):
            with storage.opened(file) as opened:
                about = pq.read_metadata(opened)
            rows += about.num_rows
            place = next(n for n in range(about.num_columns) if about.schema.column(n).path == TS)
            for group in range(about.num_row_groups):
                found = about.row_group(group).column(place).statistics
                nulls += found.null_count
                times += [found.min_raw, found.max_raw] if found.has_min_max else []
        return cls(rows, nulls, min(times, default=None), max(times, default=None))
