"""The command line on files of CQL: run them, explain them, and look at what a run needs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("rich")

from rich.console import Console

from anabranch.cli import doctor, scripts
from anabranch.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPT = """
Create Stream calls (seq Long, ts Timestamp, host Long) From 'parquet' With (path = '{path}') Timestamp ts Sequence seq;
Create Relation hosts (host Long, role String) From 'csv' With (path = '{path}.csv');
Create View recent As Select host, Count(*) As n From calls [Range 1 Minute] Group By host;
Create Query busy As Select host, n From recent Where n > 5;
Create Query named Into 'parquet' With (path = '{path}-out') As
    Select c.host, h.role From calls c, hosts h Where c.host = h.host;
"""


@pytest.fixture
def script(spark: SparkSession, tmp_path: Path) -> Path:
    calls = spark.range(120).selectExpr("id as seq", "timestamp_seconds(1767225600 + id) as ts", "id % 3 as host")
    calls.coalesce(1).write.parquet(str(tmp_path / "calls"))
    (tmp_path / "calls.csv").write_text("0,web\n1,mail\n")
    file = tmp_path / "queries.cql"
    file.write_text(SCRIPT.format(path=tmp_path / "calls"))
    return file


def test_a_file_runs_to_the_end_of_its_inputs(
    spark: SparkSession, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = io.StringIO()
    assert scripts.run(script, tmp_path / "state", Console(file=out), batch=True, seconds=None) == 0
    assert "busy" in out.getvalue()
    assert "|0   |6  |2026-01-01 00:00:15|+  |" in capsys.readouterr().out


def test_a_file_runs_as_a_stream_and_goes_on_from_its_state(spark: SparkSession, script: Path, tmp_path: Path) -> None:
    for _ in range(2):
        out = io.StringIO()
        assert scripts.run(script, tmp_path / "state", Console(file=out, width=120), batch=False, seconds=6) == 0
        assert "80" in out.getvalue(), "the live table tells how many rows have been answered"
    named = spark.read.parquet(str(tmp_path / "calls-out"))
    assert named.count() == 80
    assert {row["role"] for row in named.select("role").distinct().collect()} == {"web", "mail"}


def test_plans_of_a_file_are_printed_as_text_and_as_a_chart(script: Path) -> None:
    said: list[str] = []
    scripts.explain(script, said.append)
    assert [text.split("\n")[0] for text in said] == ["busy", "named"]
    assert "window range 1 minute" in said[0].lower()
    assert "flowchart TD" in said[1]


def test_columns_that_are_not_declared_cannot_be_explained(tmp_path: Path) -> None:
    file = tmp_path / "queries.cql"
    file.write_text("Create Stream s From 'parquet' With (path = 'x') Timestamp ts; Select k From s")
    with pytest.raises(QueryError, match="are not known before it is read"):
        scripts.explain(file, print)


@pytest.mark.parametrize(("text", "what"), [("Show Streams", "has no query"), (None, "there is no file")])
def test_a_file_without_a_query_is_refused(spark: SparkSession, tmp_path: Path, text: str | None, what: str) -> None:
    file = tmp_path / "queries.cql"
    if text is not None:
        file.write_text(text)
    with pytest.raises(QueryError, match=what):
        scripts.run(file, tmp_path / "state", Console(file=io.StringIO()), batch=True, seconds=None)


def test_the_doctor_finds_nothing_wrong_here(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    assert doctor.run(tmp_path / "state", said.append) == 0, said
    assert said[-1] == "all is well"


def test_the_doctor_says_how_to_mend_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "ENOUGH_MEMORY_GIB", 1e9)
    monkeypatch.setattr(doctor, "EXTRAS", {"no_such_package": "cql"})
    found = {each.what: each for each in (doctor._memory(), *doctor._packages())}
    assert found["memory"].remedy is not None
    assert found["no_such_package"].remedy == "pip install 'anabranch[cql]'"
