"""One query alone, on this version and on an earlier one, each in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import anabranch
from anabranch.benches import alone_program
from anabranch.benches.cql import stream_files
from anabranch.benches.harness import Race
from anabranch.errors import InternalError, QueryError
from anabranch.measure import Bar, at_most, informed

ROWS = 100_000
TEXTS = {
    "filter and projection": "Select k, a * 2 As a, Upper(note) As loud From s Where a > 30 And note <> 'odd'",
    "sliding count and sum": "Select Rstream(k, Count(*) As n, Sum(a) As total) "
    "From s [Range 10 Minutes Slide 1 Minute] Group By k",
    "counts over a window": "Select k, Count(*) As n, Sum(a) As total From s [Range 45 Seconds] Group By k",
}


def alone(spark: SparkSession, folder: Path, quick: bool, *, old: Path | None) -> list[Bar]:
    """The queries of `anabranch bench cql`, if there is an earlier version to compare with."""
    if old is None:
        print("one query alone: not measured. --old names a worktree of an earlier version")
        return []
    if not (old / "src" / "anabranch").is_dir():
        raise QueryError(f"{str(old)!r} is not a worktree of this project", hint="git worktree add PATH COMMIT")
    given = stream_files(folder, "alone", 3 if quick else 6, ROWS, (3 if quick else 6) * 120.0)
    ours = Path(anabranch.__file__).parents[1]
    sources = {"old": old / "src", "new": ours, "new again": ours}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(_process(path, given.folder)) for name, path in sources.items()}
        texts = list(TEXTS.items())[: 1 if quick else len(TEXTS)]
        return [bar for name, text in texts for bar in _bars(name, text, processes, folder, 2 if quick else 4)]


def _bars(name: str, text: str, processes: dict[str, Process], folder: Path, rounds: int) -> list[Bar]:
    result, names = Race({each: [] for each in processes}), list(processes)
    for number in range(rounds + 1):  # the first is to warm up
        turn = number % len(names)
        for each in names[turn:] + names[:turn]:
            reply = processes[each].run(text, folder / f"alone-{each.replace(' ', '-')}-{name[:4]}-{number}")
            found = (reply["count"], reply["checksum"])
            result.answer = result.answer or found
            if found != result.answer:
                raise InternalError(f"{each} answered {found[0]} rows, or others, instead of {result.answer[0]}")
            if number:
                result.seconds[each].append(reply["seconds"])
    bar = f"one query alone, {name}: new engine / old engine"
    return [
        at_most(bar, result.ratio("new", "old"), 1.03, result.describe("new", "old")),
        informed(f"{bar}: A/A control", result.ratio("new again", "new"), result.describe("new again")),
    ]


class Process:
    """A version of the library at work elsewhere."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, text: str, out: Path) -> dict[str, Any]:
        """Let it answer a query: seconds, rows and their checksum."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"text": text, "out": str(out)}), file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        if not reply:
            raise InternalError("a process of the bench has ended; its last words are above")
        answer: dict[str, Any] = json.loads(reply)
        return answer


@contextmanager
def _process(source: Path, rows: Path) -> Iterator[Process]:
    command = [sys.executable, "-P", alone_program.__file__, str(rows)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Process(process)
        finally:
            process.terminate()
