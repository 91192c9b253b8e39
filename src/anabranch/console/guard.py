"""The guard in front of the console's application: every request passes these checks before anything else sees it.

Host (against DNS rebinding), origin (against other sites), size, rate, token, role, and time. Answers carry headers
that forbid scripts from elsewhere, framing and caching.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

from anabranch.console.access import Access, Role
from anabranch.console.rate_limit import RateLimit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/login", "/static/login.js", "/static/console.css", "/static/icon.svg"})
"""What a browser needs to show its token; none of it says anything about the engine."""
LOGIN = "/api/login"
LIVE = "/api/live"
READS = ("GET", "HEAD")
TOO_LARGE = 413
MOST_DRAINED, DRAIN_SECONDS = 16 * 1024 * 1024, 2.0
"""Of a body that is too large: what is read of it before it is refused."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Parameters
    ----------
    body_bytes
        Of a request.
    request_seconds
        For an answer, the reading of the request included; the live stream is not limited.
    per_second, burst
        Requests of one address.
    logins_per_second, login_burst
        Wrong tokens of one address.
    """

    body_bytes: int = 256 * 1024
    request_seconds: float = 60.0
    per_second: float = 200.0
    burst: float = 400.0
    logins_per_second: float = 0.2
    login_burst: float = 10.0


class Refused(Exception):
    """A request that does not pass."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status, self.what = status, what


@dataclass
class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app
        What requests reach that pass.
    access
        Tokens and cookies.
    origins
        Origins under which the console is known, as `http://127.0.0.1:8765`.
    cookie_name
        Cookies are shared by all ports of a host: each port has its own name.
    limits
        See there.
    """

    app: App
    access: Access
    origins: frozenset[str]
    cookie_name: str
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._hosts = {origin.partition("//")[2] for origin in self.origins}
        self._requests = RateLimit(self.limits.per_second, self.limits.burst)
        self._failures = RateLimit(self.limits.logins_per_second, self.limits.login_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        sent = _Sent(send)
        try:
            self._check(scope)
            limited = _limited(receive, self.limits.body_bytes)
            seconds = None if scope["path"] == LIVE else self.limits.request_seconds
            await asyncio.wait_for(self.app(scope, limited, sent), seconds)
        except Refused as refused:
            if refused.status == TOO_LARGE:
                await _drain(receive)
            await sent.refuse(refused.status, refused.what)
        except TimeoutError:
            await sent.refuse(408, f"the request took more than {self.limits.request_seconds:g} s")

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        client = (scope.get("client") or ("unknown", 0))[0]
        path, method = scope["path"], scope["method"]
        if headers.get("host", "").lower() not in self._hosts:
            raise Refused(421, "the console is not known by this name")
        origin = headers.get("origin")
        if (origin is not None and origin.lower() not in self.origins) or headers.get("sec-fetch-site", "none") not in (
            "none",
            "same-origin",
        ):
            raise Refused(403, "a request of another site")
        if not self._requests.allows(client):
            raise Refused(429, "too many requests")
        role, is_open = self._role(headers), path == LOGIN or path in OPEN
        if role is None and not is_open:
            if "authorization" in headers and not self._failures.allows(client):
                raise Refused(429, "too many wrong tokens")
            raise Refused(401, "a token is needed")
        if role != "operator" and method not in READS and not (is_open or path.startswith("/api/check")):
            raise Refused(403, "this token may look only")
        if int(_digits(headers.get("content-length", "0"))) > self.limits.body_bytes:
            raise Refused(TOO_LARGE, f"a request has at most {self.limits.body_bytes} bytes")
        scope["role"] = role

    def may_try_token(self, client: str) -> bool:
        """Whether an address may show another token that is wrong."""
        return self._failures.allows(client)

    def _role(self, headers: Mapping[str, str]) -> Role | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.access.role_of_token(token.strip())
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return None
        return None if found is None else self.access.role_of_cookie(found.value)


class _Sent:
    """Adds headers, and knows whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
            message["headers"] = [*message.get("headers", []), *more]
        await self._send(message)

    async def refuse(self, status: int, what: str) -> None:
        """Answer with an error, unless an answer has begun."""
        if self._begun:
            return
        body = json.dumps({"error": what}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 429:
            headers.append((b"retry-after", b"1"))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status in (408, TOO_LARGE):
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _limited(receive: Receive, most: int) -> Receive:
    """Refuse a body that turns out to be too large."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            await _drain(receive)
            raise Refused(TOO_LARGE, f"a request has at most {most} bytes")
        return message

    return bounded


async def _drain(receive: Receive) -> None:
    """Read what a client goes on sending: one that is cut off would not see the answer."""

    async def read() -> None:
        size, more = 0, True
        while more and size < MOST_DRAINED:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)

    with suppress(TimeoutError):
        await asyncio.wait_for(read(), DRAIN_SECONDS)


def _digits(text: str) -> str:
    return text if text.isascii() and text.isdigit() and len(text) < 16 else str(2**50)
