"""A bar that shows what calls have cost while a query runs."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from anabranch.calls.meter import Meter
from anabranch.calls.reply import Bill

EVERY_SECONDS = 0.5
WIDTH = 24


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
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._began, self._before = 0.0, 0

    def __enter__(self) -> Progress:
        self._began, self._before = time.monotonic(), self._meter.rows()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def line(self) -> str:
        """How far things are now, in a line."""
        rows, seconds = self._meter.rows() - self._before, max(time.monotonic() - self._began, 1e-9)
        return progress_line(rows, self._total, seconds, self._meter.total())

    def _show(self) -> None:
        try:
            from rich.live import Live
            from rich.text import Text
        except ImportError:
            self._show_plainly()
            return
        with Live(Text(self.line()), refresh_per_second=2, transient=False) as live:
            while not self._over.wait(EVERY_SECONDS):
                live.update(Text(self.line()))
            live.update(Text(self.line()))

    def _show_plainly(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            sys.stderr.write(f"\r{self.line()}")
            sys.stderr.flush()
        sys.stderr.write(f"\r{self.line()}\n")


def progress_line(rows: int, total: int | None, seconds: float, bill: Bill) -> str:
    """Rows, speed, the estimated end, and what calls have cost.

    >>> progress_line(50, 200, 10.0, Bill(calls=40, hits=10, tokens=5200, money=0.25))
    '[######------------------] 50 of 200 rows, 5 rows/s, 30 s left, 40 calls, 10 hits, 5,200 tokens, money 0.2500'
    """
    speed = rows / seconds
    parts = [f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows", f"{speed:,.0f} rows/s"]
    bar = ""
    if total:
        done = min(rows / total, 1.0)
        filled = int(WIDTH * done)
        bar = f"[{'#' * filled}{'-' * (WIDTH - filled)}] "
        if rows:
            parts.append(f"{max(total - rows, 0) / speed:,.0f} s left")
    parts += [f"{bill.calls:,.0f} calls", f"{bill.hits:,.0f} hits", f"{bill.tokens:,.0f} tokens"]
    parts.append(f"money {bill.money:,.4f}")
    if bill.unasked:
        parts.append(f"{bill.unasked:,.0f} not asked")
    return bar + ", ".join(parts)
