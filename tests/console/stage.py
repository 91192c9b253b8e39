"""A running engine with its console, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch as ab
from anabranch.console.guard import Limits
from anabranch.console.service import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "ts timestamp, host string, size long"
FAST = Limits(request_seconds=600, per_second=100_000, burst=100_000, logins_per_second=1_000, login_burst=1_000)
"""Tests ask more often than people, and run on busy machines."""


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Asks the console as a program would, with a token."""

    host: str
    port: int
    token: str | None
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        given = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            given.setdefault("Authorization", f"Bearer {self.token}")
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, given)
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json


@dataclass
class Stage:
    """A running engine with its console."""

    engine: ab.Engine
    service: Service
    folder: Path
    spark: SparkSession
    written: int = 0

    @property
    def operator(self) -> Client:
        return self._client(self.service._access.operator)

    @property
    def viewer(self) -> Client:
        return self._client(self.service._access.viewer)

    @property
    def stranger(self) -> Client:
        return self._client(None)

    def bring(self, rows: int = 100) -> None:
        """More rows of the stream, a second apart."""
        first = self.written
        text = "timestamp_seconds(1700000000 + id) AS ts, concat('h', id % 3) AS host, id * 7 % 100 AS size"
        made = self.spark.sql(f"SELECT {text} FROM range({first}, {first + rows}, 1, 1)")
        made.write.mode("append").parquet(str(self.folder / "in"))
        self.written += rows

    def _client(self, token: str | None) -> Client:
        return client_of(self.service, token)


def await_true(true: Callable[[], object], seconds: float = 240) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.05)


def client_of(service: Service, token: str | None) -> Client:
    """A client of a service."""
    host, port = service.address.removeprefix("http://").split(":")
    return Client(host, int(port), token)
