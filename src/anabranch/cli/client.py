"""A client of the console's API, for commands that look at an engine which runs elsewhere on this machine."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlencode

from anabranch.console.access import FILE, home
from anabranch.errors import QueryError, ResourceError

ADDRESS = "http://127.0.0.1:8765"
TIMEOUT_SECONDS = 40.0
TOKEN = "ANABRANCH_TOKEN"


class Client:
    """Asks a console.

    Parameters
    ----------
    address
        Of the service.
    token
        The operator's or the viewer's; that of `ANABRANCH_TOKEN`, or of this user's own file, if not given.
    """

    def __init__(self, address: str = ADDRESS, token: str | None = None) -> None:
        self.address = address.rstrip("/")
        if not self.address.startswith(("http://", "https://")):
            raise QueryError(f"{address!r} is not an address", hint=f"give it as in {ADDRESS}")
        self._token = token or os.environ.get(TOKEN) or _own_token()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **params: Any) -> Any:
        """What an address answers."""
        given = {name: value for name, value in params.items() if value not in (None, "")}
        return self._ask("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Any) -> Any:
        """What an address answers to a body."""
        return self._ask("POST", path, body)

    def rows(self, query: str, limit: int) -> Any:
        """The answer of a query."""
        return self.get(f"/api/queries/{quote(query, safe='')}/rows", limit=limit)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            raise _refused(error) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ResourceError(
                f"there is no console at {self.address}: {reason}",
                hint="start one with `anabranch serve queries.cql`, or name another with --url",
            ) from None


def _refused(error: urllib.error.HTTPError) -> QueryError:
    try:
        said = json.loads(error.read())
    except ValueError:
        said = {"error": f"the console answered {error.code}"}
    place = f" at line {said['line']}, column {said['column']}" if "line" in said else ""
    hint = said.get("hint")
    if error.code == 401:
        hint = f"give the token with --token or {TOKEN}"
    return QueryError(f"{said['error']}{place}", hint=hint)


def _own_token() -> str:
    file = home() / FILE
    try:
        return str(json.loads(file.read_text())["operator"])
    except (OSError, ValueError, KeyError):
        raise ResourceError(
            f"there is no token in {file}", hint=f"start the console first, or give one with --token or {TOKEN}"
        ) from None
