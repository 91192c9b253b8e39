r"""`anabranch sql`: statements for a running engine, typed or piped in.

In a terminal it has a history and completes names; `\d` lists what there is, `\watch busy` follows an answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from anabranch.cli.client import Client
from anabranch.cli.tables import rich_table
from anabranch.console.access import home
from anabranch.errors import AnabranchError, QueryError

HELP = r"""Statements end with a semicolon: Create Query large As Select host From calls [Now] Where size > 90;
\d          streams, relations and queries
\d name     columns of one
\rows name  the answer of a query
\watch name the answer of a query, again and again; Ctrl-C ends it
\q          leave"""
SHOWN_ROWS = 40
WATCH_SECONDS = 1.0


class Shell:
    """Carries out lines.

    Parameters
    ----------
    client
        Of the console.
    console
        Where answers go.
    as_json
        Print answers as JSON.
    """

    def __init__(self, client: Client, console: Console, *, as_json: bool = False) -> None:
        self._client = client
        self._console = console
        self._json = as_json

    def run(self, text: str) -> None:
        """Carry out statements, or a command that begins with a backslash."""
        text = text.strip()
        if not text:
            return
        if text.startswith("\\"):
            self._command(*text[1:].rstrip(";").split())
            return
        done = self._client.post("/api/statements", {"text": text})
        if self._json:
            self._print_json(done)
            return
        for each in done["said"]:
            self._console.print(each, markup=False, highlight=False)
        for name in done["queries"]:
            self._console.print(rf"query {name} runs; \watch {name} shows its answer", highlight=False)
        if not done["said"] and not done["queries"]:
            self._console.print("done")

    def names(self) -> list[str]:
        """What can be completed."""
        found = self._client.get("/api/catalog")
        columns = [name for given in (*found["inputs"].values(), *found["queries"].values()) for name in given]
        return sorted(
            {*found["inputs"], *found["queries"], *found["views"], *found["functions"], *columns, *found["keywords"]}
        )

    def _command(self, word: str = "?", name: str = "") -> None:
        if word == "d" and not name:
            self._list()
        elif word == "d":
            self._describe(name)
        elif word == "rows" and name:
            self._rows(name)
        elif word == "watch" and name:
            with suppress(KeyboardInterrupt):
                while True:
                    self._console.clear()
                    self._rows(name)
                    time.sleep(WATCH_SECONDS)
        elif word == "?":
            self._console.print(HELP, markup=False, highlight=False)
        else:
            raise QueryError(f"there is no command \\{word}", hint="\\? lists them")

    def _list(self) -> None:
        found = self._client.get("/api/catalog")
        if self._json:
            self._print_json(found)
            return
        rows = [(escape(name), "stream or relation", ", ".join(columns)) for name, columns in found["inputs"].items()]
        rows += [(escape(name), "view", "") for name in found["views"]]
        rows += [(escape(name), "query", ", ".join(columns)) for name, columns in found["queries"].items()]
        self._console.print(rich_table(("name", "kind", "columns"), rows, left=("name", "kind", "columns")))

    def _describe(self, name: str) -> None:
        inputs = [*self._client.get("/api/streams"), *self._client.get("/api/relations")]
        found = next((each for each in inputs if each["name"].lower() == name.lower()), None)
        if found is None:
            found = self._client.get(f"/api/queries/{name}")
        if self._json:
            self._print_json(found)
        elif "status" in found:
            self._console.print(f"{found['text']}\n\n{found['plan']}", markup=False, highlight=False)
        else:
            columns = found.get("columns", [])
            self._console.print(rich_table(("column", "type"), columns, left=("column", "type")))

    def _rows(self, name: str) -> None:
        found = self._client.rows(name, SHOWN_ROWS)
        if self._json:
            self._print_json(found)
            return
        self._console.print(_table(found))
        self._console.print(f"{len(found['rows'])} of {found['total']} rows", style="dim")

    def _print_json(self, found: Any) -> None:
        self._console.print(json.dumps(found), markup=False, highlight=False, soft_wrap=True)


def sql(client: Client, console: Console, *, command: str | None = None, as_json: bool = False) -> int:
    """Run a command, what is piped in, or what is typed; 2 if something is wrong."""
    shell = Shell(client, console, as_json=as_json)
    if command is not None:
        shell.run(command)
        return 0
    if not sys.stdin.isatty():
        for each in split(sys.stdin):
            shell.run(each)
        return 0
    client.get("/api/session")
    _use_readline(shell)
    console.print(f"connected to {client.address}; \\? for help", highlight=False)
    for each in split(_typed()):
        try:
            shell.run(each)
        except AnabranchError as error:
            console.print(f"[red]{escape(str(error))}[/]", highlight=False)
    return 0


def split(lines: Iterable[str]) -> Iterable[str]:
    r"""Statements, which end with a semicolon at the end of a line, and commands, which are a line each.

    >>> list(split(["\\d\n", "Select a\n", "From s;\n", "Show Queries"]))
    ['\\d', 'Select a\nFrom s;', 'Show Queries']
    """
    held: list[str] = []
    for line in lines:
        if not held and line.strip().startswith("\\"):
            if line.strip() == "\\q":
                return
            yield line.strip()
            continue
        held.append(line.rstrip("\n"))
        if line.rstrip().endswith(";"):
            yield "\n".join(held).strip()
            held = []
    if "".join(held).strip():
        yield "\n".join(held).strip()


def _typed() -> Iterable[str]:
    prompt = "anabranch> "
    while True:
        try:
            line = input(prompt)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        prompt = "anabranch> " if line.rstrip().endswith(";") or line.strip().startswith("\\") else "       ... "
        yield line


def _use_readline(shell: Shell) -> None:
    """History and completion, where Python has readline."""
    with suppress(ImportError):
        import atexit
        import readline

        file = home() / "sql-history"
        with suppress(OSError):
            readline.read_history_file(file)
        atexit.register(_keep_history, readline.write_history_file, file)
        readline.set_completer(_completer(shell.names))
        readline.parse_and_bind("tab: complete")


def _keep_history(write: Callable[[str], None], file: Path) -> None:
    with suppress(OSError):
        write(str(file))
        file.chmod(0o600)


def _completer(names: Callable[[], list[str]]) -> Callable[[str, int], str | None]:
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            with suppress(AnabranchError):
                found[:] = [name for name in names() if name.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    return complete


def _table(found: dict[str, Any]) -> Table:
    titles = [each["name"] for each in found["columns"]] or ["no rows yet"]
    left = [each["name"] for each in found["columns"] if not any(word in each["type"] for word in ("int", "double"))]
    rows = [[escape("NULL" if value is None else str(value)) for value in row] for row in found["rows"]]
    return rich_table(titles, rows, left=left)
