"""Commits: a tick puts a record of what it has changed in place by one rename; a snapshot of all comes now and then.

The manifest is the newest snapshot with the records of all later ticks. A snapshot is written once the records since
the last one are many, or larger than it; what came before the last but one is then deleted, the oldest first. Readers
follow the records as they come, and begin again with a snapshot if those that they need are gone.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from anabranch import storage
from anabranch.engine.manifest import Manifest
from anabranch.engine.tick_records import applied, as_json, changes
from anabranch.errors import QueryError

VERSION = 10
SNAPSHOT_TICKS = 100
"""Ticks from one snapshot to the next, at most."""
SNAPSHOT_BYTES = 1_000_000
"""Records that are smaller are no reason for a snapshot."""
_SNAPSHOT, _RECORD = "manifest-{:012d}.json", "tick-{:012d}.json"
_SNAPSHOTS, _RECORDS = "manifest-*.json", "tick-*.json"
log = logging.getLogger("anabranch")


class ManifestLog:
    """The manifest of a checkpoint, as its engine commits it.

    Parameters
    ----------
    folder
        Of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Manifest | None = None
        self._records = self._bytes = self._snapshot_bytes = 0

    def load(self, cells: int | None, usual: int) -> Manifest:
        """What was committed last; where nothing was, a manifest with so many cells, or the usual number."""
        saved = load(self._folder)
        if saved is None:
            return Manifest(cells or usual)
        if cells not in (None, saved["cells"]):
            raise QueryError(
                f"the checkpoint in {self._folder} is spread over {saved['cells']} cells, not {cells}",
                hint="leave the number of cells out to go on with it, or start with a new folder",
            )
        manifest = Manifest.of(saved)
        self._last = _listed(manifest)
        self._records = manifest.tick - max(map(_tick, storage.listed(self._folder, _SNAPSHOTS)))
        return manifest

    def commit_between_ticks(self, manifest: Manifest) -> None:
        """Commit what was changed since the last tick, as a tick of its own; before the first one it is none yet."""
        manifest.tick += 1 if manifest.tick else 0
        self.commit(manifest)

    def commit(self, manifest: Manifest) -> None:
        """Put a record of the tick in place, and a snapshot if one is due."""
        if self._last is None or manifest.tick == 0:
            storage.make_folder(self._folder)
            self._write_snapshot(manifest)
        else:
            text = json.dumps({"version": VERSION, **changes(self._last, manifest)})
            storage.write_text(self._folder / _RECORD.format(manifest.tick), text)
            self._records, self._bytes = self._records + 1, self._bytes + len(text)
        self._last = _listed(manifest)
        if self._records >= SNAPSHOT_TICKS or self._bytes > max(SNAPSHOT_BYTES, self._snapshot_bytes):
            try:
                self._write_snapshot(manifest)
            except OSError as error:
                log.warning("starting again takes longer than it should: %s", error)

    def _write_snapshot(self, manifest: Manifest) -> None:
        text = json.dumps({"version": VERSION, **as_json(manifest)})
        storage.write_text(self._folder / _SNAPSHOT.format(manifest.tick), text)
        self._records, self._bytes, self._snapshot_bytes = 0, 0, len(text)
        snapshots = storage.listed(self._folder, _SNAPSHOTS)
        kept = _tick(snapshots[-2]) if len(snapshots) > 1 else 0
        for old in (*storage.listed(self._folder, _RECORDS), *snapshots[:-2]):
            if _tick(old) <= kept:
                storage.remove(old)


class Follower:
    """The manifest of a checkpoint, as another process commits it: a look costs what has changed since the last one.

    Parameters
    ----------
    folder
        Of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved: dict[str, Any] | None = None

    def look(self) -> dict[str, Any] | None:
        """What has been committed by now, as JSON; None if there is nothing."""
        saved = None if self._saved is None else _followed(self._folder, self._saved)
        self._saved = load(self._folder) if saved is None else saved
        return self._saved


def load(folder: Path) -> dict[str, Any] | None:
    """What the newest snapshot and the records since say, as JSON; None if there is nothing."""
    newest = max(storage.listed(folder, _SNAPSHOTS), default=None)
    if newest is None:
        return None
    saved = _parse(newest, folder)
    return _followed(folder, saved) or saved


def committed(folder: Path) -> int:
    """The last tick that was committed."""
    found = (*storage.listed(folder, _SNAPSHOTS), *storage.listed(folder, _RECORDS))
    return max(map(_tick, found), default=0)


def _followed(folder: Path, saved: dict[str, Any]) -> dict[str, Any] | None:
    """With the records that have come since; None if there is none, and some may have been deleted."""
    began = saved["tick"]
    while storage.is_there(path := folder / _RECORD.format(saved["tick"] + 1)):
        saved = applied(saved, _parse(path, folder))
    # Records are deleted in the order of their ticks: while the last one is there, none after it is gone.
    return saved if saved["tick"] > began or storage.is_there(folder / _RECORD.format(began)) else None


def _parse(path: Path, folder: Path) -> dict[str, Any]:
    """What a file says, if it is of this version."""
    saved: dict[str, Any] = json.loads(storage.read_text(path))
    if saved.pop("version", None) != VERSION:
        raise QueryError(
            f"the checkpoint in {folder} is of another version of this library: its format is not {VERSION}",
            hint="finish with the version that began it, or start with a new folder",
        )
    return saved


def _listed(manifest: Manifest) -> Manifest:
    """The states as they are now; between ticks some are added and removed, and none is changed."""
    return replace(
        manifest,
        streams=dict(manifest.streams),
        queries=dict(manifest.queries),
        relations=dict(manifest.relations),
        nodes=dict(manifest.nodes),
        placements=dict(manifest.placements),
    )


def _tick(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
