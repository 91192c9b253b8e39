"""The application: addresses become calls of plain functions, and what these return becomes JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route as Address

from anabranch.console import prometheus
from anabranch.console.access import COOKIE_SECONDS, Access
from anabranch.console.answer_cache import AnswerCache
from anabranch.console.audit import Audit
from anabranch.console.changing import Changing, error_reply
from anabranch.console.guard import Guard, Limits, Refused
from anabranch.console.hub import Hub
from anabranch.console.live import Live
from anabranch.console.reading import NotFound, Reading
from anabranch.console.routes import OF_PATH, Route, openapi, table
from anabranch.console.snapshot_page import snapshot_page
from anabranch.console.steering import Steering
from anabranch.console.validation import Invalid, validate
from anabranch.engine.failures import summarize
from anabranch.errors import AnabranchError

log = logging.getLogger("anabranch.console")
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
WORKERS = 8
"""Requests that are worked on at a time, besides the one that changes something."""


class Console:
    """Everything behind the guard.

    Parameters
    ----------
    hub
        Looks at the engine.
    access
        Tokens.
    audit
        Notes changes.
    folders
        Below which clients may name files.
    cookie_name, secure
        Of the cookie; `secure` with TLS.
    """

    def __init__(
        self, hub: Hub, access: Access, audit: Audit, folders: Sequence[Path], cookie_name: str, *, secure: bool
    ) -> None:
        self.hub, self.reading, steering = hub, Reading(hub), Steering(hub)
        self._changing = Changing(self.reading, steering, folders)
        self.routes = table(self.reading, self._changing, steering, audit.recent)
        self._access, self._audit = access, audit
        self._cookie_name, self._secure = cookie_name, secure
        self._readers = ThreadPoolExecutor(WORKERS, thread_name_prefix="anabranch-console")
        self._changer = ThreadPoolExecutor(1, thread_name_prefix="anabranch-console-change")
        self._static = {
            each.name: each.read_bytes() for each in files("anabranch.console").joinpath("static").iterdir()
        }
        self.live = Live(hub)
        self._shared = AnswerCache(lambda: hub.seen.version)
        self.may_try_token: Callable[[str], bool] = lambda client: True

    def application(self) -> Starlette:
        """The ASGI application."""
        found = [Address(each.path, partial(self._call, each), methods=[each.method]) for each in self.routes]
        pages = [
            Address("/", partial(self._file, name="index.html")),
            Address("/login", partial(self._file, name="login.html")),
            Address("/static/{name}", self._file),
            Address("/api/login", self._login, methods=["POST"]),
            Address("/api/logout", self._logout, methods=["POST"]),
            Address("/api/session", self._session),
            Address("/api/live", self._live),
            Address("/api/openapi.json", self._openapi),
            Address("/api/snapshot", self._snapshot),
            Address("/metrics", self._metrics),
        ]
        return Starlette(
            routes=[*found, *pages],
            lifespan=self._lifespan,
            exception_handlers={404: _not_found, 405: _not_found, Refused: _refused},
        )

    def close(self) -> None:
        """Take no more work."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._changer.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.live.bind()
        yield

    async def _call(self, route: Route, request: Request) -> Response:
        try:
            given = await _arguments(route, request)
        except Invalid as error:
            return JSONResponse({"error": str(error)}, 422)
        asked = (route.path, tuple(sorted(given.items()))) if route.shared else None
        known = None if asked is None else self._shared.get(asked)
        if known is not None:
            return Response(known, media_type="application/json")
        pool = self._changer if route.changes else self._readers
        status, answer = await asyncio.get_running_loop().run_in_executor(pool, partial(_answer, route.handler, given))
        if route.changes:
            self._shared.clear()
            action = f"{route.method} {request.url.path}"
            outcome = "done" if status == 200 else str(answer.get("error"))
            self._audit.note(request.scope["role"], _client(request), action, given.get("wanted"), outcome)
        reply = JSONResponse(answer, status)
        if asked is not None and status == 200:
            self._shared.put(asked, bytes(reply.body))
        return reply

    async def _login(self, request: Request) -> Response:
        client = _client(request)
        if not self.may_try_token(client):
            return JSONResponse({"error": "too many tries"}, 429, {"retry-after": "5"})
        try:
            wanted = await _body(request)
            validate(wanted, {"type": "object", "required": ["token"], "properties": {"token": {"type": "string"}}})
        except Invalid as error:
            return JSONResponse({"error": str(error)}, 422)
        role = self._access.role_of_token(wanted["token"])
        if role is None:
            self._audit.note("nobody", client, "POST /api/login", None, "wrong token")
            return JSONResponse({"error": "this is not the token"}, 401)
        answer = JSONResponse({"role": role})
        answer.set_cookie(
            self._cookie_name,
            self._access.cookie(role),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        answer = JSONResponse({"done": "logged out"})
        answer.delete_cookie(self._cookie_name, httponly=True, samesite="strict", secure=self._secure)
        return answer

    async def _session(self, request: Request) -> Response:
        return JSONResponse({"role": request.scope["role"]})

    async def _live(self, request: Request) -> Response:
        if self.live.full:
            return JSONResponse({"error": "too many pages are open"}, 429, {"retry-after": "10"})
        return StreamingResponse(self.live.messages(), media_type="text/event-stream")

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self.routes))

    async def _metrics(self, request: Request) -> Response:
        found = await asyncio.get_running_loop().run_in_executor(self._readers, self.reading.metrics)
        return Response(prometheus.exposition(found), media_type="text/plain; version=0.0.4")

    async def _snapshot(self, request: Request) -> Response:
        made = partial(snapshot_page, self.reading, self.routes, self._static)
        page = await asyncio.get_running_loop().run_in_executor(self._readers, made)
        headers = {"content-disposition": 'attachment; filename="anabranch-snapshot.html"'}
        return Response(page, media_type="text/html", headers=headers)

    async def _file(self, request: Request, name: str | None = None) -> Response:
        name = name or request.path_params["name"]
        if name == "index.html" and request.scope["role"] is None:
            return RedirectResponse("/login")
        if name not in self._static:
            return JSONResponse({"error": "there is no such file"}, 404)
        return Response(self._static[name], media_type=TYPES.get(Path(name).suffix, "application/octet-stream"))


