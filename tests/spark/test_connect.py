"""Filters on Spark Connect: the same rows and the same counts as on a classic session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.errors import ResourceError
from anabranch.spark.connect import require_classic
from anabranch.spark.filters.letters import ENDS, METRIC, PASSES, Outbox, deliver
from anabranch.spark.native.condition_text import read_condition

PROGRAM = Path(__file__).with_name("connect_program.py")
ON_BOTH = [
    "bad_input",
    "calls",
    "differential",
    "filter",
    "long_texts",
    "lookup_values",
    "names",
    "native",
    "papers",
    "properties",
    "report",
    "route_expression",
    "routes",
    "state_folders",
    "streams",
    "time_zones",
    "traces",
    "tuning",
    "values",
]
"""Modules of tests that run on Spark Connect as well; what needs a classic session is marked `classic`."""
FEW = [
    "calls.py::test_equal_rows_are_asked_once_and_a_later_run_asks_nothing",
    "filter.py::test_lookups_take_sets_tables_and_dataframes",
    "filter.py::test_quarantine_loses_and_doubles_no_row",
    "native.py::test_what_may_fail_stays_behind_its_guards",
    "report.py::test_a_filter_that_stands_twice_in_a_plan_counts_both",
]
"""Some of them, for each thing that goes another way there."""
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


def passed_on_connect(address: str, tests: Sequence[str]) -> None:
    """Run tests of this folder on a session of Spark Connect; it is for a whole process."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    options = ["-q", "-m", "not full", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        [*command, *(str(PROGRAM.with_name(f"test_{test}")) for test in tests)],
        cwd=PROGRAM.parents[2],
        env={**ours, "CONNECT": address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-4000:]


@pytest.mark.timeout(300)
def test_some_tests_of_filters_pass_on_connect(connect_address: str) -> None:
    passed_on_connect(connect_address, FEW)


@pytest.mark.full(reason="runs hundreds of tests once more, some minutes")
@pytest.mark.timeout(2400)
def test_all_tests_of_filters_pass_on_connect(connect_address: str) -> None:
    passed_on_connect(connect_address, [f"{module}.py" for module in ON_BOTH])


STREAM = """
import sys
from pyspark.sql import SparkSession
import anabranch as ab

address, folder = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
frame = spark.range(0, 900, 1, 3)
frame.write.parquet(folder + "/in")
stream = spark.readStream.schema(frame.schema).parquet(folder + "/in")
f = ab.Filter(ab.predicate(lambda n: n % 3 == 0, "id", name="third"))
written = f.apply(stream).writeStream.format("parquet").option("checkpointLocation", folder + "/log")
written.trigger(availableNow=True).start(folder + "/out").awaitTermination()
print(spark.read.parquet(folder + "/out").count(), "rows")
"""


def ends_after_a_stream(address: str, folder: Path) -> None:
    """A program that streams a filter, and stops nothing at its end."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", STREAM, address, str(folder)],
        env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "300 rows\n"
    assert not re.search("Traceback|[Ll]istener", done.stderr), done.stderr


def test_a_program_that_streams_a_filter_ends(connect_address: str, tmp_path: Path) -> None:
    ends_after_a_stream(connect_address, tmp_path)


@pytest.mark.spark
@pytest.mark.full(reason="starts another Java process")
def test_a_program_that_streams_a_filter_ends_with_a_server_of_its_own(tmp_path: Path) -> None:
    ends_after_a_stream("local[2]", tmp_path)


@pytest.mark.spark
@pytest.mark.full(reason="starts two programs with Spark")
@pytest.mark.timeout(900)
def test_rows_counts_and_state_are_those_of_a_classic_session(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    classic, connect = run("classic", tmp_path), run("connect", tmp_path)
    assert "classic SparkSession" in connect.pop("engine")
    assert "Spark Connect" in connect.pop("explained")
    for retried in (classic["retried"], connect["retried"]):  # which predicate drops a row depends on their order
        assert retried["rows"] == 2000, "a task that failed, or whose worker died, counts once"
        retried["dropped"] = sum(retried["dropped"])
    assert connect == classic


def test_a_record_goes_on_beside_the_last_row_whether_or_not_that_passes() -> None:
    outbox = Outbox()
    outbox.send({"rows": 5})
    nobody = np.zeros(2, dtype=np.bool_)
    assert [array.to_pylist() for array in outbox.beside(nobody, last=False)] == [[False, False], [None, None]]
    going_on, letters = outbox.beside(nobody, last=True)
    assert going_on.to_pylist() == [False, True]
    assert letters[1].as_py().startswith(ENDS)
    taken: list[Any] = []
    deliver({METRIC: letters[1].as_py()}, type("Taking", (), {"enter": lambda _, records: taken.extend(records)})())
    assert taken == [{"rows": 5}]
    outbox.send({})
    assert outbox.beside(np.array([False, True]), last=True)[1][1].as_py().startswith(PASSES)


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
        ("text#3 LIKE text#3", "fallible"),
        ("(text#3 LIKE odd name#4L AND text#3 LIKE a%)", "fallible"),
        ("(list#9[1] > 3)", "fallible"),
        ("(text#3 LIKE a[b AND RLIKE(text#3, x[0-9]))", "pure"),
        ("(-a#1L > cast(-5 as bigint))", "fallible"),
        ("(a#1L > cast(-5 as bigint))", "pure"),
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
