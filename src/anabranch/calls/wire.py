"""What the callers' process and its clients say to each other: pickles over a socket of this machine."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import socket
import struct
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from anabranch.calls.asking import Answer
from anabranch.calls.reply import Bill
from anabranch.calls.rules import CallRules
from anabranch.calls.secrets import fingerprint
from anabranch.side_process import exactly, place_of

_SIZE = struct.Struct("!Q")


@dataclass(frozen=True)
class Predicate:
    """A predicate that a client is going to ask; with its function, pickled, and where what it imports is found."""

    name: str
    function: bytes
    rules: CallRules
    repeatable: bool
    paths: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Tells it from others, also from an earlier version under the same name."""
        return hashlib.sha256(pickle.dumps(astuple(self))).hexdigest()


@dataclass(frozen=True)
class Question:
    """Rows to be asked about, by the predicate of an identity."""

    predicate: str
    rows: list[tuple[Any, ...]]
    meter: Path
    budget: float | None
    scope: str


@dataclass(frozen=True)
class Answers:
    """An answer per row, and the bill; or that the predicate is not known."""

    answers: list[Answer] | None
    bill: Bill
    problem: str | None = None


def address(folder: Path) -> Path:
    """The socket of a folder's caller, on this machine; a folder's own path may be too long for one.

    Functions read secrets from the environment. Programs whose secrets differ have callers of their own, so that none
    asks with the key of another.
    """
    return place_of("calls", f"{folder.resolve()} {fingerprint()}")


def packed(message: Any) -> bytes:
    """A message with its size before it."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(data)) + data


async def received(reader: asyncio.StreamReader) -> Any:
    """The next message; IncompleteReadError if the other side has gone."""
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return pickle.loads(await reader.readexactly(size))


def exchanged(line: socket.socket, message: Any) -> Any:
    """Send a message and wait for the answer; ConnectionError if the other side has gone."""
    line.sendall(packed(message))
    (size,) = _SIZE.unpack(exactly(line, _SIZE.size))
    return pickle.loads(exactly(line, size))
