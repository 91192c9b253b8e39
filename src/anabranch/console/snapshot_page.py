"""One moment of the console as a single HTML file, which opens without the engine and without a network.

The pages are the same as those that are served. Their modules are put into the file as `data:` addresses that an import
map knows by name, and what they would have asked the service is in the file, too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from anabranch.console.reading import NotFound, Reading
from anabranch.console.routes import Route
from anabranch.errors import AnabranchError

MOST_QUERIES = 100
ROWS = 100
PLAIN = (
    "/api/overview",
    "/api/streams",
    "/api/relations",
    "/api/events",
    "/api/filters",
    "/api/joins",
    "/api/history",
    "/api/state",
    "/api/settings",
    "/api/rules",
    "/api/plans",
    "/api/catalog",
    "/api/advice",
)
IMPORT = re.compile(r"""(from|import)\s+["']\./([\w.-]+\.js)["']""")


def snapshot_page(reading: Reading, routes: Sequence[Route], static: Mapping[str, bytes]) -> str:
    """The file."""
    page = static["index.html"].decode()
    modules = {name: _module(text.decode()) for name, text in static.items() if name.endswith(".js")}
    imports = {f"console/{name}": _data(text) for name, text in modules.items() if name != "login.js"}
    style = static["console.css"].decode()
    recorded = _embedded(answers(reading, routes))
    page = re.sub(r"<link rel=\"(stylesheet|icon)\"[^>]*>", "", page)
    page = re.sub(r"<script[^>]*></script>", "", page)
    head = (
        f"<style>{style}</style>\n"
        f'<script type="application/json" id="snapshot">{recorded}</script>\n'
        f'<script type="importmap">{_embedded({"imports": imports})}</script>\n'
        '<script type="module">import "console/app.js";</script>\n'
    )
    return page.replace("</head>", f"{head}</head>")


def answers(reading: Reading, routes: Sequence[Route]) -> dict[str, Any]:
    """What the service would answer, by address."""
    found: dict[str, Any] = {"/api/session": {"role": "viewer"}}
    handlers = {route.path: route.handler for route in routes if route.method == "GET"}
    for path in PLAIN:
        with suppress(NotFound, AnabranchError):
            found[path] = handlers[path]()
    page = reading.queries(limit=MOST_QUERIES)
    found["/api/queries"] = page
    for query in page["queries"]:
        path = f"/api/queries/{quote(query['name'], safe='')}"
        with suppress(NotFound, AnabranchError):
            found[path] = reading.query(query["name"])
            found[f"{path}/rows"] = reading.rows(query["name"], limit=ROWS)
    for id in reading.hub.filters():
        with suppress(NotFound, AnabranchError):
            found[f"/api/filters/{quote(id, safe='')}"] = reading.filter(id)
            found[f"/api/traces/{quote(id, safe='')}"] = reading.traces(id)
    for each in reading.joins():
        found[f"/api/joins/{quote(each['query'], safe='')}"] = reading.joined_rows(each["query"])
    return found


def _module(text: str) -> str:
    """A module whose imports are known to the import map."""
    return IMPORT.sub(r'\1 "console/\2"', text)


def _data(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def _embedded(value: Any) -> str:
    """JSON that cannot end the element that it is in."""
    return json.dumps(value, allow_nan=False, default=str).replace("<", "\\u003c")
