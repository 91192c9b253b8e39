"""The engine's files: what is committed is on the disk, what cannot be a folder is refused, and memory has a bound."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch import storage
from anabranch.errors import QueryError
from anabranch.operators.held_states import OVERHEAD_BYTES
from spark.killed_engine import finished, started
from spark.two_streams import assert_exact, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)  # a busy machine is slow

FILES = 4
NAMES = ("lefts", "rights")


class Watched:
    """What the driver does with files: of every commit, what it names for the first time that was not synced before."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._synced: set[Path] = set()
        self._known: set[Path] = set()
        self.commits = 0
        self.missing: list[Path] = []
        self.failing = ""

    def __call__(self, operation: storage.Operation, path: Path) -> None:
        if operation == "sync":
            self._synced.add(path)
        elif operation == "rename":
            self._synced.discard(path.parent)
            if self.failing and self.failing in str(path):
                self.failing = ""
                raise OSError("Input/output error")
            if path.name.startswith(("manifest-", "tick-")):
                self._commit()

    def _commit(self) -> None:
        (text,) = (path for path in self._checkpoint.glob(f".*{storage.UNFINISHED}") if path in self._synced)
        named = {self._checkpoint / "state" / path for path in paths(json.loads(text.read_text())["nodes"])}
        named |= set((self._checkpoint / "answers").glob("*/*.blocks"))
        self.missing += [path for path in named - self._known if path.parent not in self._synced]
        self._known |= named
        self._synced.clear()
        self.commits += 1


def paths(said: Any) -> Iterator[str]:
    """All that a snapshot, or a record, names."""
    if isinstance(said, dict) and "path" in said:
        yield said["path"]
    elif isinstance(said, dict | list):
        for each in said.values() if isinstance(said, dict) else said:
            yield from paths(each)


@dataclass
class Streams:
    """Files of both streams, of which Spark sees only some so far."""

    folder: Path

    def __post_init__(self) -> None:
        self.rows = written(self.folder, FILES, random.Random(1))
        for path in [path for name in NAMES for path in (self.folder / name).glob("*")]:
            path.rename(path.with_name(f"_{path.name}"))

    def show(self, number: int) -> None:
        for name in NAMES:
            hidden = self.folder / name / f"_{number}.parquet"
            hidden.rename(hidden.with_name(f"{number}.parquet"))


def test_files_are_synced_before_they_count_and_states_that_do_not_fit_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams, checkpoint = Streams(tmp_path), tmp_path / "state"
    watched = Watched(checkpoint)
    with storage.watching(watched):
        engine = started(spark, tmp_path, checkpoint, cells=4, state_bytes=3 * OVERHEAD_BYTES)
        for number in range(FILES - 1):
            streams.show(number)
            for query in engine.queries.values():
                query.await_idle()
        reports = engine._runner.reports.values()
        assert len(reports) >= 12, "no two workers hold them"
        assert sum(report.segments_read for report in reports) > 0
        watched.failing = "/answers/"  # after queries have gone on, and before that is committed
        streams.show(FILES - 1)
        with pytest.raises(OSError, match="Input/output error"):
            finished(engine)
        engine.stop()
        (checkpoint / f".left{storage.UNFINISHED}").touch()
        finished(started(spark, tmp_path, checkpoint))
    assert not watched.failing
    assert watched.commits > FILES
    assert not watched.missing
    assert not list(checkpoint.glob(f".*{storage.UNFINISHED}")), "what was left is swept up"
    assert_exact(tmp_path, streams.rows)


def test_what_is_no_folder_is_refused(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        QueryError, match=r"^the checkpoint cannot be at 'hdfs://node/state': hdfs is not a file system"
    ):
        ab.Engine(spark, "hdfs://node/state")
    with pytest.raises(QueryError, match=r"^state_bytes is -1"):
        ab.Engine(spark, state_bytes=-1)
    engine = ab.Engine(spark)
    engine.stream("s", spark.range(1).selectExpr("timestamp_seconds(id) ts", "id k"), timestamp="ts")
    query = engine.query("Select k From s", "q")
    with pytest.raises(QueryError, match=r"^a sink cannot be at 's3a://bucket/out'"):
        query.use_sink("parquet", path="s3a://bucket/out")
    with pytest.raises(QueryError, match=r"^the state of a filter cannot be at 'hdfs://node/f'"):
        ab.Filter("id > 0", state="hdfs://node/f")
    assert not list(tmp_path.iterdir())
