"""The addresses of the API, in one table, from which the application and its OpenAPI description are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anabranch
from anabranch.console.changing import Changing
from anabranch.console.reading import Reading
from anabranch.console.steering import Steering

Handler = Callable[..., Any]
TEXT = {"type": "string", "minLength": 1, "maxLength": 100_000}
NAME = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[A-Za-z_][A-Za-z0-9_]*$"}
YES = {"type": "boolean"}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}
MINUTES = {"type": "number", "minimum": 0.1, "maximum": 1440}
WORDS = {"type": "string", "maxLength": 200}


SHARED = frozenset(
    f"/api/{path}"
    for path in (
        "overview",
        "streams",
        "queries",
        "queries/{name}/rows",
        "plans",
        "events",
        "filters",
        "history",
        "state",
    )
)
"""What open pages ask for again and again: answered once for all of them."""


def body(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Route:
    """An address.

    Parameters
    ----------
    method, path
        As in `GET /api/queries/{name}`.
    handler
        Takes the parameters of the path and of the query, and `wanted`, the body, if there is one.
    about
        What it does, in a line.
    params
        Schemas of the parameters behind the question mark.
    wanted
        The schema of the body.
    """

    method: str
    path: str
    handler: Handler
    about: str
    params: Mapping[str, Any] = field(default_factory=dict)
    wanted: Mapping[str, Any] | None = None

    @property
    def shared(self) -> bool:
        """Whether all clients get the same answer until there is something new."""
        return self.method == "GET" and self.path in SHARED

    @property
    def changes(self) -> bool:
        """Whether it changes something: it is noted in the audit log, and runs alone."""
        return self.method != "GET" and self.path != "/api/check"


def table(reading: Reading, changing: Changing, steering: Steering, audit: Callable[[], Any]) -> list[Route]:
    """All addresses that answer with JSON."""
    start = {"start": YES}
    config = {
        "profile_probability": {"type": "number", "minimum": 0, "maximum": 1},
        "window_tuples": {"type": "integer", "minimum": 1, "maximum": 10_000_000},
        "thrash_avoidance": {"type": "number", "minimum": 0, "maximum": 1},
    }
    rival = {
        **body(("policy",), policy=WORDS, order={"type": "array", "maxItems": 200, "items": WORDS}),
        "type": ["object", "null"],
    }
    setting = body(
        (),
        filter=WORDS,
        policy=WORDS,
        config=body((), **config),
        order={"type": "array", "maxItems": 200, "items": WORDS},
        trace={"type": "number", "minimum": 0, "maximum": 1},
        rival=rival,
        query=NAME,
        status={"type": "string", "enum": ["paused", "running"]},
        share=YES,
        stream=NAME,
        skew=WORDS,
        state_bytes={"type": ["integer", "null"], "minimum": 0, "maximum": 2**50},
        cache_bytes={"type": "integer", "minimum": 0, "maximum": 2**50},
    )
    values = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
    page = {"search": WORDS, "status": WORDS, "offset": {"type": "integer", "minimum": 0, "maximum": 10**9}}
    over_time = {"query": WORDS, "entity": WORDS, "property": WORDS, "minutes": MINUTES, "limit": LIMIT}
    return [
        Route("GET", "/api/overview", reading.overview, "Counts of all there is, and what adaptivity has saved"),
        Route("GET", "/api/streams", reading.streams, "Streams, and how far each is"),
        Route("GET", "/api/streams/{name}/{kind}", reading.aside, "Rows that came late, or unusable", {"limit": LIMIT}),
        Route("GET", "/api/relations", reading.relations, "Relations and views"),
        Route("GET", "/api/queries", reading.queries, "A page of the queries", {**page, "limit": LIMIT}),
        Route(
            "POST",
            "/api/queries",
            changing.register,
            "Register a query, and start it",
            wanted=body(("name", "text"), name=NAME, text=TEXT, history=YES, share=YES, retain=WORDS, **start),
        ),
        Route("GET", "/api/queries/{name}", reading.query, "All about a query"),
        Route("DELETE", "/api/queries/{name}", changing.drop, "Drop a query"),
        Route(
            "GET", "/api/queries/{name}/rows", reading.rows, "The answer of a query", {"limit": LIMIT, "changes": YES}
        ),
        Route("POST", "/api/queries/{name}/{action}", changing.act, "Start, pause, resume or stop a query"),
        Route("GET", "/api/rules", reading.rules, "Templates with rules"),
        Route(
            "POST",
            "/api/rules",
            changing.new_rules,
            "Register a template",
            wanted=body(("name", "text"), name=NAME, text=TEXT, key=NAME, **start),
        ),
        Route("GET", "/api/rules/{name}/rows", reading.rule_rows, "The rules of a template", {"limit": LIMIT}),
        Route(
            "POST",
            "/api/rules/{name}",
            changing.add_rules,
            "Add rules to a template",
            wanted=body(("rules",), rules={"type": "array", "maxItems": 1000, "items": values}),
        ),
        Route("DELETE", "/api/rules/{name}/{key}", changing.remove_rule, "Remove a rule"),
        Route("GET", "/api/plans", reading.plan, "The network with its sharing", {"query": WORDS, "minutes": MINUTES}),
        Route("GET", "/api/plans/{name}", reading.plan_of, "The logical plan of a query"),
        Route(
            "GET",
            "/api/events",
            reading.events,
            "Decisions and failures, newest first",
            {"after": WORDS, "kind": WORDS, "filter": WORDS, "limit": LIMIT},
        ),
        Route("GET", "/api/filters", reading.filters, "Filters, with what they have measured"),
        Route("GET", "/api/filters/{id:path}", reading.filter, "A filter, with its plan after each decision"),
        Route("GET", "/api/traces/{id:path}", reading.traces, "Rows of a filter that were traced"),
        Route("GET", "/api/joins", reading.joins, "Queries whose joins can be traced"),
        Route("GET", "/api/joins/{name}", reading.joined_rows, "Rows that were traced, with the partners they met"),
        Route("GET", "/api/history", reading.history, "Properties over time", over_time),
        Route("GET", "/api/state", reading.state, "Who holds how many rows and bytes"),
        Route("GET", "/api/metrics", reading.metrics, "Figures of streams, queries and filters"),
        Route("GET", "/api/catalog", reading.catalog, "Names for completion"),
        Route("GET", "/api/advice", reading.advice, "What a change of queries would save"),
        Route("GET", "/api/settings", steering.settings, "What can be changed, and how it is set"),
        Route("PATCH", "/api/settings", changing.steer, "Change a setting", wanted=setting),
        Route("POST", "/api/undo", changing.undo, "Take the last change of a setting back", wanted=body()),
        Route("GET", "/api/audit", audit, "The last changes that came over HTTP"),
        Route("POST", "/api/check", changing.check, "Check a text", wanted=body(("text",), text=TEXT)),
        Route(
            "POST",
            "/api/statements",
            changing.statements,
            "Carry out statements of CQL",
            wanted=body(("text",), text=TEXT, **start),
        ),
    ]


OF_PATH: dict[str, Mapping[str, Any]] = {
    "action": {"type": "string", "enum": ["start", "pause", "resume", "stop"]},
    "kind": {"type": "string", "enum": ["late", "unusable"]},
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string"},
        "hint": {"type": "string"},
        "line": {"type": "integer"},
        "column": {"type": "integer"},
    },
}


def openapi(routes: list[Route]) -> dict[str, Any]:
    """The OpenAPI description of the service."""
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        params = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": OF_PATH.get(name, {"type": "string", "minLength": 1}),
            }
            for name in names
        ]
        params += [
            {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in route.params.items()
        ]
        said: dict[str, Any] = {
            "summary": route.about,
            "operationId": route.handler.__name__ + ("" if route.method == "GET" else f"_{route.method.lower()}"),
            "parameters": params,
            "responses": {
                "200": {"description": "Done", "content": {"application/json": {"schema": {}}}},
                "default": {
                    "description": "Refused: what, where, and a hint",
                    "content": {"application/json": {"schema": ERROR}},
                },
            },
        }
        if route.wanted is not None:
            said["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.wanted}}}
        paths.setdefault(path, {})[route.method.lower()] = said
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Anabranch console", "version": anabranch.__version__},
        "paths": paths,
        "components": {"securitySchemes": schemes},
        "security": [{"token": []}],
    }
