"""`anabranch run` and `anabranch explain`: files of streams, relations and queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from anabranch.cli import files
from anabranch.cql import statements as cql
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.cql.declarations import DESCRIBES_ITSELF
from anabranch.cql.rendering import mermaid, render
from anabranch.errors import AnabranchError, QueriesFailed, QueryError
from anabranch.model.continuous import Query

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine

REFRESH_SECONDS = 0.5
SHOWN_ROWS = 10
KNOWN_COLUMNS = {
    "rate": ("timestamp", "value"),
    "rate-micro-batch": ("timestamp", "value"),
    "socket": ("value",),
    "kafka": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
}
MORE_COLUMNS = {"socket": {"includetimestamp": "timestamp"}, "kafka": {"includeheaders": "headers"}}


def run(
    file: Path,
    checkpoint: Path,
    console: Console,
    *,
    batch: bool = False,
    until_idle: bool = False,
    seconds: float | None = None,
) -> int:
    """Run a file of statements; 3 if a query has failed."""
    from anabranch.engine.engine import Engine
    from anabranch.spark.session import local_session

    text = files.read(file)
    files.make_folder(checkpoint)
    engine = Engine(local_session("anabranch-run"), checkpoint)
    for said in engine.execute(text, bounded=batch):
        console.print(said, markup=False, highlight=False)
    if not engine.queries:
        raise QueryError(f"{file.name} has no query", hint="add one: Create Query name As Select ...")
    if batch:
        try:
            answers = engine.run_batch()
        except QueriesFailed as error:
            answers = error.answers
        for name, answer in answers.items():
            console.print(f"[bold]{name}[/]")
            answer.orderBy("_ts").show(SHOWN_ROWS, truncate=False)
        return _told_of_failures(engine, console)
    for query in engine.queries.values():
        query.start()
    done = _idle(engine) if until_idle else threading.Event()

    def running() -> bool:
        return not done.is_set() and any(query.status == "running" for query in engine.queries.values())

    try:
        _watch(engine.progress, running, console, seconds)
    except KeyboardInterrupt:
        console.print("stopping; the same command goes on from here")
    finally:
        engine.stop()
    return _told_of_failures(engine, console)


def _told_of_failures(engine: Engine, console: Console) -> int:
    failed = [query for query in engine.queries.values() if query.error is not None]
    for query in failed:
        console.print(f"[red]{query.name} failed:[/] {escape(str(query.error))}", highlight=False)
    return 3 if failed else 0


def _idle(engine: Engine) -> threading.Event:
    """Is set once all rows that are there by now have been answered, or cannot be."""
    done = threading.Event()

    def wait() -> None:
        for query in engine.queries.values():
            with suppress(AnabranchError):  # of a query that has failed, which says so by itself
                query.await_idle()
        done.set()

    threading.Thread(target=wait, name="anabranch-until-idle", daemon=True).start()
    return done


def explain(file: Path, say: Callable[[str], None]) -> None:
    """Print the plans of a file's queries, as text and as Mermaid, without running anything."""
    from anabranch.engine import sysstream

    known: dict[str, dict[str, Any]] = {"stream": {}, "relation": {}, "query": {}, "view": {}}
    known["stream"][sysstream.NAME] = tuple(sysstream.SCHEMA.names)
    for statement in cql.parse(files.read(file)):
        told = _explained(statement, known)
        if told is not None:
            say(told)


def _explained(statement: cql.Statement, known: dict[str, dict[str, Any]]) -> str | None:
    """What a statement has to say; what it registers is known from then on."""
    catalog = Catalog(known["stream"], known["relation"], known["query"], known["view"])
    match statement:
        case cql.CreateStream():
            known["stream"][statement.name] = _columns(statement)
        case cql.CreateRelation():
            known["relation"][statement.name] = _columns(statement)
        case cql.CreateView(name, _, ast):
            bind(ast, catalog, name)
            known["view"][name] = ast
        case cql.CreateQuery(name, _, ast):
            query = known["query"][name] = bind(ast, catalog, name)
            return f"{name}\n{_plan(query)}"
        case cql.DropStatement(kind, name):
            del known[kind][catalog.own_name(kind, name)]
        case cql.Explain(str(name)):
            own = catalog.own_name("query", name)
            return f"{own}\n{_plan(known['query'][own])}"
        case cql.SelectStatement(_, ast) | cql.Explain(cql.SelectStatement(_, ast)):
            return _plan(bind(ast, catalog, "query"))
    return None


def _plan(query: Query) -> str:
    return f"{render(query.plan)}\n\n{mermaid(query)}\n"


def _columns(statement: cql.CreateStream | cql.CreateRelation) -> tuple[str, ...]:
    form, options = statement.format.lower(), {key.lower(): value.lower() for key, value in statement.options}
    if statement.columns:
        return tuple(name for name, _ in statement.columns)
    if form in KNOWN_COLUMNS:
        more = [name for option, name in MORE_COLUMNS.get(form, {}).items() if options.get(option) == "true"]
        return (*KNOWN_COLUMNS[form], *more)
    describes_itself = form in DESCRIBES_ITSELF
    declared = f"declare them: Create ... {statement.name} (k Long, ts Timestamp) From ..."
    raise QueryError(
        f"the columns of {statement.name!r} are not known before it is read",
        hint="write Explain into the file, and run it" if describes_itself else declared,
    )


def _watch(
    progress: Callable[[], list[dict[str, object]]],
    running: Callable[[], bool],
    console: Console,
    seconds: float | None,
) -> None:
    """A live table of the queries until time is up or all have stopped."""
    deadline = None if seconds is None else time.monotonic() + seconds
    with Live(_table(progress()), console=console, refresh_per_second=1 / REFRESH_SECONDS) as live:
        while running() and (deadline is None or time.monotonic() < deadline):
            time.sleep(REFRESH_SECONDS)
            live.update(_table(progress()))


def _table(rows: list[dict[str, object]]) -> Table:
    table = Table(header_style="bold", border_style="bright_black", box=box.SIMPLE_HEAD)
    for name in rows[0] if rows else ["query"]:
        table.add_column(name, justify="left" if name in ("query", "status") else "right", overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table
