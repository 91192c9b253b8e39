"""Files of checkpoints: on the disk before they count, in folders that are seen, all through one module."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch import engine, operators, storage
from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask
from anabranch.engine.layout import filed, prefix_of
from anabranch.engine.store import AsideTask, BufferTask, SumsTask
from anabranch.errors import QueryError, ResourceError
from anabranch.operators.base import TIME, WEIGHT
from anabranch.operators.held_states import OVERHEAD_BYTES, HeldStates
from anabranch.operators.segments import LogFile, Segment, read_segment
from anabranch.spark.continuous import cell_task
from anabranch.spark.continuous.summaries import NEWEST, OLDEST

PROGRAM = "from anabranch.storage import temporary_folder; folder = temporary_folder(); print(folder, folder.is_dir())"
ROWS = pa.table({"k": [1, 2], TIME: [5, 6], WEIGHT: [1, 1], OLDEST: [5, 6], NEWEST: [5, 6]})
Write = Callable[[Path], object]
PREFIX = prefix_of(1, "abc")


def task(made: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    return list(made(iter(ROWS.to_batches())))


def logged(folder: Path, *tables: pa.Table) -> list[Segment]:
    file = LogFile(folder, "1.log")
    segments = [file.append("inputs", [table]) for table in tables]
    file.close()
    return segments


def answered(folder: Path) -> object:
    writer = AnswerFolder(str(folder), filed(PREFIX)).begin()
    writer.write([AnswerTask(1, (("k", "k"),), changes=True)], ROWS)
    return writer.close()


WRITES: dict[str, Write] = {
    "state": lambda folder: logged(folder / "state", ROWS, ROWS),
    "kept": lambda folder: task(BufferTask("s", str(folder), "1", 0, 9, 0)),
    "late": lambda folder: task(AsideTask("s", str(folder), "1", 9, 99)),
    "sums": lambda folder: task(SumsTask("s", str(folder), "1")),
    "answers": answered,
}


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Numbers and sizes of files, when they are synced."""
    seen: list[tuple[int, int]] = []
    real = os.fsync

    def fsync(number: int) -> None:
        found = os.fstat(number)
        seen.append((found.st_ino, found.st_size))
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.mark.parametrize("kind", WRITES)
def test_what_a_worker_writes_is_synced_once_and_whole(
    kind: str, tmp_path: Path, synced: list[tuple[int, int]]
) -> None:
    for name in ("state", "kept/s", "late/s", "unusable/s", f"answers/{Path(filed(PREFIX)).parent}"):
        (tmp_path / name).mkdir(parents=True)
    WRITES[kind](tmp_path)
    files = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert sorted(synced) == sorted((found.st_ino, found.st_size) for found in files)


@pytest.mark.parametrize("kind", WRITES)
def test_a_worker_that_does_not_see_the_checkpoint_says_so(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"^the worker on .* does not see the folder .*\n  hint: all nodes of a "):
        WRITES[kind](tmp_path / "elsewhere")
    assert not list(tmp_path.iterdir())


def test_a_driver_that_does_not_see_what_a_worker_has_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ResourceError, match=r"^the driver does not see .*/answers/q/1.*\n  hint: all nodes of a cluster"
    ):
        storage.settle([tmp_path / "answers" / "q" / "1.parquet"])


def test_a_text_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    path = tmp_path / "note"
    storage.write_text(path, "old")
    assert [number for number, _ in synced] == [path.stat().st_ino, tmp_path.stat().st_ino]
    for operation in ("create", "sync", "rename"):

        def fail(done: str, path: Path, operation: str = operation) -> None:
            if done == operation:
                raise OSError("No space left on device")

        with storage.watching(fail), pytest.raises(OSError, match="No space"):
            storage.write_text(path, "new")
        assert [each.name for each in tmp_path.iterdir()] == ["note"]
        assert storage.read_text(path) == "old"


