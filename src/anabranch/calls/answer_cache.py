"""Answers that are kept: a call that was answered once is never paid again.

One SQLite file in WAL mode per folder, written by the one process that makes the calls. A kill of any process loses
nothing that was written; only a power cut may lose the last moments. See decision record 023 for what was measured.

>>> import tempfile
>>> cache = AnswerCache(Path(tempfile.mkdtemp()))
>>> cache.keep(b"key", Reply(0.7, tokens=10, money=0.001))
>>> cache.find([b"key", b"other"])
{b'key': 0.7}

A failure, or that a row was not asked, is remembered for one filter: when the rows that it has set aside are looked
for, they must be the same, whatever was answered meanwhile.

>>> cache.fail(b"key 2", "filter 1", "TimeoutError: no answer in 20 s")
>>> cache.failures([b"key 2"], "filter 1"), cache.failures([b"key 2"], "filter 2")
({b'key 2': 'TimeoutError: no answer in 20 s'}, {})

What cannot be written, as the disk is full, is owed: it stays in memory, and `keep_owed` tries again.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from anabranch.calls.reply import Reply, Unasked
from anabranch.errors import ResourceError

FILE = "answers.sqlite"
ASKED_AT_ONCE = 500
BUSY_SECONDS = 30.0
TABLES = """
    create table if not exists answers (key blob primary key, value blob, tokens real, money real) without rowid;
    create table if not exists failures (
        key blob, filter text, message text, asked integer, primary key (key, filter)
    ) without rowid;
"""


class AnswerCache:
    """The answers in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._owed = folder, dict[bytes, Reply]()
        self._file = sqlite3.connect(folder / FILE, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("pragma synchronous = normal")
        self._file.executescript(TABLES)

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """The answers that are known."""
        found: dict[bytes, Any] = {}
        for some in _parts(keys):
            marks = ",".join("?" * len(some))
            rows = self._file.execute(f"select key, value from answers where key in ({marks})", some)
            found.update((key, pickle.loads(value)) for key, value in rows)
        return found | {key: self._owed[key].value for key in keys if key in self._owed}

    def keep(self, key: bytes, reply: Reply) -> None:
        """Keep an answer; the first one stays."""
        line = (key, pickle.dumps(reply.value), reply.tokens, reply.money or 0.0)
        try:
            self._file.execute("insert or ignore into answers values (?, ?, ?, ?)", line)
        except sqlite3.Error as error:
            self._owed[key] = reply
            raise ResourceError(
                f"answers cannot be kept in {str(self._folder)!r}: {error}",
                hint="nothing more is asked until they can; those that were paid are held, and written then",
            ) from error

    def keep_owed(self) -> None:
        """Write what could not be written before; ResourceError while that is still so."""
        for key, reply in list(self._owed.items()):
            self.keep(key, reply)
            del self._owed[key]

    def fail(self, key: bytes, scope: str, message: str) -> None:
        """Remember that a filter has got no answer."""
        line = (key, scope, message, not isinstance(message, Unasked))
        self._file.execute("insert or ignore into failures values (?, ?, ?, ?)", line)

    def failures(self, keys: Sequence[bytes], scope: str) -> dict[bytes, str]:
        """What a filter has got instead of answers."""
        found: dict[bytes, str] = {}
        for some in _parts(keys):
            marks = ",".join("?" * len(some))
            rows = self._file.execute(
                f"select key, message, asked from failures where filter = ? and key in ({marks})", [scope, *some]
            )
            found.update((key, said if asked else Unasked(said)) for key, said, asked in rows)
        return found

    def close(self) -> None:
        """No more answers."""
        self._file.close()


def _parts(keys: Iterable[bytes]) -> Iterable[list[bytes]]:
    rest = iter(keys)
    while some := list(islice(rest, ASKED_AT_ONCE)):
        yield some
