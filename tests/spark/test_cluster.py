"""On a cluster: executors are other processes than the driver, and one of them dies, twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spark.cluster_program import ROWS
from spark.two_streams import assert_exact, written

PATIENCE_SECONDS = 580
PROGRAM = Path(__file__).with_name("cluster_program.py")


@pytest.mark.spark
@pytest.mark.timeout(PATIENCE_SECONDS + 20)
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the executor in /proc")
def test_rows_counts_and_answers_are_right_although_executors_die(tmp_path: Path) -> None:
    streams = written(tmp_path, 4, random.Random(20))
    program = [sys.executable, str(PROGRAM), str(tmp_path)]
    path = os.pathsep.join([str(PROGRAM.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    wanted = [[n, 2 * n] for n in range(100, ROWS) if n % 2 == 0 and n % 3 == 0 and n % 5 in (1, 4)]
    assert report["killed"]
    assert report["first"] == wanted
    assert report["again"] == len(wanted)
    assert report["rows"] == [ROWS - 100, 2 * (ROWS - 100)], "a task that died with its executor counts once"
    assert report["dropped"] == 2 * (ROWS - 100 - len(wanted))
    assert report["ticks"] > 2
    assert_exact(tmp_path, streams)
