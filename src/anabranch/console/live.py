"""Server-sent events: a short message to every open page whenever the hub has seen something new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from anabranch.console.hub import Hub, Seen

MOST_CLIENTS = 400
PING_SECONDS = 15.0
RETRY_MILLISECONDS = 2_000


class Live:
    """Wakes clients. The hub calls from its own thread; all else happens in the loop of the service.

    Parameters
    ----------
    hub
        What is looked at.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._clients: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        hub.listen(self._changed)

    @property
    def full(self) -> bool:
        """Whether there is no room for another client."""
        return len(self._clients) >= MOST_CLIENTS

    def bind(self) -> None:
        """Use the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def stop_soon(self) -> None:
        """Let all clients go; for any thread."""
        self._stopping = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    async def messages(self) -> AsyncIterator[str]:
        """The messages for one client."""
        changed = asyncio.Event()
        self._clients.add(changed)
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n" + _message(self._hub.seen)
            while not self._stopping:
                try:
                    await asyncio.wait_for(changed.wait(), PING_SECONDS)
                    changed.clear()
                    yield _message(self._hub.seen)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._clients.discard(changed)

    def _changed(self, _: Seen) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for each in self._clients:
            each.set()


def _message(seen: Seen) -> str:
    counts = {"version": seen.version, "tick": seen.tick, "decisions": seen.cards, "failed": seen.failed}
    data = counts | {"failure": seen.failure}
    return f"event: seen\ndata: {json.dumps(data)}\n\n"
