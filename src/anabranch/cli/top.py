"""`anabranch top`: queries of a running engine: rates, lag, state, and the orders of their filters."""

from __future__ import annotations

import json
import time
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from anabranch.cli.client import Client
from anabranch.cli.tables import rich_table

REFRESH_SECONDS = 1.0
MOST_QUERIES = 200
TITLES = ("query", "status", "rows/s", "behind", "rows out", "state rows", "state MB", "order")


def top(client: Client, console: Console, *, as_json: bool = False, seconds: float | None = None) -> int:
    """A table that follows the queries in a terminal; once, where there is none, or as JSON."""
    if as_json:
        console.print_json(json.dumps(figures(client, {})))
        return 0
    if not console.is_terminal:
        console.print(_table(figures(client, {})))
        return 0
    deadline = None if seconds is None else time.monotonic() + seconds
    seen: dict[str, tuple[float, int]] = {}
    try:
        with Live(_table(figures(client, seen)), console=console, auto_refresh=False) as live:
            while deadline is None or time.monotonic() < deadline:
                time.sleep(REFRESH_SECONDS)
                live.update(_table(figures(client, seen)), refresh=True)
    except KeyboardInterrupt:
        return 0
    return 0


def figures(client: Client, seen: dict[str, tuple[float, int]]) -> list[dict[str, Any]]:
    """What is shown for each query; rates are those since the last look, which `seen` remembers."""
    orders: dict[str, str] = {}
    for each in client.get("/api/filters"):
        orders.setdefault(each["id"].rpartition("/")[0], " > ".join(each["order"]))
    found = []
    for query in client.get("/api/queries", limit=MOST_QUERIES)["queries"]:
        name, now = query["name"], (time.monotonic(), query["rows"])
        last, seen[name] = seen.get(name), now
        found.append(
            {
                "query": name,
                "status": query["status"],
                "rows_per_second": None if last is None else (now[1] - last[1]) / max(now[0] - last[0], 1e-9),
                "behind_seconds": None if query["lag"] is None else query["lag"] / 1e6,
                "rows": query["rows"],
                "state_rows": query["state_rows"],
                "state_bytes": query["state_bytes"],
                "order": orders.get(name),
                "error": query["error"],
            }
        )
    return found


def _table(found: list[dict[str, Any]]) -> Table:
    rows = [
        (
            escape(each["query"]),
            each["status"],
            "-" if each["rows_per_second"] is None else f"{each['rows_per_second']:,.1f}",
            "-" if each["behind_seconds"] is None else f"{each['behind_seconds']:,.1f} s",
            f"{each['rows']:,}",
            f"{each['state_rows']:,}",
            f"{each['state_bytes'] / 1e6:,.1f}",
            escape(each["error"] or each["order"] or ""),
        )
        for each in found
    ]
    return rich_table(TITLES, rows, left=("query", "status", "order"), frame=box.SIMPLE_HEAD)
