"""Runs a SQL job several times in Flink, in a Python that has PyFlink: `python flink_program.py JOB.json`.

It prints a line of JSON: the seconds of each run. The first ones warm up; one over hardly any rows tells what it takes
to start a job.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def run(job: dict[str, Any]) -> list[float]:
    """Declare the tables of each run, then insert."""
    table = importlib.import_module("pyflink.table")
    settings = table.EnvironmentSettings.in_streaming_mode()
    seconds = []
    for statements in job["runs"]:
        environment = table.TableEnvironment.create(settings)
        for key, value in job["settings"].items():
            environment.get_config().set(key, value)
        for statement in statements:
            environment.execute_sql(statement)
        began = time.perf_counter()
        environment.execute_sql(job["insert"]).wait()
        seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    print(json.dumps(run(json.loads(Path(sys.argv[1]).read_text()))), flush=True)