def test_new_folders_are_synced_up_to_one_that_was_there(tmp_path: Path, synced: list[tuple[int, int]]) -> None:
    storage.make_folder(tmp_path / "a" / "b" / "c")
    made = {path.stat().st_ino for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")}
    assert {number for number, _ in synced} == made
    storage.make_folder(tmp_path / "a" / "b" / "c")
    assert len(synced) == len(made)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        storage.make_folder(tmp_path / "file")


def test_state_that_was_read_does_not_change_with_its_file(tmp_path: Path) -> None:
    numbers = pa.table({"n": np.arange(1000)})
    segments = logged(tmp_path, numbers, numbers)
    assert [each.offset for each in segments] == [0, segments[0].bytes]
    held = read_segment(segments[1], tmp_path)
    (tmp_path / segments[1].path).write_bytes(bytes(2 * segments[0].bytes))
    assert held == [numbers], "the file was mapped: on NFS it would be gone for whoever holds it"


@pytest.mark.parametrize("uri", ["hdfs://node:8020/state", "s3a://bucket/state", "dbfs:/mnt/state", "HTTP://x/y"])
def test_uris_are_no_names_of_folders(uri: str) -> None:
    with pytest.raises(QueryError, match=r"^the checkpoint cannot be at .*\n  hint: give a folder that all nodes see"):
        storage.folder_of(uri, "the checkpoint")
    with pytest.raises(QueryError, match=r"^the checkpoint cannot be at"):
        storage.folder_of(Path(uri), "the checkpoint")


def test_folders_and_uris_of_files_are_names_of_folders(tmp_path: Path) -> None:
    assert storage.folder_of("some/a:b", "x") == Path.cwd() / "some" / "a:b"
    assert storage.folder_of(tmp_path.as_uri(), "x") == tmp_path
    assert storage.folder_of(f"file:{tmp_path}", "x") == tmp_path


def test_what_was_used_longest_ago_makes_room() -> None:
    held: HeldStates[str] = HeldStates()
    room = 10 * (OVERHEAD_BYTES + 100)
    for number in range(100):
        held.put(number, str(number), 100, room)
        held.take(0)
        held.put(0, "0", 100, room)
        assert held.bytes <= room
    assert [number for number in range(100) if held.take(number) is not None] == [0, *range(91, 100)]
    assert held.bytes == 0
    held.put(1, "too large", room, room)
    assert held.take(1) is None


# -- who does file work

MODULES = {"fcntl", "glob", "io", "mmap", "shutil", "tempfile"}
FUNCTIONS = {"open", "OSFile", "memory_map", "ParquetWriter", "write_table", "read_table", "ParquetFile"}
METHODS = {
    "exists", "glob", "hardlink_to", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text",
    "rename", "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "walk", "write_bytes", "write_text",
}  # fmt: skip
OF_THE_SYSTEM = {"PathLike", "cpu_count", "environ", "sysconf"}


def file_work(text: str) -> list[str]:
    """Where a module does file work by itself."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            found += [f"{node.lineno}: {name}" for name in names if name in MODULES]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            found += [] if node.attr in OF_THE_SYSTEM else [f"{node.lineno}: os.{node.attr}"]
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in FUNCTIONS:
                found.append(f"{node.lineno}: {called.id}")
            if isinstance(called, ast.Attribute) and not _of_storage(called):
                moved = called.attr == "replace" and len(node.args) == 1 and _names_path(called.value)
                if called.attr in METHODS | FUNCTIONS or moved:
                    found.append(f"{node.lineno}: {called.attr}")
    return found


def _of_storage(called: ast.Attribute) -> bool:
    return isinstance(called.value, ast.Name) and called.value.id == "storage"


def _names_path(value: ast.expr) -> bool:
    """Arrays have a method of this name, too."""
    return not (isinstance(value, ast.Name) and value.id == "numbers")


# Readers and writers of Parquet are given files that the storage has opened.
ALLOWED = {
    ("store.py", "ParquetWriter"),
    ("store.py", "write_table"),
    ("segments.py", "write_table"),
    ("answer_blocks.py", "write_table"),
    ("sinks.py", "write_table"),
}


def sources() -> Sequence[Path]:
    folders = [Path(next(iter(package.__path__))) for package in (engine, operators)]
    alone = Path(str(cell_task.__file__))
    return [
        *(path for folder in folders for path in sorted(folder.rglob("*.py"))),
        alone,
        alone.with_name("summaries.py"),
    ]


@pytest.mark.parametrize("path", sources(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nobody_else_does_file_work(path: Path) -> None:
    found = [each for each in file_work(path.read_text()) if (path.name, each.split(": ")[1]) not in ALLOWED]
    assert not found, "use anabranch.storage"


@pytest.mark.parametrize(
    "line",
    ["import shutil", "from tempfile import mkdtemp", "os.replace(a, b)", "open(a)", "a.unlink()",
     "(a / b).write_text(c)", "beside.replace(path)", "pa.memory_map(a)", "pq.write_table(t, a)",
     "sorted(a.glob('*'))"],
)  # fmt: skip
def test_file_work_is_noticed(line: str) -> None:
    assert file_work(line)


def test_a_folder_that_nobody_named_goes_with_its_program() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert said[1] == "True"
    assert not Path(said[0]).exists()
