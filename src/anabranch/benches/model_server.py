"""A server on this machine that answers like a model behind HTTP: with latency, tokens and refusals.

It counts what it was paid for.

`POST /v1/chat/completions` takes what an OpenAI-compatible endpoint takes. The last message's text decides the answer,
so that everybody can say what is right: `{"model": "a", "messages": [{"content": "..."}]}`. An answer is paid for when
it is ready, whether or not anybody is there to read it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

LEAST_TOKENS, MOST_TOKENS = 40, 120
TOKEN_PRICE = 1e-6


def number_of(text: str, model: str) -> float:
    """The score between 0 and 1 that a model gives a text.

    >>> number_of("a text", "small") == number_of("a text", "small")
    True
    """
    digest = hashlib.blake2b(f"{model} {text}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


@dataclass
class ModelServer:
    """How slow it is, how often it refuses, and what it has been asked and paid for."""

    least_seconds: float = 0.02
    most_seconds: float = 0.2
    refuse_every: int = 0
    asked: int = 0
    refused: int = 0
    paid: Counter[str] = field(default_factory=Counter)
    arrivals: list[tuple[float, float]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(v) for k, v in _headers(head) if k == b"content-length"), 0)
                body = await reader.readexactly(length)
                status, more, answer = await self._respond(head, body)
                data = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, more, len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _respond(self, head: bytes, body: bytes) -> tuple[bytes, bytes, object]:
        if head.startswith(b"GET"):
            twice = sum(times - 1 for times in self.paid.values())
            state = {"asked": self.asked, "refused": self.refused, "paid": sum(self.paid.values()), "twice": twice}
            return b"200 OK", b"", {**state, "arrivals": self.arrivals}
        request = json.loads(body)
        text, model = request["messages"][-1]["content"], request["model"]
        self.asked += 1
        if self.refuse_every and self.asked % self.refuse_every == 0:
            self.refused += 1
            return b"429 Too Many Requests", b"Retry-After: 0.05\r\n", {"error": "slow down"}
        number = number_of(text, model)
        tokens = LEAST_TOKENS + int(number_of(text, "tokens") * (MOST_TOKENS - LEAST_TOKENS))
        self.arrivals.append((time.time(), tokens))
        await asyncio.sleep(self.least_seconds + number_of(text, "seconds") * (self.most_seconds - self.least_seconds))
        self.paid[f"{model} {text}"] += 1
        usage = {"total_tokens": tokens}
        return b"200 OK", b"", {"choices": [{"message": {"content": str(number)}}], "usage": usage}


def _headers(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()


class RefusedError(Exception):
    """The server has answered with an error."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"the server answered {status}")
        self.status, self.headers = status, headers


_idle: dict[str, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {}


async def ask(address: str, text: str, model: str = "small") -> tuple[float, int]:
    """The score that a model gives a text, and the tokens that it took; connections are used again."""
    host, port = address.split(":")
    idle = _idle.setdefault(address, [])
    reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(port))
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        headers = {k.decode(): v.decode() for k, v in _headers(answer)}
        data = await reader.readexactly(int(headers["content-length"]))
    except BaseException:
        writer.close()
        raise
    idle.append((reader, writer))
    status = int(answer.split(b" ", 2)[1])
    if status != 200:
        raise RefusedError(status, headers)
    found = json.loads(data)
    return float(found["choices"][0]["message"]["content"]), found["usage"]["total_tokens"]


@contextmanager
def running(folder: Path, **options: float) -> Iterator[str]:
    """A server in a process of its own, and its address."""
    address_file = folder / "address"
    folder.mkdir(parents=True, exist_ok=True)
    address_file.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "anabranch.benches.model_server", str(address_file), json.dumps(options)]
    process = subprocess.Popen(command, env=environment)
    try:
        while not address_file.exists():
            if process.poll() is not None:
                raise RuntimeError("the model server has not started")
            time.sleep(0.01)
        yield address_file.read_text()
    finally:
        process.terminate()
        process.wait()


def state_of(address: str) -> dict[str, object]:
    """What the server has been asked and paid for."""
    with urlopen(f"http://{address}/") as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


async def _main(address_file: Path, options: dict[str, float]) -> None:
    server = ModelServer(**options)  # type: ignore[arg-type]
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1024)
    port = listening.sockets[0].getsockname()[1]
    beside = address_file.with_suffix(".new")
    beside.write_text(f"127.0.0.1:{port}")
    beside.replace(address_file)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), json.loads(sys.argv[2])))
