"""Where answers go, after the tick that they belong to is committed; what was delivered is not delivered again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from anabranch import storage
from anabranch.engine.answer_blocks import BlockFile, conformed
from anabranch.engine.answer_files import rows_of
from anabranch.engine.failures import SPARKS, summarize
from anabranch.errors import QueryError, ResourceError, suggest
from anabranch.formats import FILE_FORMATS
from anabranch.model.names import TS

SHOWN_ROWS = 20
DRIVER_BYTES = 8_000_000
"""What is larger is written by workers."""


@dataclass(frozen=True)
class Delivery:
    """What a query answers in a tick.

    Parameters
    ----------
    tick
        The tick.
    files
        Files of answers that have something of the query.
    query
        Its number.
    schema
        Of its answer.
    read
        Reads rows from such files, in workers.
    """

    tick: int
    files: Sequence[Path]
    query: int
    schema: pa.Schema
    read: Callable[[Sequence[Path]], DataFrame]

    @property
    def answer(self) -> DataFrame:
        """The rows."""
        return self.read(self.files)

    @property
    def bytes(self) -> int:
        """How large the rows are in the files."""
        found = 0
        for path in self.files:
            with BlockFile(path) as file:
                found += int(file.of(self.query)["bytes"].sum())
        return found

    def table(self) -> pa.Table:
        """The rows, read here and now."""
        parts = (conformed(each, self.schema) for each in rows_of(self.query, self.files))
        return pa.concat_tables([self.schema.empty_table(), *parts])


class Sink(Protocol):
    """Takes the answer of a tick. After a crash the last tick may come again: it has to replace what it brought."""

    def deliver(self, given: Delivery) -> None:
        """Take the rows."""


class Memory:
    """The answer stays where it is, for `to_dataframe`."""

    def deliver(self, given: Delivery) -> None:
        """Nothing to do."""


class Console:
    """Prints the first rows."""

    def __init__(self, rows: int = SHOWN_ROWS) -> None:
        self._rows = rows

    def deliver(self, given: Delivery) -> None:
        """Print."""
        print(f"-- tick {given.tick}")
        given.answer.orderBy(TS).show(self._rows, truncate=False)


class Foreach:
    """Calls a function."""

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        self._function = function

    def deliver(self, given: Delivery) -> None:
        """Call it."""
        self._function(given.answer, given.tick)


class Files:
    """A folder with the files of each tick: `tick=000000000012/...`, put in place by one rename."""

    def __init__(self, kind: str, path: str) -> None:
        self._kind = kind
        self._folder = storage.folder_of(path, "a sink")

    def deliver(self, given: Delivery) -> None:
        """Write beside, then rename; what an earlier delivery of the tick left is replaced."""
        try:
            self._write(given)
        except (OSError, *SPARKS) as error:
            hint = "name a folder that can be written, and columns that the format knows; then start() again"
            raise ResourceError(f"{str(self._folder)!r} cannot be written: {summarize(error)}", hint=hint) from error

    def _write(self, given: Delivery) -> None:
        name = f"tick={given.tick:012d}"
        final, beside = self._folder / name, self._folder / f".{name}"
        storage.remove(beside)
        if self._kind == "parquet" and given.bytes <= DRIVER_BYTES:
            storage.make_folder(beside)
            file = storage.NewFile(beside / "part-0.parquet")
            with file.writing():
                pq.write_table(given.table(), file.sink, compression="snappy")
            file.close()
            storage.sync(beside)
        else:
            storage.make_folder(self._folder)
            given.answer.write.format(self._kind).option("header", True).save(storage.uri(beside))
            storage.settle_tree(beside)
        storage.remove(final)
        storage.rename(beside, final)
        storage.sync(self._folder)


def sink_of(given: object, options: Mapping[str, object]) -> Sink:
    """The sink that a user means."""
    if callable(given):
        return Foreach(given)
    if given == "memory":
        return Memory()
    if given == "console":
        return Console()
    if given in FILE_FORMATS:
        if "path" not in options:
            raise QueryError(f"sink {given!r} needs a path", hint="start(sink='parquet', path='out/')")
        return Files(str(given), str(options["path"]))
    if hasattr(given, "deliver"):
        return given
    raise QueryError(f"unknown sink {given!r}", hint=suggest(str(given), ["memory", "console", *FILE_FORMATS], "sinks"))
