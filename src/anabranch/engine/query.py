"""A registered query, as its user holds it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.cql.rendering import render
from anabranch.engine.durations import duration
from anabranch.engine.sinks import Sink, sink_of
from anabranch.errors import QueryError
from anabranch.model.continuous import OP, Query
from anabranch.model.names import quoted
from anabranch.spark.filter import Filter
from anabranch.spark.names import unused_name
from anabranch.spark.summaries import stream_of

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine


class ContinuousQuery:
    """A query that has been registered with an engine.

    `start` lets it run; `to_dataframe` is its answer so far: for a stream the rows with the time `_ts` at which each
    appears, for a relation a changelog with `_ts` and `_op` (`+` or `-`).
    """

    def __init__(self, engine: Engine, query: Query) -> None:
        self._engine = engine
        self.query = query
        self.sink: Sink | None = None
        self.keep: int | None = None  # for how long its answer stays after it was delivered
        self.status = "registered"
        self.direct = False  # needs no state: rows are answered as they come
        self.needs: dict[str, int] = {}  # how long it needs rows of its streams, or of summaries, after their time
        self.reads: dict[str, list[str]] = {}  # the columns of its streams that it reads
        self.summaries: dict[str, str] = {}  # how batches of its streams are summed up
        self.error: BaseException | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.query.name

    @property
    def text(self) -> str:
        """As it was written."""
        return self.query.text

    def start(
        self, sink: object = "memory", *, keep: str | timedelta | None = None, **options: object
    ) -> ContinuousQuery:
        """Run on the streams as they come.

        Parameters
        ----------
        sink
            `memory` keeps the answer for `to_dataframe`, `console` prints it, `parquet`, `json` or `csv` writes files
            (with `path=...`), and a function is called with the DataFrame of each tick and the tick's number.
        keep
            For how long what the sink has had stays readable here, too; for ever if not given. What is older goes, not
            at once, but in the end: the rows of a stream, and those changes of a relation that later ones have undone.
        """
        if self.sink is None or sink != "memory":
            self.use_sink(sink, keep=keep, **options)
        elif keep is not None:
            self.keep = duration(keep, "keep")
        self._engine._start(self)
        return self

    def use_sink(self, sink: object, *, keep: str | timedelta | None = None, **options: object) -> None:
        """Say where the answer goes, before it starts."""
        self.sink, self.keep = sink_of(sink, options), None if keep is None else duration(keep, "keep")

    def pause(self) -> None:
        """Stand still; rows of its streams are kept meanwhile."""
        self._check("running")
        self._engine._set_status(self, "paused")

    def resume(self) -> None:
        """Go on where it stood."""
        self._check("paused")
        self._engine._set_status(self, "running")

    def stop(self) -> None:
        """Stop it; what it has answered stays."""
        self._engine._stop_query(self)

    def await_idle(self, timeout: float | None = None) -> None:
        """Wait until all rows that are there by now have been answered, as far as time is complete."""
        self._engine._await_idle(self, timeout)

    def to_dataframe(self) -> DataFrame:
        """The answer so far."""
        return self._engine._answer(self.query)

    def current(self) -> DataFrame:
        """The relation as it is now: inserts without what was deleted since."""
        if self.query.is_stream:
            raise QueryError(
                f"the answer of {self.name} is a stream, which has no current state",
                hint="leave out Istream, Dstream and Rstream",
            )
        return there(self.to_dataframe(), self.query.output)

    def filters(self) -> list[Filter]:
        """Its conditions that are ordered while it runs: see `Filter.report` and `Filter.events`."""
        return self._engine._filters(self.query)

    def explain(self) -> str:
        """The plan, as text, and which streams are summed up as their rows come."""
        streams = sorted({stream_of(name) for name in self.summaries})
        return render(self.query.plan) + (f"\nsummed up as rows come: {', '.join(streams)}" if streams else "")

    def _check(self, wanted: str) -> None:
        if self.status != wanted:
            raise QueryError(f"query {self.name} is {self.status}, not {wanted}", hint="see Engine.show()")

    def __repr__(self) -> str:
        return f"<query {self.name}: {self.status}>"


def there(changes: DataFrame, columns: Sequence[str], *about: Column) -> DataFrame:
    """The rows that are there after some changes, with more that is known about each."""
    weight = F.sum(F.when(F.col(OP) == "+", 1).otherwise(-1))
    count = unused_name(changes, "_n")
    counted = changes.groupBy(*map(quoted, columns)).agg(weight.alias(count), *about).where(f"{count} > 0")
    return counted.withColumn(count, F.explode(F.sequence(F.lit(1), F.col(count).cast("int")))).drop(count)
