"""Filters on Spark Connect: the same rows and the same counts as on a classic session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import ResourceError
from anabranch.spark.connect import require_classic
from anabranch.spark.native.condition_text import read_condition

PROGRAM = Path(__file__).with_name("connect_program.py")
KINDS = {"a": "bigint", "n": "int", "text": "string", "odd name": "bigint"}


def run(kind: str, folder: Path) -> dict[str, Any]:
    report = folder / f"{kind}.json"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, str(report)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.full(reason="starts two programs with Spark")
@pytest.mark.timeout(900)
def test_rows_counts_and_state_are_those_of_a_classic_session(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    classic, connect = run("classic", tmp_path), run("connect", tmp_path)
    assert "classic SparkSession" in connect.pop("engine")
    assert "Spark Connect" in connect.pop("explained")
    assert connect == classic


CLIENT_ALONE = """
import sys
for absent in ("py4j", "pyspark.core", "pyspark.sql.classic"):
    sys.modules[absent] = None
import pyspark
import anabranch as ab
from anabranch.errors import MissingExtra

assert not hasattr(pyspark, "SparkContext")
print(ab.Filter(ab.predicate(len, "text", returns="int", test=bool)), ab.where.__name__, ab.report.__name__)
try:
    ab.Engine
except MissingExtra as error:
    print(error)
"""


def test_filters_load_where_pyspark_is_a_client_of_spark_connect_alone() -> None:
    """As `pyspark-client` is: without Java, contexts, and accumulators that take messages."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", CLIENT_ALONE],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<filter, policy auto: len> where report\n")
    assert "needed for continuous queries, which run on a classic SparkSession" in done.stdout


def test_the_engine_says_what_it_needs_and_what_would_work() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ResourceError, match="need a classic SparkSession") as refused:
        require_classic(session)
    assert "filters (ab.where, ab.Filter)" in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("(a#1L > cast(5 as bigint))", "pure"),
        ("(a#1L > cast(n#2 as bigint))", "pure"),
        ("(n#2 = cast(a#1L as int))", "fallible"),
        ("((a#1L / cast(2 as bigint)) > 1.0)", "fallible"),
        ("(cast(text#3 as int) = 3)", "fallible"),
        ("RLIKE(text#3, [02468]$)", "pure"),
        ("RLIKE(text#3, text#3)", "fallible"),
        ("text#3 LIKE a%", "pure"),
        ("((text#3 IN (a,b)) AND isnotnull(odd name#4L))", "pure"),
        ("f(a#1L)#7", "fallible"),
        ("(uuid(Some(3)) > a)", "volatile"),
        ("raise_error(text#3)", "fallible"),
    ],
)
def test_what_the_text_of_a_plan_tells(condition: str, kind: str) -> None:
    found = read_condition(f"Filter {condition}\n+- Range (0, 1)", KINDS, ansi=True)
    assert found.kind == kind
    assert found.columns == tuple(name for name in KINDS if f"{name}#" in condition)
    assert found.has_python == ("f(" in condition)
    assert read_condition(f"Project [a#1L]\n+- Filter {condition}\n   +- Range", KINDS, ansi=True).hidden
