"""What is left of the program of filters (`filter_program.py`), and how its state folders are read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anabranch as ab

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class FilterLives:
    """What the program printed in its two lives, what the first one wrote to standard error, and its state folders."""

    folder: Path
    killed: dict[str, Any]
    said: str
    ended: dict[str, Any]

    def rows(self, name: str) -> int:
        """Rows that a filter on one of the folders has counted."""
        return (
            ab.Filter(ab.predicate(lambda id: id % 2 == 0, "id", name="even"), state=self.folder / name).report().rows
        )


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
