"""The command line on files of CQL: run them, explain them, and look at what a run needs."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("rich")

from rich.console import Console

import anabranch as ab
from anabranch.cli import doctor
from anabranch.cli.explain import explain
from anabranch.cli.run import run
from anabranch.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 240.0
SCRIPT = """
Create Stream calls (seq Long, ts Timestamp, host Long) From 'parquet' With (path = '{path}') Timestamp ts Sequence seq;
Create Relation hosts (host Long, role String) From 'csv' With (path = '{path}.csv');
Create View recent As Select host, Count(*) As n From calls [Range 1 Minute] Group By host;
Create Query busy As Select host, n From recent Where n > 5;
Create Query named Into 'parquet' With (path = '{path}-out', retain = '1 day') As
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
    assert run(script, tmp_path / "state", Console(file=out), batch=True) == 0
    assert "busy" in out.getvalue()
    assert "|0   |6  |2026-01-01 00:00:15|+  |" in capsys.readouterr().out
    assert spark.read.parquet(str(tmp_path / "calls-out")).count() == 80, "its sinks have the answers"
    figures = io.StringIO()
    assert run(script, tmp_path / "again", Console(file=figures), batch=True, as_json=True) == 0
    found = {each["name"]: each for each in json.loads(figures.getvalue())}
    assert (found["busy"]["status"], found["busy"]["error"]) == ("ended", None)
    assert found["busy"]["rows"] > 0


def test_a_file_runs_as_a_stream_and_goes_on_from_its_state(spark: SparkSession, script: Path, tmp_path: Path) -> None:
    for _ in range(2):
        out = io.StringIO()
        assert run(script, tmp_path / "state", Console(file=out, width=120), until_idle=True) == 0
        assert "80" in out.getvalue(), "the live table tells how many rows have been answered"
    named = spark.read.parquet(str(tmp_path / "calls-out"))
    assert named.count() == 80
    assert {row["role"] for row in named.select("role").distinct().collect()} == {"web", "mail"}


