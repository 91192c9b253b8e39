"""A bar that shows what calls have cost while a query runs: in terminals, in notebooks, and in logs as plain lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from html import escape
from types import TracebackType
from typing import Any

from anabranch.calls.meter import Meter
from anabranch.calls.reply import Bill

EVERY_SECONDS = 0.5
WIDTH = 24

Show = Callable[[], None]
"""Shows how far things are now."""


class Progress:
    """Shows calls, tokens, money, hits, rows per second and the estimated end, as long as its `with` block lasts.

    Parameters
    ----------
    meter
        Of the filter.
    rows
        How many rows the input has, if that is known.
    """

    def __init__(self, meter: Meter, rows: int | None = None) -> None:
        self._meter, self._total = meter, rows
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._began, self._rows_before, self._bill_before = time.monotonic(), 0, Bill()
        self._showing = self._shown()
        self._show: Show = lambda: None

    def __enter__(self) -> Progress:
        self._began, self._rows_before, self._bill_before = time.monotonic(), self._meter.rows(), self._meter.total()
        self._show = self._showing.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._show()
        self._showing.__exit__(None, None, None)

    def line(self) -> str:
        """How far things are now, since the block began, in a line."""
        return f"{progress_bar(self._rows(), self._total)}{self._words()}"

    def html(self) -> str:
        """The same for a notebook."""
        share = "" if not self._total else f'<progress value="{self._rows()}" max="{self._total}"></progress> '
        return f"<div>{share}{escape(self._words())}</div>"

    def _rows(self) -> int:
        return self._meter.rows() - self._rows_before

    def _words(self) -> str:
        pairs = zip(astuple(self._meter.total()), astuple(self._bill_before), strict=True)
        seconds = max(time.monotonic() - self._began, 1e-9)
        return progress_words(self._rows(), self._total, seconds, Bill(*(now - before for now, before in pairs)))

    def _repeat(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._show()

    @contextmanager
    def _shown(self) -> Iterator[Show]:
        """What shows the line where this program runs."""
        notebook = _notebook()
        if notebook is not None:
            handle = notebook.display(notebook.HTML(self.html()), display_id=True)
            yield lambda: handle.update(notebook.HTML(self.html()))
            return
        try:
            from rich.live import Live
            from rich.text import Text
        except ImportError:
            yield lambda: print(f"\r{self.line()}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            return
        with Live(Text(self.line()), auto_refresh=False) as live:
            yield lambda: live.update(Text(self.line()), refresh=True)


def _notebook() -> Any:
    """What displays things below a notebook's cell; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None or getattr(shell, "kernel", None) is None else sys.modules.get("IPython.display")


def progress_bar(rows: int, total: int | None) -> str:
    """How much is done; nothing where nobody knows what there is to do.

    >>> progress_bar(50, 200), progress_bar(50, None)
    ('[######------------------] ', '')
    """
    filled = int(WIDTH * min(rows / total, 1.0)) if total else 0
    return f"[{'#' * filled}{'-' * (WIDTH - filled)}] " if total else ""


def progress_words(rows: int, total: int | None, seconds: float, bill: Bill) -> str:
    """Rows, speed, the estimated end, and what calls have cost.

    >>> progress_words(50, 200, 10.0, Bill(calls=40, hits=10, tokens=5200, money=0.25))
    '50 of 200 rows, 5 rows/s, 30 s left, 40 calls, 10 hits, 5,200 tokens, money 0.2500'
    """
    speed = rows / seconds
    parts = [f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows", f"{speed:,.0f} rows/s"]
    if total and rows:
        parts.append(f"{max(total - rows, 0) / speed:,.0f} s left")
    parts += [f"{bill.calls:,.0f} calls", f"{bill.hits:,.0f} hits", f"{bill.tokens:,.0f} tokens"]
    parts.append(f"money {bill.money:,.4f}")
    if bill.unasked:
        parts.append(f"{bill.unasked:,.0f} not asked")
    return ", ".join(parts)
