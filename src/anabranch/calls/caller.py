"""The process that makes the calls of this machine for one folder of answers.

It is run as `python -m anabranch.calls.caller FOLDER`.

It is started by the first worker that needs it, in a session of its own. So it outlives workers and drivers that are
killed: calls that are under way end, their answers are kept, and the next one to ask finds them. It ends by itself when
nobody has been connected for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import sys
import time
from contextlib import suppress
from pathlib import Path

from anabranch.calls.answer_cache import AnswerCache
from anabranch.calls.asking import Answer, Asker, Asking
from anabranch.calls.meter import Meter
from anabranch.calls.reply import Bill
from anabranch.calls.secrets import redacted
from anabranch.calls.shared_table import SharedTable
from anabranch.calls.wire import Answers, Predicate, Question, address, packed, received
from anabranch.side_process import ready, sole

IDLE_SECONDS = 10.0
LOOK_SECONDS = 0.5


class Caller:
    """Serves the workers of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._cache = folder, AnswerCache(folder)
        self._askers: dict[str, Asker] = {}
        self._under_way: dict[bytes, asyncio.Future[Answer]] = {}
        self._meters: dict[Path, Meter] = {}
        self._clients = 0
        self._used = time.monotonic()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one worker, one after the other."""
        self._clients += 1
        slots: dict[str, asyncio.Semaphore] = {}
        watch = asyncio.create_task(received(reader))
        try:
            while True:
                message = await watch
                answering = asyncio.create_task(self._answer(message, slots))
                watch = asyncio.create_task(received(reader))
                await asyncio.wait({answering, watch}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():  # a client that waits says nothing: it has gone
                    answering.cancel()
                    return
                writer.write(packed(answering.result()))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            watch.cancel()
            with suppress(BaseException):
                await watch
            self._clients -= 1
            self._used = time.monotonic()
            writer.close()

    async def wait_until_idle(self) -> None:
        """Return when nobody has needed it for a while."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._clients or any(asker.busy for asker in self._askers.values()):
                self._used = time.monotonic()
            elif time.monotonic() - self._used > IDLE_SECONDS:
                return

    async def _answer(self, message: Predicate | Question, slots: dict[str, asyncio.Semaphore]) -> Answers:
        try:
            if isinstance(message, Predicate):
                self._meet(message)
                return Answers([], Bill())
            asker = self._askers.get(message.predicate)
            if asker is None:
                return Answers(None, Bill())
            own = slots.setdefault(message.predicate, asyncio.Semaphore(asker.rules.concurrency))
            meter = self._meters.setdefault(message.meter, Meter(message.meter))
            meter.budget = message.budget
            return Answers(*await asker.ask(message.rows, Asking(own, meter, message.scope)))
        except Exception as error:
            return Answers([], Bill(), redacted(f"{type(error).__name__}: {error}"))

    def _meet(self, predicate: Predicate) -> None:
        """Take a predicate in, unless it is known; one with the same rate shares its places."""
        if predicate.identity in self._askers:
            return
        sys.path += [path for path in predicate.paths if path not in sys.path]  # of another program, maybe
        function = pickle.loads(predicate.function)
        self._askers[predicate.identity] = Asker(
            predicate.name,
            function,
            predicate.rules,
            self._cache if predicate.repeatable else None,
            lambda places: self._places(predicate, places),
            self._under_way,
        )

    def _places(self, predicate: Predicate, places: int) -> SharedTable:
        shared = f"{predicate.rules.kept_as or predicate.name} {predicate.rules.rate}"
        return SharedTable(self._folder / "rates" / hashlib.sha256(shared.encode()).hexdigest()[:16], places, 3)


async def run(folder: Path) -> None:
    """Serve until nobody needs it; if there is a caller for the folder already, leave it to that one."""
    place = address(folder)
    with sole(place) as own:
        if own:
            caller = Caller(folder)
            server = await asyncio.start_unix_server(caller.serve, place)
            ready()
            await caller.wait_until_idle()
            server.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