@pytest.mark.full(reason="starts Java once more; the demo's and the engine's tests stop streams, too")
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(spark: SparkSession, script: Path, tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "calls-out"
    program = [sys.executable, "-m", "anabranch.cli.main", "run", str(script)]
    with subprocess.Popen(
        [*program, "--checkpoint", str(state)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not list(out.glob("tick=*")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "nothing is answered"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of its processes
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    assert "the same command goes on from here" in said
    assert "Traceback" not in said
    assert run(script, state, Console(file=io.StringIO()), until_idle=True) == 0
    assert spark.read.parquet(str(out)).count() == 80


def test_a_query_that_fails_says_why_in_a_line(spark: SparkSession, script: Path, tmp_path: Path) -> None:
    script.write_text(
        f"""Create Stream calls (seq Long, ts Timestamp, host Date) From 'parquet'
                With (path = '{tmp_path / "calls"}') Timestamp ts;
            Create Query q As Select host From calls [Rows 3]"""
    )
    out = io.StringIO()
    assert run(script, tmp_path / "state", Console(file=out, width=400), until_idle=True) == 3
    printed = out.getvalue()[out.getvalue().index("q failed:") :]
    assert "[FAILED_READ_FILE" in printed
    assert "column [host]" in printed
    assert len(printed) < 1000


def test_plans_of_a_file_are_printed_as_text_and_as_a_chart(script: Path) -> None:
    said: list[str] = []
    explain(script, said.append)
    assert [text.split("\n")[0] for text in said] == ["busy", "named"]
    assert "window range 1 minute" in said[0].lower()
    assert "flowchart TD" in said[1]


def test_columns_that_are_not_declared_cannot_be_explained(tmp_path: Path) -> None:
    file = tmp_path / "queries.cql"
    file.write_text("Create Stream s From 'parquet' With (path = 'x') Timestamp ts; Select k From s")
    with pytest.raises(QueryError, match="are not known before it is read"):
        explain(file, print)


def explained(tmp_path: Path, text: str) -> list[str]:
    file, said = tmp_path / "queries.cql", list[str]()
    file.write_text(text)
    explain(file, said.append)
    return said


def test_the_stream_that_every_engine_has_can_be_explained(tmp_path: Path) -> None:
    (printed,) = explained(tmp_path, "Select Istream(entity, value) From SysStream [Now] Where property = 'lag'")
    assert "stream SysStream (entity as" in printed


def test_explain_statements_are_explained(tmp_path: Path) -> None:
    named, again, other = explained(
        tmp_path,
        """Create Stream s (k Long, ts Timestamp) From 'csv' With (path = 'x') Timestamp ts;
           Create Query Busy As Select k From s [Now];
           Explain busy;
           Explain Select k From s Where k > 2""",
    )
    assert again == named
    assert "filter" in other


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("'socket' With (host = 'h', port = 1, includeTimestamp = true)", "timestamp, value"),
        ("'rate'", "timestamp, value"),
        ("'Rate-Micro-Batch'", "timestamp, value"),
        ("'kafka' With (subscribe = 't', includeHeaders = 'true')", "timestamp, value, headers"),
    ],
)
def test_sources_with_columns_of_their_own_are_explained(tmp_path: Path, source: str, columns: str) -> None:
    (printed,) = explained(
        tmp_path, f"Create Stream s From {source} Timestamp timestamp; Select {columns} From s [Now]"
    )
    assert all(f"{name} as {name}_" in printed for name in columns.split(", "))


def test_columns_of_a_source_that_only_its_reader_knows(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="write Explain into the file, and run it"):
        explained(tmp_path, "Create Stream s From 'delta' With (path = 'x') Timestamp ts; Select k From s")


def test_what_is_dropped_can_no_longer_be_read(tmp_path: Path) -> None:
    text = "Create Stream s (k Long) From 'csv' Timestamp ts; Drop {} S; Select k From s"
    with pytest.raises(QueryError, match="unknown stream or relation 's'"):
        explained(tmp_path, text.format("Stream"))
    with pytest.raises(QueryError, match="'s' is a stream, not a query"):
        explained(tmp_path, text.format("Query"))


@pytest.mark.parametrize("head", ["Create Query q As", "Create View v As", "", "Explain"])
def test_a_problem_is_shown_where_the_file_has_it(spark: SparkSession, tmp_path: Path, head: str) -> None:
    declared = f"Create Stream s (k Long, ts Timestamp) From 'csv'\n  With (path = '{tmp_path}') Timestamp ts;"
    text = f"{declared}\n{head}\nSelect k\nFrom s\nWhere kk > 3"
    message = "unknown column 'kk' at line 6, column 7\n  Where kk > 3\n        ^^\n"
    with pytest.raises(QueryError) as caught:
        explained(tmp_path, text)
    assert str(caught.value).startswith(message)
    with pytest.raises(QueryError) as caught:
        ab.Engine(spark).execute(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("form", ["socket", "rate", "kafka", "Rate"])
def test_columns_are_not_declared_where_a_source_has_its_own(spark: SparkSession, tmp_path: Path, form: str) -> None:
    text = f"Create Stream s (k Long) From '{form}' Timestamp ts; Select k From s"
    message = f"""'{form}' has columns of its own at line 1, column 17
  {text}
                  ^
  hint: leave the list of columns out"""
    with pytest.raises(QueryError) as caught:
        explained(tmp_path, text)
    assert str(caught.value) == message
    with pytest.raises(QueryError) as caught:
        ab.Engine(spark).execute(text)
    assert str(caught.value) == message


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> ab.Engine:
    spark.sql("SELECT 1L AS Seq, timestamp_seconds(1) AS Ts, 2L AS k").write.parquet(str(tmp_path / "in"))
    engine = ab.Engine(spark)
    engine.execute(
        f"""Create Stream Calls From 'parquet' With (path = '{tmp_path}/in') Timestamp TS Sequence SEQ;
            Create Relation Hosts From 'parquet' With (path = '{tmp_path}/in');
            Create View Recent As Select k From Calls [Now];
            Create Query Busy As Select k From Calls [Now];
            Create Query Idle As Select k From Calls [Now]""",
        bounded=True,
    )
    return engine


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Drop Stream busy", "'Busy' is a query, not a stream\n  hint: The streams are: SysStream, Calls"),
        ("Drop Query calls", "'Calls' is a stream, not a query\n  hint: The queries are: Busy, Idle"),
        ("Drop View Hosts", "'Hosts' is a relation, not a view\n  hint: The views are: Recent"),
        ("Drop Relation recent", "'Recent' is a view, not a relation\n  hint: The relations are: SysQueries, Hosts"),
        (
            "Drop Stream call",
            "there is no stream 'call'\n  hint: did you mean 'Calls'? The streams are: SysStream, Calls",
        ),
        ("Drop Query nobody", "there is no 'nobody' to drop"),
        ("Pause calls", "'Calls' is a stream, not a query\n  hint: The queries are: Busy, Idle"),
        ("Resume Recent", "'Recent' is a view, not a query\n  hint: The queries are: Busy, Idle"),
        ("Explain hosts", "'Hosts' is a relation, not a query\n  hint: The queries are: Busy, Idle"),
    ],
)
def test_a_name_of_something_else_is_refused(engine: ab.Engine, text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.execute(text)
    assert str(caught.value).startswith(message)
    assert list(engine.queries) == ["Busy", "Idle"]


def test_names_mean_the_same_in_every_case(engine: ab.Engine) -> None:
    (plan,) = engine.execute("Explain BUSY")
    assert "stream Calls" in plan
    with pytest.raises(QueryError, match="query Busy is registered, not running"):
        engine.execute("Pause bUSY")
    engine.execute("Drop Query busy; Drop Query IDLE; Drop View recent; Drop Stream calls")
    assert not engine.queries
    assert engine.catalog.names() == ["SysStream", "SysQueries", "Hosts"]


def test_queries_without_a_name_get_one_that_is_free(engine: ab.Engine) -> None:
    engine.execute("Select k From Calls; Drop Query Busy; Select k From Calls Where k > 1; Select k From Calls")
    assert list(engine.queries) == ["Idle", "query_3", "query_4", "query_5"]
    engine.execute("Drop Query Idle; Drop Query query_4; Select k From Calls [Now]; Select k From Calls")
    assert list(engine.queries) == ["query_3", "query_5", "query_4", "query_6"]


@pytest.mark.parametrize("retain", ["Timestamp ts Retain 1 Hour", "With (Retain = '1 hour') Timestamp ts"])
def test_what_a_stream_retains_is_a_clause_or_an_option(engine: ab.Engine, retain: str) -> None:
    engine.execute(f"Create Stream s From 'rate' {retain.replace('ts', 'timestamp')}")
    assert engine._registry.streams["s"].retain == 3_600_000_000


def test_what_a_stream_retains_is_given_once(engine: ab.Engine) -> None:
    with pytest.raises(QueryError, match="retain of stream 's' is given twice"):
        engine.execute("Create Stream s From 'rate' With (retain = '1 hour') Timestamp timestamp Retain 1 Hour")


def test_keep_is_refused_and_retain_is_named(engine: ab.Engine) -> None:
    hint = "unknown option '[kK]eep'\n  hint: how long rows stay is retain now, as in retain='1 day'"
    calls = engine._registry.streams["Calls"].df
    for attempt in (
        lambda: engine.execute("Create Stream s From 'rate' With (keep = '1 day') Timestamp timestamp"),
        lambda: engine.execute(
            "Create Query q Into 'parquet' With (path = 'x', Keep = '1 day') As Select k From Calls"
        ),
        lambda: engine.stream("s", calls, timestamp="ts", keep="1 day"),  # type: ignore[arg-type]
        lambda: engine.queries["Busy"].start(keep="1 day"),
    ):
        with pytest.raises(QueryError, match=hint):
            attempt()
    with pytest.raises(TypeError, match="unexpected keyword argument 'skw'"):
        engine.stream("s", calls, timestamp="ts", skw="1 day")  # type: ignore[arg-type]


def test_a_replay_finds_its_column_of_times_in_every_case(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT timestamp_seconds(1) AS Ts, 2L AS k").write.parquet(str(tmp_path / "in"))
    engine = ab.Engine(spark)
    engine.execute(f"Create Stream s From 'replay' With (path = '{tmp_path}/in', speed = 60) Timestamp ts")
    query = engine.query("Select k From s", "q").start()
    query.await_idle()
    engine.stop()
    assert query.error is None


def test_a_file_without_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "queries.cql"
    file.write_text("Show Streams")
    with pytest.raises(QueryError, match="has no query"):
        run(file, tmp_path / "state", Console(file=io.StringIO()), batch=True)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("nothing.cql", "there is no file {}"),
        ("latin.cql/nothing.cql", "there is no file {}"),
        ("folder", "{} cannot be read: Is a directory"),
        ("latin.cql", "{} is not text in UTF-8: see byte 9"),
        ("x" * 300, "{} cannot be read: File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_anything_is_done(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.cql").write_bytes(b"Select '\xe9' From s")
    file, state = tmp_path / name, tmp_path / "state"
    with pytest.raises(QueryError) as refused:
        explain(file, print)
    assert refused.value.what == what.format(file)
    with pytest.raises(QueryError) as refused:
        run(file, state, Console(file=io.StringIO()), batch=True)
    assert refused.value.what == what.format(file)
    assert not state.exists()


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_folder_of_queries_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    program = [sys.executable, "-m", "anabranch.cli.main", command, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path} cannot be read: Is a directory\nhint: choose another file\n"


def test_the_mark_that_windows_puts_before_a_text_is_no_part_of_it(tmp_path: Path) -> None:
    (printed,) = explained(tmp_path, "\ufeffSelect Istream(entity, value) From SysStream [Now]")
    assert "stream SysStream" in printed


@pytest.mark.parametrize("name", ["queries.cql", "queries.cql/sub"])
def test_a_checkpoint_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "queries.cql"
    file.write_text("Select value From s")
    with pytest.raises(QueryError, match=f"{tmp_path / name} cannot be used: {file} is not a folder"):
        run(file, tmp_path / name, Console(file=io.StringIO()), batch=True)


def test_the_doctor_finds_nothing_wrong_here(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    assert doctor.run(tmp_path / "state", said.append) == 0, said
    assert said[-1] == "all is well"
    as_json: list[str] = []
    assert doctor.run(tmp_path / "state", as_json.append, as_json=True) == 0
    assert {"Python", "Java", "memory"} <= {each["what"] for each in json.loads(as_json[0])}


@pytest.mark.parametrize("name", ["file", "file/sub", "file/sub/sub"])
def test_the_doctor_says_that_a_file_is_no_folder(tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    file.touch()
    found = doctor._disk("checkpoints", tmp_path / name)
    assert found == doctor.Finding("disk for checkpoints", f"{file} is not a folder", "choose another folder")


def test_the_doctor_looks_at_names_that_no_disk_can_have(tmp_path: Path) -> None:
    assert "GiB" in doctor._disk("checkpoints", tmp_path / ("x" * 300)).found


def test_the_doctor_says_how_to_mend_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "ENOUGH_MEMORY_GIB", 1e9)
    monkeypatch.setattr(doctor, "EXTRAS", {"no_such_package": "cql"})
    found = {each.what: each for each in (doctor._memory(), *doctor._packages())}
    assert found["memory"].remedy is not None
    assert found["no_such_package"].remedy == "pip install 'anabranch[cql]'"
