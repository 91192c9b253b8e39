"""`foreach_batch` on Spark Connect, where the sink runs in a process of the server's, not where the filter was made.

There a filter of the same predicates is made, which goes on from one micro-batch to the next. What it counts and learns
is written to a file after each one; the filter that a user holds reads it when it is asked for a report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from anabranch.model.predicates import Predicate

_made: dict[Path, Any] = {}


@dataclass(frozen=True)
class RemoteBatches:
    """Filters micro-batches wherever it is called; pickled for the server.

    Parameters
    ----------
    make
        Makes a filter.
    predicates, options
        Of the filter.
    state
        File that the filter writes, and starts with.
    sink
        Gets what passes.
    """

    make: Callable[..., Any]
    predicates: Sequence[Predicate]
    options: Mapping[str, Any]
    state: Path
    sink: Callable[[DataFrame, int], Any]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Filter one micro-batch."""
        if self.state not in _made:
            _made[self.state] = self.make(*self.predicates, **self.options, state=self.state)
        _made[self.state].run_batch(self.sink, batch, batch_id)
