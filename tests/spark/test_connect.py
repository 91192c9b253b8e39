"""Filters on Spark Connect: the same rows and the same counts as on a classic session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import ResourceError
from anabranch.spark.connect import require_classic
from anabranch.spark.native.condition_text import read_condition

PROGRAM, SERVER = (Path(__file__).with_name(f"connect_{part}.py") for part in ("program", "server"))
KINDS = {"a": "bigint", "n": "int", "text": "string", "odd name": "bigint"}


def environment() -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def server() -> Iterator[str]:
    """The address of a server in a process of its own."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield next(line.strip() for line in process.stdout if line.startswith("sc://"))
        process.communicate()


def run(kind: str, folder: Path) -> dict[str, Any]:
    report = folder / f"{'classic' if kind == 'classic' else 'connect'}.json"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, str(report)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.spark
@pytest.mark.full(reason="starts two programs with Spark")
@pytest.mark.timeout(900)
def test_rows_counts_and_state_are_those_of_a_classic_session(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with server() as address:
        classic, connect = run("classic", tmp_path), run(address, tmp_path)
    assert connect.pop("context") is False, "the client has no more than pyspark-client brings"
    assert connect["retried"] == [3000, True, 6000, 6000], "a task that was retried counts once"
    assert "classic SparkSession" in connect.pop("engine")
    assert "Spark Connect" in connect.pop("explained")
    assert connect == classic


@pytest.mark.spark
@pytest.mark.full(reason="runs the tests of filters once more, on Spark Connect")
@pytest.mark.timeout(1800)
def test_the_tests_of_filters_pass_on_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(PROGRAM.with_name("test_filter.py")), "-q", "-p", "no:cacheprovider"],
        env={**environment(), "ANABRANCH_CONNECT": "local[2]"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


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
