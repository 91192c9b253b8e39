"""Records of tasks on Spark Connect, which has no accumulators: they travel with the rows' own pass.

A task writes its record beside the last of its rows, which goes on whether or not it passes. `observe` gathers the
records behind the first filter, where few rows are left, and a second one ends the rows that went on for their record
alone. What is observed comes back to the client with the result of each action, or with the progress of a streaming
query. A retried task counts once, as everywhere: the ledger knows it by its key.
"""

from __future__ import annotations

import atexit
import base64
import pickle
import threading
import uuid
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.model.arrays import Mask

if TYPE_CHECKING:
    from anabranch.spark.mailbox import Recipient

METRIC = "records"
PASSES, ENDS = "+", "-"
"""First sign of a letter: what becomes of its row behind the place where letters are gathered."""


class Outbox:
    """Holds the record of a task until it is written beside a row; pickled into the plan, empty."""

    def __init__(self) -> None:
        self._letter: str | None = None

    def send(self, message: Any) -> None:
        """Keep the record of the task that ends now."""
        self._letter = base64.b64encode(pickle.dumps(message)).decode()

    def beside(self, passing: Mask, *, last: bool) -> tuple[pa.Array, pa.Array]:
        """The rows of a batch that go on, and a column with the letter in the last row, if this is the last batch."""
        rows = len(passing)
        if not last or not rows:
            return pa.array(passing), pa.nulls(rows, pa.string())
        letter, self._letter = f"{PASSES if passing[-1] else ENDS}{self._letter}", None
        going_on = np.append(passing[:-1], True)
        return pa.array(going_on), pa.concat_arrays([pa.nulls(rows - 1, pa.string()), pa.array([letter])])


def gathered(df: DataFrame, letter: Column, recipient: Recipient) -> DataFrame:
    """Of rows that go on those that pass; letters beside them go to a recipient whenever they have been read."""
    return _observed(df, letter, recipient).where(letter.isNull() | letter.startswith(PASSES))


def _observed(df: DataFrame, letter: Column, recipient: Recipient) -> DataFrame:
    metric = F.array_join(F.collect_list(letter), " ").alias(METRIC)
    if df.isStreaming:
        name = f"anabranch-{uuid.uuid4().hex}"
        _streams.listen(df.sparkSession)
        _streams.recipients[name] = recipient
        return df.observe(name, metric)
    from pyspark.sql.connect.observation import Observation

    observation = Observation()
    observed = df.observe(observation, metric)  # type: ignore[arg-type]
    observation._result = _Delivered(recipient)
    return observed


class _Delivered(dict[str, Any]):
    """What an action has observed; the client of Spark updates it at the end of every one."""

    def __init__(self, recipient: Recipient) -> None:
        super().__init__()
        self._recipient = recipient

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Hand the letters on."""
        super().update(*args, **kwargs)
        deliver(self, self._recipient)


def deliver(metrics: Mapping[str, Any], recipient: Recipient) -> None:
    """Open the letters that were observed."""
    letters = (metrics.get(METRIC) or "").split()
    recipient.enter([pickle.loads(base64.b64decode(letter[1:])) for letter in letters])


class _Streams:
    """Who receives the progress of streaming queries; one listener per session."""

    def __init__(self) -> None:
        self.recipients: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._sessions: set[str] = set()

    def listen(self, spark: SparkSession) -> None:
        from pyspark.sql.streaming.listener import StreamingQueryListener

        recipients = self.recipients

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - the names are Spark's
                pass

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802
                for name, row in event.progress.observedMetrics.items():
                    recipient = recipients.get(name)
                    if recipient is not None:
                        deliver(row.asDict(), recipient)

            def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
                pass

        session = str(spark.session_id)  # type: ignore[attr-defined]
        if session not in self._sessions:
            self._sessions.add(session)
            # Spark's thread for events is a daemon as the one that asks for it is: no program has to wait for it.
            asking = threading.Thread(target=spark.streams.addListener, args=(Listener(),), daemon=True)
            asking.start()
            asking.join()
            atexit.register(warnings.filterwarnings, "ignore", "StreamingQueryListenerBus Handler thread")


_streams = _Streams()
