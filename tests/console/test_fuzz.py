"""Random requests, most of which fit the description of the API: none ends in an error of the service."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from console.stage import Client, Stage
from seeds import daily_seed

pytestmark = pytest.mark.spark
NAMES = [
    "busy",
    "picked",
    "calls",
    "names",
    "picked/1",
    "nothing",
    "Select",
    "",
    "x" * 300,
    "ü",
    "\x00",
    "../x",
    "a b",
    "%",
    "1",
]
TEXTS = [
    "Select host From calls",
    "Select host, Count(*) As n From calls [Range 1 Minute] Group By host",
    "Select From",
    "Show Queries",
    "Select nothing From calls [Range",
    "'",
    "((((",
    "Select 1/0 From calls [Now]",
    "Create View v As Select * From v",
    "Insert Into names Values ('a', 1, 2)",
    "Delete From names Where nonsense = 1",
    "Explain busy",
    "Pause busy; Resume busy",
    "Select * From calls [Rows -1]",
    "\u2028",
]


def some(schema: dict[str, Any], chance: random.Random) -> Any:
    """A value that often fits a schema."""
    kind = schema.get("type")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if chance.random() < 0.06:
        return chance.choice([None, 7, -1, 1e308, "", [], {}, True, "x" * 5000, [[]], {"a": {}}])
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if kind == "object":
        wanted = schema.get("properties", {})
        required = schema.get("required", [])
        return {key: some(each, chance) for key, each in wanted.items() if key in required or chance.random() < 0.4}
    if kind == "array":
        return [some(schema.get("items", {}), chance) for _ in range(chance.randrange(3))]
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -5), min(schema.get("maximum", 500), 500)
        return chance.choice([low, high, 1, low - 1, chance.uniform(low, high), int(chance.uniform(low, high))])
    if kind == "boolean":
        return chance.random() < 0.5
    return chance.choice(TEXTS if schema.get("maxLength", 0) > 1000 else NAMES)


def ask(client: Client, described: dict[str, Any], chance: random.Random) -> tuple[str, int]:
    """A random request to a random address: the address and the status."""
    path, methods = chance.choice(list(described["paths"].items()))
    method, about = chance.choice(list(methods.items()))
    params = {}
    for each in about["parameters"]:
        value = some(each["schema"], chance)
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote(str(value), safe="") or "x")
        elif chance.random() < 0.5:
            params[each["name"]] = value
    body = None
    if "requestBody" in about:
        body = some(about["requestBody"]["content"]["application/json"]["schema"], chance)
        if chance.random() < 0.05:
            body = chance.choice([b"", b"{", b"\xff", b"null", b'{"text": "\\ud800"}'])
    asked = f"{path}?{urlencode(params)}" if params else path
    reply = client.ask(method.upper(), asked, body)
    if "application/json" in reply.headers["content-type"]:
        json.loads(reply.body)
    return f"{method} {asked} {body!r}", reply.status


@pytest.mark.parametrize(
    "requests",
    [150, pytest.param(10_000, marks=[pytest.mark.full(reason="10,000 requests"), pytest.mark.timeout(3000)])],
)
def test_no_request_is_too_much(stage: Stage, requests: int) -> None:
    chance = random.Random(daily_seed())
    described = stage.viewer.get("/api/openapi.json")
    failed = []
    for _ in range(requests):
        said, status = ask(stage.operator, described, chance)
        if status >= 500:
            failed.append((status, said))
    assert not failed
    assert stage.viewer.ask("GET", "/api/overview").status == 200
