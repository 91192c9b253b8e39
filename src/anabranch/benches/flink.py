"""Flink as a peer: a SQL job over CSV files, in an environment of its own, which `make peers` makes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from anabranch.benches import flink_program

VARIABLE = "ANABRANCH_FLINK_PYTHON"
ENVIRONMENT = Path(".venv-peers/bin/python")
JOB_SECONDS = 300
LEAST_SECONDS = 0.01
"""What a job is said to take that is over as soon as one over hardly any rows."""


@dataclass(frozen=True)
class Source:
    """A stream in a CSV file, in the order of its event times, which are milliseconds in the column `ms`.

    Parameters
    ----------
    columns
        Name and SQL type of each column but `ms`, in the order of the file; `ms` comes first.
    path
        The file.
    """

    columns: Sequence[tuple[str, str]]
    path: Path

    def declared(self, name: str) -> str:
        """The statement that makes it a table with a watermark.

        A row with the same time as the one before is not late.

        >>> print(Source([("k", "BIGINT")], Path("/rows/a.csv")).declared("a").split(", ts AS ")[1].split(" WITH ")[0])
        TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
        """
        listed = ", ".join(f"`{column}` {kind}" for column, kind in self.columns)
        return (
            f"CREATE TABLE {name} (ms BIGINT, {listed}, ts AS TO_TIMESTAMP_LTZ(ms, 3), "
            "WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND) "
            f"WITH ('connector' = 'filesystem', 'path' = 'file://{self.path}', 'format' = 'csv')"
        )


def python() -> str | None:
    """The Python that has PyFlink; where there is none, it is said, and how to get one."""
    found = os.environ.get(VARIABLE) or (str(ENVIRONMENT.absolute()) if ENVIRONMENT.exists() else None)
    if found is None:
        print(f"Flink: not measured. `make peers` installs it; or {VARIABLE} names a Python that has apache-flink")
    return found


def seconds(
    python: str,
    folder: Path,
    sources: Mapping[str, Source],
    small: Mapping[str, Source],
    answer: str,
    select: str,
    *,
    format: str = "csv",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> float:
    """Seconds of `INSERT INTO answer select` in a warm Flink, without those that a job over small files takes.

    Parameters
    ----------
    answer
        The columns of the answer, which is written to the folder `answer`.
    format
        How: `debezium-json` has the changes of a relation.
    settings
        Of Flink, beside those of all jobs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = {"warm-small": small, "warm": sources, "small": small, "answer": sources}
    job = {
        "settings": {"parallelism.default": "2", "table.local-time-zone": "UTC", **settings},
        "runs": [
            [*(each.declared(stream) for stream, each in given.items()), _sink(folder / name, answer, format)]
            for name, given in runs.items()
        ],
        "insert": f"INSERT INTO answer {select}",
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    command = [python, "-I", flink_program.__file__, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"Flink failed: {error.stderr.strip()[-2000:]}") from error
    *_, start, whole = json.loads(done.stdout.splitlines()[-1])
    return max(float(whole - start), LEAST_SECONDS)


def _sink(folder: Path, columns: str, format: str) -> str:
    return (
        f"CREATE TABLE answer ({columns}) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = '{format}')"
    )
