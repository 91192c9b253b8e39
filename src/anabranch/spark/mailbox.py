"""Messages of tasks to objects on the driver, through one accumulator for the whole program.

Spark never forgets an accumulator, nor what it holds: with one per filter, or per tick, a program that runs for weeks
would hold all that it ever counted. So there is one for all. A recipient lives as long as something on the driver
holds it; messages to one that is gone are dropped.
"""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

Message = tuple[str, Any]
"""The identity of a recipient, and what is sent to it."""


class Recipient(Protocol):
    """Something on the driver that takes messages of tasks."""

    def enter(self, messages: Iterable[Any]) -> None:
        """Take messages in; called from a thread of Spark's."""


class _Recipients(WeakValueDictionary[str, Recipient]):
    def deliver(self, messages: Iterable[Message]) -> None:
        for identity, message in messages:
            recipient = self.get(identity)
            if recipient is not None:
                try:
                    recipient.enter([message])
                except Exception as error:  # it would end Spark's thread, and with it all accumulators of the program
                    warnings.warn(f"a task's report was lost: {error!r}", stacklevel=2)


class _Delivering(AccumulatorParam[Any]):
    """A worker's value is a list of messages; the driver's, the recipients."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - the name is Spark's
        if isinstance(value1, _Recipients):
            value1.deliver(value2)
            return value1
        return [*value1, *value2]


@dataclass(frozen=True)
class Address:
    """Where a task sends its messages; pickled into the Spark plan."""

    identity: str
    accumulator: Accumulator[Any]

    def send(self, message: Any) -> None:
        """Send a message; it arrives once the task has succeeded."""
        self.accumulator.add([(self.identity, message)])


class _Mailbox:
    """The one accumulator, made when it is first needed, and the recipients by their identities."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recipients = _Recipients()
        self._accumulator: Accumulator[Any] | None = None

    def address_of(self, recipient: Recipient, context: SparkContext) -> Address:
        with self._lock:
            if self._accumulator is None:
                self._accumulator = context.accumulator(self._recipients, _Delivering())
            address = Address(uuid.uuid4().hex, self._accumulator)
            self._recipients[address.identity] = recipient
            return address


_mailbox = _Mailbox()


def address_of(recipient: Recipient, context: SparkContext) -> Address:
    """A new address of a recipient."""
    return _mailbox.address_of(recipient, context)
