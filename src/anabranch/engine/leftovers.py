"""What an engine that was killed has left of queries and streams that were dropped, and of files it did not finish.

A drop counts once the manifest says so; the files are deleted after that. If the engine is killed between the two, the
next one deletes them. Else a new query under the old name would not deliver what the old one did, and a new stream
would go on where the old one stood. Answers are known by the numbers of queries, and go in time (`vacuum.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from anabranch import storage
from anabranch.engine.ingest import RECORDS
from anabranch.engine.layout import MARKS, QUERIES
from anabranch.engine.manifest import Manifest

OF_QUERIES = ("delivered", QUERIES)
OF_STREAMS = ("sources", "late", "unusable", RECORDS)


def remove_leftovers(folder: Path, manifest: Manifest) -> None:
    """Delete what belongs to no query and no stream of a manifest, and descriptions and marks that were not finished.

    Parameters
    ----------
    folder
        Of the checkpoint.
    manifest
        The last one, with what has been registered since.
    """
    unfinished = [
        path
        for pattern in (f"{QUERIES}/*/*", f"{MARKS}/*")
        for path in storage.listed(folder, pattern + storage.UNFINISHED)
    ]
    gone = [*_others(folder, OF_QUERIES, manifest.queries), *_others(folder, OF_STREAMS, manifest.streams)]
    for path in (*gone, *unfinished):
        storage.remove(path)


def _others(folder: Path, kinds: Collection[str], known: Collection[str]) -> Iterator[Path]:
    for kind in kinds:
        yield from (path for path in storage.listed(folder / kind, "*") if path.name not in known)
