"""`anabranch run`: runs the queries of a file, and shows how far they are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from anabranch.cli import files
from anabranch.cli.tables import rich_table
from anabranch.errors import AnabranchError, QueriesFailed, QueryError

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine

REFRESH_SECONDS = 0.5
SHOWN_ROWS = 10


def run(
    file: Path,
    checkpoint: Path,
    console: Console,
    *,
    batch: bool = False,
    until_idle: bool = False,
    seconds: float | None = None,
    as_json: bool = False,
) -> int:
    """Run a file of statements; 3 if a query has failed. As JSON it prints figures of the queries, and nothing else."""
    from anabranch.engine.engine import Engine
    from anabranch.spark.session import local_session

    text = files.read(file)
    files.make_folder(checkpoint)
    engine = Engine(local_session("anabranch-run"), checkpoint)
    for said in engine.execute(text, bounded=batch):
        if not as_json:
            console.print(said, markup=False, highlight=False)
    if not engine.queries:
        raise QueryError(f"{file.name} has no query", hint="add one: Create Query name As Select ...")
    if batch:
        try:
            answers = engine.run_batch()
        except QueriesFailed as error:
            answers = error.answers
        if as_json:
            return _figures(engine, console)
        for name, answer in answers.items():
            console.print(f"[bold]{name}[/]")
            answer.orderBy("_ts").show(SHOWN_ROWS, truncate=False)
        return report_failures(engine, console)
    for query in engine.queries.values():
        query.start()
    done = _all_answered(engine) if until_idle else threading.Event()

    def running() -> bool:
        return not done.is_set() and any(query.status == "running" for query in engine.queries.values())

    try:
        _watch(engine.progress, running, None if as_json else console, seconds)
    except KeyboardInterrupt:
        if not as_json:
            console.print("stopping; the same command goes on from here")
    finally:
        engine.stop()
    return _figures(engine, console) if as_json else report_failures(engine, console)


def _figures(engine: Engine, console: Console) -> int:
    """Print how far queries have come, as JSON; 3 if one has failed."""
    queries = engine.overview().queries
    console.print_json(json.dumps([asdict(each) for each in queries]))
    return 3 if any(each.error is not None for each in queries) else 0


def report_failures(engine: Engine, console: Console) -> int:
    """Say which queries have failed and why; 3 if one has."""
    failed = [query for query in engine.queries.values() if query.error is not None]
    for query in failed:
        console.print(f"[red]{query.name} failed:[/] {escape(str(query.error))}", highlight=False)
    return 3 if failed else 0


def _all_answered(engine: Engine) -> threading.Event:
    """Is set once all rows that are there by now have been answered, or cannot be."""
    done = threading.Event()

    def wait() -> None:
        for query in engine.queries.values():
            with suppress(AnabranchError):  # of a query that has failed, which says so by itself
                query.await_idle()
        done.set()

    threading.Thread(target=wait, name="anabranch-until-idle", daemon=True).start()
    return done


def _watch(
    progress: Callable[[], list[dict[str, object]]],
    running: Callable[[], bool],
    console: Console | None,
    seconds: float | None,
) -> None:
    """A live table of the queries, if there is a console, until time is up or all have stopped."""
    deadline = None if seconds is None else time.monotonic() + seconds
    live = (
        None if console is None else Live(_table(progress()), console=console, refresh_per_second=1 / REFRESH_SECONDS)
    )
    with live or nullcontext():
        while running() and (deadline is None or time.monotonic() < deadline):
            time.sleep(REFRESH_SECONDS)
            if live is not None:
                live.update(_table(progress()))


def _table(rows: list[dict[str, object]]) -> Table:
    titles = list(rows[0]) if rows else ["query"]
    cells = ([str(value) for value in row.values()] for row in rows)
    return rich_table(titles, cells, left=("query", "status"), frame=box.SIMPLE_HEAD)
