"""The file that keeps the state of a filter: what it has learned and counted, as JSON, in one format.

`Filter.save` writes the file once, without counts; with `state=` the file is kept up to date. It is written as a whole
or not at all. With `state=` a change is written within about a second, by a thread that lives only as long as there is
something to write, so that little is lost however the program ends.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from anabranch import storage
from anabranch.errors import QueryError

FORMAT = 5
NAME_IN_FOLDER = "filter.json"
SAVE_INTERVAL_SECONDS = 1.0

Stamp = tuple[int, int]
"""Tells whether a file is still the one that was written or read: its time and its number on the disk."""


class Keeper(Protocol):
    """Something that can write its state."""

    def save(self) -> None:
        """Write it and tell `saving` that it is done; where that fails, ask it for another attempt soon."""


class Saving:
    """Who has something to write, and a timer as long as there is someone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsaved: set[Keeper] = set()
        self._timer: threading.Timer | None = None

    def soon(self, keeper: Keeper) -> None:
        """Have a state written within about a second."""
        with self._lock:
            self._unsaved.add(keeper)
            if self._timer is None:
                timer = threading.Timer(SAVE_INTERVAL_SECONDS, self._save_all)
                timer.daemon = True
                with suppress(RuntimeError):  # no thread to be had: the next change, or the end of the program, saves
                    timer.start()
                    self._timer = timer

    def done(self, keeper: Keeper) -> None:
        """Nothing is left to write."""
        with self._lock:
            self._unsaved.discard(keeper)

    def is_due(self, keeper: Keeper) -> bool:
        """Whether something is left to write."""
        with self._lock:
            return keeper in self._unsaved

    def finish(self) -> None:
        """Write what the last second has brought."""
        self._save_all()
        if self._unsaved:
            warnings.warn("The last counts of a filter are lost: its state file cannot be written", stacklevel=1)

    def _save_all(self) -> None:
        with self._lock:
            self._timer = None
            waiting = tuple(self._unsaved)
        for keeper in waiting:
            if self.is_due(keeper):
                keeper.save()


saving = Saving()
atexit.register(saving.finish)


def write(path: Path, names: tuple[str, ...], state: Mapping[str, Any]) -> None:
    """Replace the file of a filter with predicates of these names, atomically."""
    storage.write_json(path, {"version": FORMAT, "names": names, **state})


def read(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The state that a filter with predicates of these names has written."""
    try:
        data: dict[str, Any] = json.loads(storage.read_text(path))
        found, others = data["version"], tuple(data["names"])
    except FileNotFoundError:
        raise QueryError(f"{path} does not exist", hint="give the file or folder that a filter has written") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise QueryError(f"{path} is not the state of a filter", hint="choose another path") from error
    if others != names:
        raise QueryError(
            f"{path} is the state of a filter with other predicates: {', '.join(others)}",
            hint="choose another path, or delete this file to start anew",
        )
    if found != FORMAT:
        raise QueryError(
            f"{path} is the state of a filter in format {found}; this version reads format {FORMAT}",
            hint="delete it to start anew",
        )
    return data


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Report an error while the contents of a file are read as damage of the file."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise QueryError(f"{path} is damaged: {error!r}", hint="delete it to start anew") from error


def stamp(path: Path) -> Stamp | None:
    """The stamp of a file; none where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def file_of(state: Any) -> Path:
    """The file that `state=` means: a file that is there or is named `*.json`, else `filter.json` in the folder."""
    if not isinstance(state, (str, os.PathLike)) or not str(state):
        raise QueryError(f"state is {state!r}", hint='give a folder or a file: state="counts/of/this/filter"')
    path = storage.folder_of(state, "the state of a filter").resolve()
    return path if path.is_file() or (path.suffix == ".json" and not path.is_dir()) else path / NAME_IN_FOLDER


def saved_file(path: str | os.PathLike[str]) -> Path:
    """The file that `Filter.save` and `Filter.load` mean: the path itself, or `filter.json` in a folder."""
    given = storage.folder_of(path, "the state of a filter").resolve()
    return given / NAME_IN_FOLDER if given.is_dir() else given


def require_folder(path: Path) -> None:
    """Make a folder, unless it is there."""
    try:
        storage.make_folder(path)
    except OSError as error:
        raise QueryError(f"{path} cannot be a folder: {error.strerror}", hint="choose another path") from error