def guarded(console: Console, access: Access, origins: frozenset[str], cookie_name: str, limits: Limits) -> Guard:
    """The application behind its guard."""
    guard = Guard(console.application(), access, origins, cookie_name, limits)
    console.may_try_token = guard.may_try_token
    return guard


def _answer(handler: Callable[..., Any], given: Mapping[str, Any]) -> tuple[int, Any]:
    """What a function returns, or the error that it raises, as a status and a body."""
    try:
        return 200, handler(**given)
    except NotFound as error:
        return 404, {"error": str(error)}
    except AnabranchError as error:
        return 400, error_reply(error)
    except PySparkException as error:
        return 400, {"error": summarize(error)}
    except Exception:
        log.exception("a request failed: %s", handler.__name__)
        return 500, {"error": "the console failed; its log says why"}


async def _arguments(route: Route, request: Request) -> dict[str, Any]:
    given: dict[str, Any] = dict(request.path_params)
    for name, value in given.items():
        validate(value, OF_PATH.get(name, {}), name)
    for name, text in request.query_params.items():
        if name not in route.params:
            raise Invalid(f"parameter {name[:100]!r} is unknown")
        given[name] = _parameter(name, text, route.params[name])
    if route.wanted is not None:
        given["wanted"] = await _body(request)
        validate(given["wanted"], route.wanted)
    return given


def _parameter(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    kinds: dict[str, Callable[[str], Any]] = {
        "integer": int,
        "number": float,
        "boolean": {"true": True, "false": False}.__getitem__,
        "string": str,
    }
    try:
        value = kinds[schema["type"]](text)
    except (ValueError, KeyError):
        raise Invalid(f"{name}: {schema['type']} is expected") from None
    validate(value, schema, name)
    return value


async def _body(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Invalid("the body has to be application/json")
    try:
        found = json.loads(await request.body())
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Invalid("the body is not JSON") from None
    return found


def _client(request: Request) -> str:
    return request.client.host if request.client else "unknown"


async def _refused(request: Request, error: Exception) -> Response:
    """What turned out to be too large while it was read."""
    assert isinstance(error, Refused)
    return JSONResponse({"error": error.what}, error.status, {"connection": "close"})


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return JSONResponse({"error": "there is nothing here" if status == 404 else "not this method"}, status)
