"""Bodies of requests are checked against the part of JSON Schema that the OpenAPI description of the service uses.

>>> schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 3}}}
>>> validate({"name": "abcd"}, schema)
Traceback (most recent call last):
    ...
anabranch.console.validation.Invalid: name: at most 3 characters
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class Invalid(Exception):
    """A value that does not fit."""


def validate(value: Any, schema: Schema, where: str = "") -> None:
    """Refuse a value that does not fit a schema."""
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise Invalid(f"{where or 'the body'}: {' or '.join(kinds)} is expected")
    if "enum" in schema and value not in schema["enum"]:
        raise Invalid(f"{where}: one of {', '.join(map(str, schema['enum']))} is expected")
    if isinstance(value, str):
        _validate_text(value, schema, where)
    elif isinstance(value, dict):
        _validate_object(value, schema, where)
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            raise Invalid(f"{where}: at most {schema['maxItems']} items")
        for at, each in enumerate(value):
            validate(each, schema.get("items", {}), f"{where}[{at}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            raise Invalid(f"{where}: a number from {low} to {high} is expected")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _validate_text(value: str, schema: Schema, where: str) -> None:
    if len(value) < schema.get("minLength", 0):
        raise Invalid(f"{where}: at least {schema['minLength']} characters")
    if len(value) > schema.get("maxLength", len(value)):
        raise Invalid(f"{where}: at most {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Invalid(f"{where}: it has to match {schema['pattern']}")


def _validate_object(value: dict[str, Any], schema: Schema, where: str) -> None:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise Invalid(f"{name} is missing")
    for name, each in value.items():
        if name in known:
            validate(each, known[name], f"{where}.{name}" if where else name)
        elif schema.get("additionalProperties") is False:
            raise Invalid(f"{name[:100]} is unknown")
