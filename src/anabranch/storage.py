"""File work of checkpoints and of other state: what is written is on the disk before its name counts.

A checkpoint is a folder that all nodes see. Workers write files of their own into folders that the driver has made, and
sync them; the driver syncs the folders, then commits. Nothing that counts is ever changed: a new file gets a new name,
or replaces another by one rename.

Every operation passes `_pass`, where a test can count, fail, or end the process:

>>> import tempfile
>>> seen = []
>>> with tempfile.TemporaryDirectory() as folder, watching(lambda operation, path: seen.append(operation)):
...     write_text(Path(folder) / "note", "of the tick")
...     read_text(Path(folder) / "note")
'of the tick'
>>> seen
['create', 'sync', 'rename', 'sync', 'read']
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import mmap
import os
import re
import shutil
import socket
import tempfile
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from anabranch.errors import QueryError, ResourceError

Operation = Literal["create", "write", "sync", "rename", "link", "remove", "make", "read", "list", "look", "lock"]
Watcher = Callable[[Operation, Path], None]
UNFINISHED = ".tmp"
"""Ends names of files that do not count yet."""
SYNCED_AT_ONCE = 8
"""Disks take several requests to sync for about the price of one."""
SHARED = "all nodes of a cluster need to see the checkpoint under the same name: take a folder that they share"
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_watcher: Watcher | None = None


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """In this process, tell somebody of every operation before it happens."""
    global _watcher  # noqa: PLW0603 - one per process, as there is one file system
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


def _pass(operation: Operation, path: Path) -> None:
    if _watcher is not None:
        _watcher(operation, path)


# -- folders


def folder_of(given: str | os.PathLike[str], what: str) -> Path:
    """The folder that a user means; a URI of anything but files is not the name of a folder.

    >>> folder_of("file:///tmp/my%20state", "the checkpoint")
    PosixPath('/tmp/my state')
    >>> folder_of("hdfs://node/state", "the checkpoint")
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: the checkpoint cannot be at 'hdfs://node/state': hdfs is not a file system of folders
      hint: give a folder that all nodes see under the same name, such as a mounted /mnt/shared/state
    """
    text = os.fspath(given)
    found = _URI.match(text)
    if found is None:
        return Path(text).absolute()
    if found[1].lower() == "file":
        return Path(unquote(urlsplit(text).path)).absolute()
    raise QueryError(
        f"{what} cannot be at {text!r}: {found[1]} is not a file system of folders",
        hint="give a folder that all nodes see under the same name, such as a mounted /mnt/shared/state",
    )


def temporary_folder() -> Path:
    """A new folder on this machine alone; it goes when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-"))
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a copy of it that ends sooner
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder, and those that it is in, unless it is there."""
    _pass("look", folder)
    if folder.is_dir():
        return
    _pass("make", folder)
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    sync_all({each.parent for each in missing})


def listed(folder: Path, pattern: str) -> list[Path]:
    """What is in a folder, by name."""
    _pass("list", folder)
    return sorted(folder.glob(pattern))


def files(folder: Path) -> list[Path]:
    """All files in a folder and in those below it."""
    return [path for path in listed(folder, "**/*") if path.is_file()]


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder."""
    _pass("look", path)
    return path.exists()


def require(paths: Iterable[Path]) -> None:
    """Whatever workers have written has to be here."""
    for path in paths:
        if not is_there(path):
            raise ResourceError(f"the driver does not see {str(path)!r}, which a worker has written", hint=SHARED)


def size(path: Path) -> int:
    """Bytes of a file."""
    _pass("look", path)
    return path.stat().st_size


def parts(path: Path) -> list[Path]:
    """A file, or the files in a folder that Spark has written."""
    _pass("look", path)
    return listed(path, "part-*") if path.is_dir() else [path]


def uri(path: Path) -> str:
    """The path as Spark needs it: a bare one might mean HDFS to it. Spark does not decode what is quoted in URIs."""
    return f"file://{path}"


# -- files


class NewFile:
    """A file that is being written, in a folder that is there; it is on the disk when it has been closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.writing():
            _pass("create", path)
            self.sink = pa.OSFile(str(path), "wb")

    def close(self) -> int:
        """Finish; returns its size."""
        with self.writing():
            written = int(self.sink.tell())
            self.sink.close()
            sync(self.path)
        return written

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say in words what the system says about a file that cannot be written."""
        try:
            yield
        except FileNotFoundError as error:
            folder, node = str(self.path.parent), socket.gethostname()
            what = f"the worker on {node} does not see the folder {folder!r}, which the driver has made"
            raise ResourceError(what, hint=SHARED) from error
        except OSError as error:
            hint = "free some space on the disk of the checkpoint, then start again"
            raise ResourceError(f"{str(self.path)!r} cannot be written: {error}", hint=hint) from error


ALIGNED = 8


