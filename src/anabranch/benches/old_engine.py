"""Queries on this version and on an earlier one, each in a process of its own, in turn.

`alone` is for `anabranch bench queries`, `in_conditions` for `anabranch bench joins`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import anabranch
from anabranch.benches import alone_program
from anabranch.benches.cql import START, stream_files
from anabranch.benches.harness import Race
from anabranch.errors import InternalError, QueryError
from anabranch.measure import Bar, at_least, at_most, informed

ROWS = 100_000
TEXTS = {
    "filter and projection": "Select k, a * 2 As a, Upper(note) As loud From s Where a > 30 And note <> 'odd'",
    "sliding count and sum": "Select Rstream(k, Count(*) As n, Sum(a) As total) "
    "From s [Range 10 Minutes Slide 1 Minute] Group By k",
    "counts over a window": "Select k, Count(*) As n, Sum(a) As total From s [Range 45 Seconds] Group By k",
}


SCHEMA = "seq long, ts timestamp, k long, a long, note string"
TESTED = 8
ROWS_OF_WINDOWS = 10_000


def alone(spark: SparkSession, folder: Path, quick: bool, *, old: Path | None) -> list[Bar]:
    """The queries of `anabranch bench cql`, if there is an earlier version to compare with."""
    if old is None:
        return _not_measured("one query alone")
    given = stream_files(folder, "alone", 3 if quick else 6, ROWS, (3 if quick else 6) * 120.0)
    streams, bars = {"s": (str(given.folder), SCHEMA)}, []
    with _versions(old) as versions:
        for name, text in list(TEXTS.items())[: 1 if quick else len(TEXTS)]:
            result = _contest(versions, {"text": text, "streams": streams}, folder / "alone-out", 2 if quick else 4)
            bar = f"one query alone, {name}: new engine / old engine"
            bars.append(at_most(bar, result.ratio("new", "old"), 1.03, result.describe("new", "old")))
            bars.append(_control(bar, result))
    return bars


def in_conditions(spark: SparkSession, folder: Path, quick: bool, *, old: Path | None) -> list[Bar]:
    """A stream whose rows must be in windows of rows of eight others."""
    if old is None:
        return _not_measured(f"{TESTED} `In` conditions")
    files, rows = (2, 5_000) if quick else (4, 20_000)
    streams = {
        f"s{number}": (str(_keys(folder / f"in-{number}", number, files, rows)), "seq long, ts timestamp, a long")
        for number in range(TESTED + 1)
    }
    tests = " And ".join(f"s0.a In (Select a From s{n} [Rows {ROWS_OF_WINDOWS}])" for n in range(1, TESTED + 1))
    asked = {"text": f"Select Istream(s0.seq, s0.a) From s0 [Now] Where {tests}", "streams": streams}
    with _versions(old) as versions:
        result = _contest(versions, asked, folder / "in-out", 1 if quick else 2)
    bar = f"{TESTED} `In` conditions over [Rows {ROWS_OF_WINDOWS:,}]: old engine / new engine"
    return [at_least(bar, result.ratio("old", "new"), 5, result.describe("old", "new")), _control(bar, result)]


def _not_measured(what: str) -> list[Bar]:
    print(f"{what}: not measured. --old names a worktree of an earlier version")
    return []


def _control(bar: str, result: Race) -> Bar:
    return informed(f"{bar}: A/A control", result.ratio("new again", "new"), result.describe("new again"))


def _keys(folder: Path, number: int, files: int, rows: int) -> Path:
    """Files of rows whose key is in the last rows of another stream in six of seven cases."""
    rng, total = np.random.default_rng(number), files * rows
    times = START + np.sort(rng.integers(0, total * 1000, total))
    keys, times[-1] = rng.integers(0, ROWS_OF_WINDOWS // 2, total), START + total * 1000 + 1
    folder.mkdir()
    for batch in range(files):
        part = slice(batch * rows, (batch + 1) * rows)
        columns = {"seq": np.arange(total)[part], "ts": pa.array(times[part], pa.timestamp("us", "UTC"))}
        pq.write_table(pa.table(columns | {"a": keys[part]}), folder / f"{batch:06d}.parquet")
    return folder


def _contest(versions: Mapping[str, Process], asked: dict[str, Any], out: Path, rounds: int) -> Race:
    """All versions answer in turn, and the same."""
    result, names = Race({each: [] for each in versions}), list(versions)
    for number in range(rounds + 1):  # the first is to warm up
        turn = number % len(names)
        for each in names[turn:] + names[:turn]:
            reply = versions[each].run(asked | {"out": str(out / f"{each.replace(' ', '-')}-{number}")})
            found = (reply["count"], reply["checksum"])
            result.answer = result.answer or found
            if found != result.answer:
                raise InternalError(f"{each} answered {found[0]} rows, or others, instead of {result.answer[0]}")
            if number:
                result.seconds[each].append(reply["seconds"])
    return result


class Process:
    """A version of the library at work elsewhere."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Let it answer a query: seconds, rows and their checksum."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        if not reply:
            raise InternalError("a process of the bench has ended; its last words are above")
        answer: dict[str, Any] = json.loads(reply)
        return answer


@contextmanager
def _versions(old: Path) -> Iterator[dict[str, Process]]:
    """The earlier version, and this one twice."""
    if not (old / "src" / "anabranch").is_dir():
        raise QueryError(f"{str(old)!r} is not a worktree of this project", hint="git worktree add PATH COMMIT")
    ours = Path(anabranch.__file__).parents[1]
    sources = {"old": old / "src", "new": ours, "new again": ours}
    with ExitStack() as stack:
        yield {name: stack.enter_context(_process(path)) for name, path in sources.items()}


@contextmanager
def _process(source: Path) -> Iterator[Process]:
    command = [sys.executable, "-P", alone_program.__file__]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Process(process)
        finally:
            process.terminate()
