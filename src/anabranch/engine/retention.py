"""What stays in the buffer: files that no query and no history needs any more go, and small ones become one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.merging import worth_merging
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.registry import Registry
from anabranch.spark.continuous.summaries import stream_of


class Retention:
    """Decides what of the buffer stays.

    Parameters
    ----------
    folder
        Of the checkpoint.
    registry
        Streams.
    runtime
        Writes merged files.
    """

    def __init__(self, folder: Path, registry: Registry, runtime: QueryRuntime) -> None:
        self._folder = folder
        self._registry = registry
        self._runtime = runtime

    def forget(self, new: Manifest) -> list[Path]:
        """Forget what no query and no history needs any more, also none that is yet to be registered again.

        Returns the files, to be deleted once that is committed.
        """
        deleted: list[Path] = []
        for buffer, state in list(new.streams.items()):
            stream, readers = self._registry.streams.get(stream_of(buffer)), new.readers(buffer)
            if stream is None:
                continue
            waiting = [each.position - each.needs[buffer] for each in readers if not each.direct]
            needed = min([new.streams[stream.name].closed, *waiting]) - stream.retain
            gone = [file for file in state.files if file.last < needed and file.tick <= _taken(readers, new)]
            if buffer != stream.name and not readers:
                gone = new.streams.pop(buffer).files
            state.files = [file for file in state.files if file not in gone]
            deleted += [self._folder / file.path for file in gone]
        return deleted

    def merge(self, manifest: Manifest, prefix: str) -> list[Path]:
        """Write some small files of each buffer as one; the old ones are to be deleted once that is committed."""
        gone: list[Path] = []
        for buffer, state in manifest.streams.items():
            some = worth_merging(state.files, _taken(manifest.readers(buffer), manifest))
            if not some or not self._runtime.knows(buffer):
                continue
            merged = self._runtime.merged(buffer, some, state.columns, prefix)
            state.files = [file for file in state.files if file not in some] + merged
            gone += [self._folder / file.path for file in some]
        return gone


def _taken(readers: Sequence[QueryState], manifest: Manifest) -> int:
    """The tick up to which all queries have taken rows that take them as they come."""
    return min((state.tick for state in readers if state.direct), default=manifest.tick)