class Block(NamedTuple):
    """A part of a scratch file, and its checksum."""

    offset: int
    bytes: int
    checksum: int


class ScratchFile:
    """What a process puts out of its memory for a while, in blocks with checksums.

    It has no name once it is open: it goes when nobody holds it any more, however the process ends.

    >>> file = ScratchFile()
    >>> block = file.write(b"some rows")
    >>> bytes(file.view(block))
    b'some rows'
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir())
        self.bytes = 0
        self._map: mmap.mmap | None = None
        self._tested: set[int] = set()
        with self._in_words("written", "free some space, or set TMPDIR to a folder on a larger disk"):
            _pass("create", self.folder)
            self._number, name = tempfile.mkstemp(prefix="anabranch-", dir=self.folder)
            weakref.finalize(self, os.close, self._number)
            os.unlink(name)

    def write(self, data: bytes | memoryview) -> Block:
        """Put something at its end, where a number may begin."""
        data = memoryview(data).cast("B")
        self.bytes = -(-self.bytes // ALIGNED) * ALIGNED
        with self._in_words("written", "free some space, or set TMPDIR to a folder on a larger disk"):
            _pass("write", self.folder)
            done = 0
            while done < len(data):
                done += os.pwrite(self._number, data[done:], self.bytes + done)
        block = Block(self.bytes, len(data), zlib.crc32(data))
        self.bytes += len(data)
        return block

    def view(self, block: Block) -> memoryview:
        """A block of the file, which is mapped; it is compared with its checksum when it is asked for first."""
        hint = "the disk may be failing; the rows are in the checkpoint, so start again"
        with self._in_words("read", hint):
            _pass("read", self.folder)
            data = self.whole()[block.offset : block.offset + block.bytes]
        if block.offset not in self._tested:
            if zlib.crc32(data) != block.checksum:
                what = f"rows that were put out of memory, in {str(self.folder)!r}, are damaged"
                raise ResourceError(what, hint=hint)
            self._tested.add(block.offset)
        return data

    def whole(self) -> memoryview:
        """All that was written so far, mapped and not compared with anything."""
        if self._map is None or len(self._map) < self.bytes:
            self._map = mmap.mmap(self._number, self.bytes, prot=mmap.PROT_READ)
        return memoryview(self._map)

    @contextmanager
    def _in_words(self, what: str, hint: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"rows that are put out of memory cannot be {what} in {str(self.folder)!r}: {error}"
            raise ResourceError(what, hint=hint) from error


def opened(path: Path) -> pa.NativeFile:
    """A file to be read. It is not mapped: somebody else may delete it while what was read is still in use."""
    _pass("read", path)
    return pa.OSFile(str(path), "rb")


def read_text(path: Path) -> str:
    """A whole file."""
    _pass("read", path)
    return path.read_text()


def write_text(path: Path, text: str) -> None:
    """Put a file in place by one rename, once it is on the disk; the folder has to be there."""
    beside = path.parent / f".{uuid.uuid4().hex}{UNFINISHED}"
    try:
        _pass("create", beside)
        beside.write_text(text)
        sync(beside)
        rename(beside, path)
    except OSError:
        with suppress(OSError):
            remove(beside)
        raise
    sync(path.parent)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Put a file of JSON in place, as `write_text` does."""
    write_text(path, json.dumps(data))


def rename(source: Path, target: Path) -> None:
    """Give a file or folder another name, which is on the disk when the folder is synced."""
    _pass("rename", target)
    source.replace(target)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; across disks, copy it."""
    _pass("link", target)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        sync(target)


def remove(path: Path) -> None:
    """Delete a file, or a folder with all that is in it, if it is there."""
    _pass("remove", path)
    while path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):  # Spark deletes some of its files by itself, meanwhile
            shutil.rmtree(path)
    path.unlink(missing_ok=True)


def lock(path: Path) -> IO[str]:
    """Hold a file until it is closed, or the process ends; OSError if somebody else holds it."""
    _pass("lock", path)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


# -- what is on the disk


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    _pass("sync", path)
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems do not sync folders: their names are on the disk at once
            raise
    finally:
        os.close(number)


def sync_all(paths: Iterable[Path]) -> None:
    """Wait until some files, or names in some folders, are on the disk."""
    several = sorted(paths)
    if len(several) == 1:
        sync(several[0])
    elif several:
        with ThreadPoolExecutor(SYNCED_AT_ONCE) as pool:
            list(pool.map(sync, several))


def settle(paths: Iterable[Path]) -> None:
    """Wait until the names of files that others have written are on the disk; each folder is synced once."""
    paths = list(paths)
    require(paths)
    sync_all({path.parent for path in paths})


def settle_tree(folder: Path) -> None:
    """Wait until a folder that Spark has written is on the disk, with its files and its name."""
    sync_all([*listed(folder, "**/*"), folder, folder.parent])
