"""Clients of a console, as a program: each holds the live stream open and asks for something once a second."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from urllib.parse import urlsplit

PATHS = (
    "/api/overview",
    "/api/queries?limit=200",
    "/api/queries/busy/rows?limit=100",
    "/api/events?limit=200",
    "/api/filters",
    "/api/plans?minutes=5",
    "/api/state",
)
ANSWER_SECONDS = 60.0


async def ask(host: str, port: int, path: str, token: str) -> tuple[int, int]:
    """One request on a connection of its own: its status, and how long the answer is."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_head(host, port, path, token, "close"))
        await writer.drain()
        whole = await reader.read()
    finally:
        writer.close()
    return int(whole.split(b" ", 2)[1]), len(whole)


async def listen(host: str, port: int, token: str, until: float) -> bool:
    """Hold the live stream open; whether it stayed."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_head(host, port, "/api/live", token, "keep-alive"))
        await writer.drain()
        while (left := until - time.monotonic()) > 0:
            try:
                line = await asyncio.wait_for(reader.readline(), left)
            except TimeoutError:
                break
            if not line or (line.startswith(b"HTTP") and b" 200 " not in line):
                return False
    finally:
        writer.close()
    return True


def _head(host: str, port: int, path: str, token: str, connection: str) -> bytes:
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: Bearer {token}",
        f"Connection: {connection}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def client(number: int, host: str, port: int, token: str, until: float, took: list[tuple[int, float]]) -> bool:
    """One page of a browser."""
    chance = random.Random(number)
    listening = asyncio.create_task(listen(host, port, token, until))
    await asyncio.sleep(chance.random())
    while time.monotonic() < until:
        began = time.monotonic()
        status, _ = await asyncio.wait_for(ask(host, port, chance.choice(PATHS), token), ANSWER_SECONDS)
        took.append((status, time.monotonic() - began))
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))
    return await listening


async def main(address: str, clients: int, seconds: float) -> None:
    """Run all clients, and print what they saw."""
    parts, took = urlsplit(address), list[tuple[int, float]]()
    assert parts.hostname is not None
    assert parts.port is not None
    until, token = time.monotonic() + seconds, os.environ["ANABRANCH_TOKEN"]
    found = await asyncio.gather(*(client(n, parts.hostname, parts.port, token, until, took) for n in range(clients)))
    waits = sorted(wait for _, wait in took)
    report = {
        "answers": len(took),
        "failed": sum(status != 200 for status, _ in took),
        "open": sum(found),
        "p95": waits[int(0.95 * len(waits))],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
