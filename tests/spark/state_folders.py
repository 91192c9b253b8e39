"""What is in the state folder of a filter, awaited."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 280.0


def rows_on_disk(folder: Path) -> int:
    """Rows that a state folder has counted, by its file."""
    try:
        state = json.loads((folder / "filter.json").read_text())
    except OSError:
        return 0
    return sum(entry[-1]["tally"]["rows"] for kind in ("folded", "recent") for entry in state[kind])


def awaited(condition: Callable[[], bool]) -> bool:
    """Whether something has come to hold, soon."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
