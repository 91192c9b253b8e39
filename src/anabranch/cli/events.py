"""`anabranch events`: decisions and failures of a running engine, as lines."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape

from anabranch.cli.client import Client

FOLLOW_SECONDS = 0.5


def events(
    client: Client,
    console: Console,
    *,
    follow: bool = False,
    kind: str = "",
    filter: str = "",
    limit: int = 50,
    as_json: bool = False,
    seconds: float | None = None,
) -> int:
    """Print events, the oldest first; with `follow`, go on until it is interrupted."""
    deadline = None if seconds is None else time.monotonic() + seconds
    after = ""
    try:
        while True:
            found = client.get("/api/events", after=after, limit=1000 if after else limit)["events"]
            for each in reversed(found):
                if (not kind or each["kind"] == kind) and (not filter or each["filter"] == filter):
                    _print(each, console, as_json)
            after = found[0]["id"] if found else after
            if not follow or (deadline is not None and time.monotonic() >= deadline):
                return 0
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        return 0


def _print(event: dict[str, Any], console: Console, as_json: bool) -> None:
    if as_json:
        console.print(json.dumps(event), markup=False, highlight=False, soft_wrap=True)
        return
    moment = datetime.fromtimestamp(event["seen"]).astimezone().isoformat(sep=" ", timespec="seconds")[:19]
    why = f" [dim]({escape(event['why'])})[/]" if event["why"] else ""
    what = f"[bold]{event['kind']}[/] {escape(event['filter'] or '')}: {escape(event['what'])}"
    console.print(f"[dim]{moment}[/] {what}{why}", highlight=False, soft_wrap=True)
