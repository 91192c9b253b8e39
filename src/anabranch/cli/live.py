"""Watching a Spark job: a bar and a table that follow it in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from anabranch.cli.tables import rich_table
from anabranch.filter_report import FilterReport

POLL_SECONDS = 0.25
LINES = 5
"""Lines that a job prints where there is no terminal."""


def watch(
    console: Console,
    title: str,
    job: Callable[[], object],
    share: Callable[[], float],
    details: Callable[[], RenderableType] | None = None,
    line: Callable[[], str] = str,
) -> float:
    """Run a job in a thread, show how far it is, and return the seconds that it took.

    Parameters
    ----------
    job
        What to run.
    share
        The part that is done, from 0 to 1.
    details
        What to draw below the bar in a terminal.
    line
        What to say beside the percentage where there is no terminal.
    """

    def timed() -> float:
        began = time.perf_counter()
        job()
        return time.perf_counter() - began

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="anabranch-demo") as pool:
        running = pool.submit(timed)
        if console.is_terminal:
            _follow_live(console, title, running, share, details)
        else:
            _follow_lines(console, title, running, share, line)
        return running.result()


def predicate_table(report: FilterReport) -> Table:
    """The predicates in their present order."""
    counts = ("seen", "passed", "dropped", "cost per row")
    written = {p.predicate: place for place, p in enumerate(report.predicates, start=1)}
    rows = []
    for p in sorted(report.predicates, key=lambda p: p.place):
        place = str(p.place) if p.place == written[p.predicate] else f"[bold]{p.place}[/]"
        seen, cost = "-" if p.seen is None else f"{p.seen:,}", "-" if p.cost_us is None else f"{p.cost_us:,.1f} µs"
        shares = (_share(p.passed, p.seen), _share(p.dropped, p.seen))
        rows.append((place, str(written[p.predicate]), p.predicate, seen, *shares, cost))
    titles, widths = ("place", "written", "predicate", *counts), dict.fromkeys(counts, 10)
    return rich_table(titles, rows, left=("predicate",), widths=widths)


def _follow_live(
    console: Console,
    title: str,
    running: Future[float],
    share: Callable[[], float],
    details: Callable[[], RenderableType] | None,
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, auto_refresh=False)
    task = progress.add_task(title, total=1.0)

    def picture() -> RenderableType:
        progress.update(task, completed=share())
        return progress if details is None else Group(progress, details())

    with Live(picture(), console=console, auto_refresh=False) as live:
        while not running.done():
            wait([running], timeout=POLL_SECONDS)
            live.update(picture(), refresh=True)


def _follow_lines(
    console: Console,
    title: str,
    running: Future[float],
    share: Callable[[], float],
    line: Callable[[], str],
) -> None:
    console.print(title)
    printed = 0
    while not running.done():
        wait([running], timeout=POLL_SECONDS)
        done = share()
        if done * LINES >= printed + 1:
            printed = int(done * LINES)
            console.print(f"  {done:4.0%}  {line()}".rstrip())


def _share(part: int | None, whole: int | None) -> str:
    return f"{part / whole:.1%}" if part is not None and whole else "-"
