"""The loop: a thread that runs a tick whenever there is something to do, and the streams that give it something.

Each stream is a Structured Streaming query of its own. Its batches go to the ingest, which commits them; a tick takes
what is there. A stream that is far behind goes on at once, beside the tick. One that is up to date waits for the tick:
beside it the next batch would slow it down, and hold fewer rows. Only where all readers of a stream answer rows as they
are, a batch is offered to the next tick instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import storage
from anabranch.engine.failures import is_fatal, unwrap
from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import StreamInput
from anabranch.engine.stateless_queries import Offer
from anabranch.errors import InternalError, QueryError
from anabranch.spark.session import light_logs

GATHERING_SECONDS = 0.02
WATCH_SECONDS, LOOK_SECONDS = 0.2, 1.0
WORTH_A_TICK = 8
"""Batches that a tick takes at once while streams catch up."""
ENOUGH_ROWS = 1_000_000
CATCHING_UP_SECONDS = 3.0
FAR_BEHIND_SECONDS = 5.0
LONGEST_BEGIN_SECONDS, BEGIN_LOOK_SECONDS = 5.0, 0.005
PATIENCE = 0.1
"""A tick waits for more to come for so long at most, as a share of how far streams are behind the clock."""
MOST_WAITING = 2 * WORTH_A_TICK
"""Batches of a stream that may wait for a tick before the stream does."""
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling o0.stop.\n: java.lang.InterruptedException"
"""The words by which Spark knows that a batch was interrupted on purpose."""


class Loop:
    """Runs ticks.

    Parameters
    ----------
    folder
        Where Spark keeps what it knows about sources.
    streams
        Registered streams.
    ingest
        Takes batches.
    waits
        Whether the rows of a stream have to be put in the buffer.
    tick
        Runs one tick, given offers and which streams are silent.
    lost
        Called when a stream cannot go on.
    """

    def __init__(
        self,
        folder: Path,
        streams: Mapping[str, StreamInput],
        ingest: Ingest,
        waits: Callable[[StreamInput], bool],
        tick: Callable[[Sequence[Offer], Mapping[str, bool]], None],
        lost: Callable[[str, BaseException], None],
    ) -> None:
        self._folder = folder
        self._streams = streams
        self._ingest = ingest
        self._waits = waits
        self._tick = tick
        self._lost = lost
        self._changed = threading.Condition()
        self._offers: list[Offer] = []
        self._heard: dict[str, float] = {}
        self._silent: dict[str, bool] = {}
        self._wanted = self._busy = self._stopping = False
        self._begun = False  # whether a tick has taken rows
        self._awaited = 0
        self._inside: set[str] = set()  # streams in the middle of a batch
        self._resting: set[str] = set()  # streams whose batch waits for a tick
        self._ending: set[str] = set()  # streams that are being stopped
        self._thread: threading.Thread | None = None
        self._sources: dict[str, StreamingQuery] = {}
        self.failure: BaseException | None = None

    # -- for the engine

    def check(self, stream: StreamInput) -> None:
        """Refuse a stream of which more was taken than Spark knows to have read: rows would be lost or come twice."""
        taken = self._ingest.last(stream.name)  # first: a stream that runs goes on meanwhile
        if _planned(self._folder / stream.name) < taken:
            raise QueryError(
                f"the checkpoint does not say how far stream {stream.name!r} was read",
                hint=f"bring back its folder sources/{stream.name}, or begin with a new checkpoint",
            )

    def start(self, streams: Sequence[StreamInput]) -> None:
        """Let streams flow."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="anabranch-ticks", daemon=True)
            self._thread.start()
        for stream in streams:
            if stream.name not in self._sources:
                self._heard[stream.name] = time.monotonic()
                self._sources[stream.name] = source = self._source(stream)
                if self._ingest.catching_up(stream.name):
                    threading.Thread(
                        target=self._drained, args=(stream.name, source, None), name="anabranch-backlog", daemon=True
                    ).start()

    def want(self, change: Callable[[], None]) -> None:
        """Change something, and run a tick after it."""
        with self._changed:
            change()
            self._wanted = True
            self._changed.notify_all()

    def committed(self) -> None:
        """Let streams whose batches the tick has taken go on while sinks get the answers."""
        with self._changed:
            self._changed.notify_all()

    def keep(self, needed: set[str]) -> None:
        """Stop all streams but these."""
        for name in [name for name in self._sources if name not in needed]:
            source = self._sources.pop(name)
            with self._changed:
                if threading.current_thread() is not self._thread:
                    self._changed.wait_for(lambda: name not in self._inside)  # noqa: B023
                self._ending.add(name)
            try:
                source.stop()
            finally:
                self._ending.discard(name)

    def stop(self) -> None:
        """Stop all streams, and the thread after the tick that it is in."""
        self.keep(set())
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._stopping = False

    @contextmanager
    def between_ticks(self) -> Iterator[None]:
        """While no tick runs; sinks are called by the thread that runs them, after the tick."""
        with self._changed:
            if threading.current_thread() is not self._thread:
                self._changed.wait_for(lambda: not self._busy)
            yield

    def await_idle(self, names: Sequence[str], timeout: float | None) -> bool:
        """Wait until everything is answered that streams have by now; False if it took too long."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for name in names:
            if name in self._sources and not self._drained(name, self._sources[name], deadline):
                return False
        with self._changed:
            self._awaited += 1
            self._changed.notify_all()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                return self._changed.wait_for(lambda: not (self._something() or self._busy), left)
            finally:
                self._awaited -= 1

    def _drained(self, name: str, source: StreamingQuery, deadline: float | None) -> bool:
        """Wait until a stream has no more to give, its backlog included; Spark's own call would wait for ever."""

        def wait() -> None:
            try:
                source.processAllAvailable()
            except StreamingQueryException:
                _ended(source)
                self._look_after(name, source)

        thread = threading.Thread(target=wait, name="anabranch-await", daemon=True)
        thread.start()
        thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if not thread.is_alive() and source.isActive and self._ingest.catching_up(name):
            self.want(lambda: self._ingest.caught_up(self._streams[name]))
        return not thread.is_alive()

    # -- streams

    def _source(self, stream: StreamInput) -> StreamingQuery:
        kept = self._folder / stream.name
        if _planned(kept) < 0:  # a first batch that was never written down, as on a full disk: Spark would refuse it
            storage.remove(kept)
        writer = stream.df.writeStream.foreachBatch(partial(self._offer, stream))
        with light_logs(stream.df.sparkSession):
            source = writer.option("checkpointLocation", storage.uri(kept)).start()
            _await_begin(source)
        return source

    def _offer(self, stream: StreamInput, df: DataFrame, batch: int) -> None:
        """Called by Spark for every batch.

        One that is interrupted says so in few words: in the traces of what it was doing Spark looks for them with a
        pattern that can exhaust its stack.
        """
        if batch <= self._ingest.last(stream.name):
            return
        with self._changed:
            self._inside.add(stream.name)
        try:
            _settle_log(self._folder / stream.name, batch)
            self._bring(stream, df, batch)
        except BaseException:
            if stream.name in self._ending:
                raise RuntimeError(INTERRUPTED) from None
            raise
        finally:
            with self._changed:
                self._inside.discard(stream.name)
                self._changed.notify_all()

    def _bring(self, stream: StreamInput, df: DataFrame, batch: int) -> None:
        with self._changed:
            self._heard[stream.name] = time.monotonic()
            self._changed.wait_for(lambda: self.failure or self._ingest.waiting(stream.name) < MOST_WAITING)
            if self.failure is not None:
                raise self.failure
            offer = None if self._waits(stream) else Offer(stream, batch, df)
            if offer is not None:
                self._offers.append(offer)
                self._changed.notify_all()
        if offer is None:
            self._take(stream, df, batch)
            self._rest(stream.name)
            return
        offer.done.wait()
        if offer.error is not None:
            raise offer.error

    def _take(self, stream: StreamInput, df: DataFrame, batch: int) -> None:
        try:
            self._ingest.take(stream, batch, df)
        except BaseException as error:
            with self._changed:
                if is_fatal(error):
                    self.failure = unwrap(error)
                self._changed.notify_all()
            raise
        with self._changed:
            self._heard[stream.name] = time.monotonic()
            self._changed.notify_all()

    def _rest(self, stream: str) -> None:
        """Wait until a tick has taken what the stream has brought, unless there is much more to bring."""
        with self._changed:
            if self._ingest.seconds_behind(stream) < FAR_BEHIND_SECONDS:
                self._resting.add(stream)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._stopping or self.failure or not self._ingest.waiting(stream))
                self._resting.discard(stream)

    def _look_after(self, name: str, source: StreamingQuery) -> None:
        """A stream that has ended by itself cannot go on; it can be started again."""
        with self._changed:  # a query that no longer finds the source finds its readers failed
            if not source.isActive and self._sources.get(name) is source:
                del self._sources[name]
                error = source.exception()
                self._lost(name, error or QueryError(f"stream {name!r} was stopped", hint="start the query again"))

    # -- the thread

    def _run(self) -> None:
        while True:
            for name, source in list(self._sources.items()):
                self._look_after(name, source)
            with self._changed:
                self._changed.wait_for(self._something, timeout=self._patience())
                if self._stopping:
                    self._release(InternalError("the engine has stopped"))
                    return
                if not self._something() and self._silent_now() == self._silent:
                    continue
            self._gather()
            with self._changed:
                offers, self._offers = self._offers, []
                self._begun = self._begun or self._ingest.waiting() > 0
                self._wanted, self._busy = False, True
                self._silent = self._silent_now()
            try:
                self._tick(offers, self._silent)
            except BaseException as error:
                with self._changed:
                    self.failure = unwrap(error)
                    self._offers += [offer for offer in offers if not offer.done.is_set()]
                    self._release(error)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _gather(self) -> None:
        """Let a tick take what comes at about the same time, and more of it while streams catch up.

        Where rows are of a time long ago, ticks are better few; but a query that is started again should soon show that
        it goes on.
        """
        with self._changed:
            behind = min(CATCHING_UP_SECONDS, PATIENCE * self._ingest.seconds_behind()) if self._begun else 0.0
            if behind > GATHERING_SECONDS:
                self._changed.wait_for(self._enough, behind)
            elif len(self._sources) > 1:
                self._changed.wait_for(lambda: self._stopping, GATHERING_SECONDS)

    def _enough(self) -> bool:
        hurry = self._stopping or self._wanted or self._awaited > 0 or bool(self._offers)
        hurry = hurry or (bool(self._resting) and self._inside <= self._resting)  # no source brings anything more
        return hurry or self._ingest.waiting() >= WORTH_A_TICK or self._ingest.waiting_rows() >= ENOUGH_ROWS

    def _release(self, error: BaseException) -> None:
        for offer in self._offers:
            offer.error = error
            offer.done.set()
        self._offers = []

    def _something(self) -> bool:
        there = self._wanted or bool(self._offers) or self._ingest.waiting() > 0
        return self._stopping or (self.failure is None and there)

    def _patience(self) -> float:
        watched = self.failure is None and any(stream.idle_timeout for stream in list(self._streams.values()))
        return WATCH_SECONDS if watched else LOOK_SECONDS

    def _silent_now(self) -> dict[str, bool]:
        moment = time.monotonic()
        return {
            name: moment - self._heard.get(name, moment) > stream.idle_timeout / 1e6
            for name, stream in list(self._streams.items())
            if stream.idle_timeout is not None
        }


def _planned(kept: Path) -> int:
    """The last batch that Spark has written down before it brought it; -1 if there is none."""
    return max((int(path.name) for path in storage.listed(kept / "offsets", "*") if path.name.isdigit()), default=-1)


def _settle_log(kept: Path, batch: int) -> None:
    """What Spark has written down about a batch is on the disk before we say that the batch was taken.

    Spark leaves that to the system. If the power fails, files that Spark forgets to have read would come again.
    """
    names = (f"offsets/{batch}", f"sources/*/{batch}", f"sources/*/{batch}.compact")
    logs = [path for name in names for path in storage.listed(kept, name)]
    storage.sync_all({*logs, *(path.parent for path in logs)})


def _await_begin(source: StreamingQuery) -> None:
    """Wait until Spark has made what a stream reads from: until then it looks at the settings of the session."""
    deadline, pause = time.monotonic() + LONGEST_BEGIN_SECONDS, threading.Event()
    while source.isActive and source.status["message"].startswith("Initializing") and time.monotonic() < deadline:
        pause.wait(BEGIN_LOOK_SECONDS)


def _ended(source: StreamingQuery) -> None:
    """Wait for the end of a stream that has failed."""
    try:
        source.awaitTermination()
    except StreamingQueryException:
        return
