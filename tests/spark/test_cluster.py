"""On a cluster: executors are other processes than the driver, and one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.cluster_program import ROWS

PROGRAM = Path(__file__).with_name("cluster_program.py")


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the executor in /proc")
def test_rows_and_counts_are_right_although_an_executor_dies(tmp_path: Path) -> None:
    program = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=280, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    wanted = [[n, 2 * n] for n in range(100, ROWS) if n % 2 == 0 and n % 3 == 0 and n % 5 in (1, 4)]
    assert told["killed"]
    assert told["first"] == wanted
    assert told["again"] == len(wanted)
    assert told["rows"] == [ROWS - 100, 2 * (ROWS - 100)], "a task that died with its executor counts once"
    assert told["dropped"] == 2 * (ROWS - 100 - len(wanted))
