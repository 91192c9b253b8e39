"""`anabranch top`, `events`, `sql` and `serve`: what they print with a terminal or without, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("typer")

from rich.console import Console

from anabranch.cli.client import Client
from anabranch.cli.events import events
from anabranch.cli.serve import functions_of
from anabranch.cli.sql import Shell, _completer, sql
from anabranch.cli.top import top
from anabranch.errors import QueryError, ResourceError
from console.stage import Stage, await_true


def client_of(stage: Stage) -> Client:
    return Client(stage.service.address, stage.service._access.operator)


def printed(run: object) -> str:
    """What a command prints where there is no terminal."""
    out = io.StringIO()
    assert callable(run)
    assert run(Console(file=out, width=200)) == 0
    return out.getvalue()


@pytest.mark.spark
def test_top_shows_queries_as_a_table_and_as_json(stage: Stage) -> None:
    client = client_of(stage)
    table = printed(lambda console: top(client, console))
    assert "busy" in table
    assert "running" in table
    found = {each["query"]: each for each in json.loads(printed(lambda console: top(client, console, as_json=True)))}
    assert found["busy"]["rows"] == client.get("/api/queries/busy")["rows"]
    assert found["picked"]["order"] in ("large(size) > odd(size)", "odd(size) > large(size)")


@pytest.mark.spark
def test_events_are_lines_and_can_be_followed(stage: Stage) -> None:
    client = client_of(stage)
    lines = printed(lambda console: events(client, console, as_json=True)).splitlines()
    assert {json.loads(line)["filter"] for line in lines} == {"picked/1"}
    started = printed(lambda console: events(client, console, kind="Started", follow=True, seconds=0))
    assert "starts with" in started
    assert printed(lambda console: events(client, console, filter="nobody")) == ""


@pytest.mark.spark
def test_statements_and_commands_of_the_shell(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(stage)
    said = printed(lambda console: sql(client, console, command="Create View tiny As Select host From calls [Rows 2]"))
    assert said == "done\n"
    assert "tiny" in printed(lambda console: sql(client, console, command="\\d"))
    assert "bigint" in printed(lambda console: sql(client, console, command="\\d calls"))
    assert "window range 1 minute" in printed(lambda console: sql(client, console, command="\\d busy"))
    piped = "Create Query piped As\nSelect host From tiny;\n\\rows busy\n\\q\nnonsense"
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    answer = printed(lambda console: sql(client, console))
    assert "query piped runs" in answer
    assert "rows" in answer
    rows = printed(lambda console: sql(client, console, command="\\rows busy", as_json=True))
    assert [each["name"] for each in json.loads(rows)["columns"]] == ["host", "n"]
    printed(lambda console: sql(client, console, command="Drop Query piped; Drop View tiny"))
    with pytest.raises(QueryError, match="line 1, column 8"):
        sql(client, Console(file=io.StringIO()), command="Select hots From calls")
    with pytest.raises(QueryError, match="no command"):
        sql(client, Console(file=io.StringIO()), command="\\x")


@pytest.mark.spark
def test_describing_and_completing_know_what_there_is(stage: Stage) -> None:
    client = client_of(stage)
    found = json.loads(printed(lambda console: sql(client, console, command="\\d", as_json=True)))
    assert {"calls", "names"} <= set(found["inputs"])
    complete = _completer(Shell(client, Console(file=io.StringIO())).names)
    offered = [complete("ca", state) for state in range(3)]
    assert "calls" in offered
    assert complete("SEL", 0) == "Select"
    assert complete("nothing_like_this", 0) is None
    with pytest.raises(QueryError, match="there is no 'nothing'"):
        sql(client, Console(file=io.StringIO()), command="\\d nothing")


@pytest.mark.spark
def test_the_shell_in_a_terminal_has_a_history_and_completes(stage: Stage, tmp_path: Path) -> None:
    """Typed as by a person: a name is completed by Tab, and the next shell knows what this one was told."""
    pty = pytest.importorskip("pty")
    url, token = stage.service.address, stage.service._access.operator
    call = [sys.executable, "-m", "anabranch.cli.main", "sql", "--url", url]
    given = os.environ | {"ANABRANCH_HOME": str(tmp_path), "ANABRANCH_TOKEN": token, "TERM": "dumb"}
    keys = b"\\rows bu\t\n\\q\n", b"\x1b[A\x1b[A\n\\q\n"
    for typed in keys:
        mine, other = pty.openpty()
        with subprocess.Popen(call, stdin=other, stdout=other, stderr=other, env=given, close_fds=True) as shell:
            os.close(other)
            said = _until(mine, b"anabranch> ")
            os.write(mine, typed)
            said += _until(mine, None)
            assert shell.wait(250) == 0, said
        os.close(mine)
        assert "rows" in said.decode()
        assert "h0" in said.decode(), said
    assert (tmp_path / "sql-history").read_text().splitlines()[-2:] == ["\\rows busy", "\\q"]


def _until(terminal: int, wanted: bytes | None) -> bytes:
    """What a terminal shows up to some words, or to its end."""
    said = b""
    with suppress(OSError):  # Linux ends a terminal with an error
        while (wanted is None or wanted not in said) and (part := os.read(terminal, 4096)):
            said += part
    return said


def command(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "anabranch.cli.main", *words]
    given = os.environ | {"ANABRANCH_HOME": str(home)}
    return subprocess.run(call, capture_output=True, text=True, timeout=250, check=False, env=given)


def test_no_console_is_an_error_with_a_hint(tmp_path: Path) -> None:
    done = command("top", "--url", "http://127.0.0.1:9", "--token", "x", home=tmp_path)
    assert done.returncode == 2
    assert "anabranch serve" in done.stderr
    assert "there is no token" in command("top", home=tmp_path).stderr
    with pytest.raises(QueryError, match="not an address"):
        Client("localhost", "x")


@pytest.mark.spark
def test_a_wrong_token_is_an_error_with_a_hint(stage: Stage) -> None:
    with pytest.raises(QueryError, match="token is needed"):
        Client(stage.service.address, "guess").get("/api/overview")
    with pytest.raises(ResourceError):
        Client("http://127.0.0.1:9", "x").get("/api/overview")


def test_functions_of_a_file_say_what_they_return(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def large(size: int) -> bool:\n    return size > 5\n\ndef _own(): ...\n")
    assert [(name, kind) for name, (_, kind) in functions_of(file).items()] == [("large", "boolean")]
    file.write_text("def large(size):\n    return size > 5\n")
    with pytest.raises(QueryError, match="does not say what it returns"):
        functions_of(file)
    file.write_text("import nothing_like_this\n")
    with pytest.raises(QueryError, match="cannot be run"):
        functions_of(file)


@pytest.mark.full(reason="starts a Spark of its own")
def test_serve_runs_a_file_with_functions_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("2026-01-01 00:00:00,3\n2026-01-01 00:00:01,9\n")
    (tmp_path / "mine.py").write_text("def large(size: int) -> bool:\n    return size > 5\n")
    script = tmp_path / "queries.cql"
    script.write_text(
        f"Create Stream s (ts Timestamp, size Long) From 'csv' With (path = '{tmp_path}/in') Timestamp ts;"
        "Create Query big As Select size From s Where large(size)"
    )
    words = ["serve", str(script), "--checkpoint", str(tmp_path / "state"), "--port", "0", "--json"]
    words += ["--functions", str(tmp_path / "mine.py"), "--seconds", "40"]
    given = os.environ | {"ANABRANCH_HOME": str(tmp_path / "home")}
    call = [sys.executable, "-m", "anabranch.cli.main", *words]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=given) as running:
        assert running.stdout is not None
        said = "".join(iter(running.stdout.readline, "}\n")) + "}"
        address, token = json.loads(said)["url"].split("/login#")
        client = Client(address, token)
        await_true(lambda: client.rows("big", 10)["rows"], 100)
        assert [row[0] for row in client.rows("big", 10)["rows"]] == [9]
        assert running.wait(100) == 0
