"""The audit log: every change that came over HTTP, who asked for it, and whether it was done."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

log = logging.getLogger("anabranch.console")
FILE = "console-audit.jsonl"
MOST_SHOWN = 500


class Audit:
    """Appends a line of JSON per change to a file that only its owner can read, and remembers the last ones."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._lock = threading.Lock()
        self._recent: deque[dict[str, Any]] = deque(maxlen=MOST_SHOWN)

    def note(self, role: str, client: str, action: str, what: object, outcome: str) -> None:
        """Note a change."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"time": moment, "role": role, "client": client, "action": action, "what": what, "outcome": outcome}
        self._recent.append(entry)
        try:
            with self._lock:
                handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                with os.fdopen(handle, "a") as out:
                    out.write(json.dumps(entry) + "\n")
        except OSError as error:
            log.warning("the audit log %s cannot be written: %s", self._file, error)

    def recent(self) -> list[dict[str, Any]]:
        """The last changes, newest first."""
        return list(reversed(list(self._recent)))
