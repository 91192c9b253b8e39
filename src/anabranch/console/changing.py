"""What the API does for operators: queries, rules and statements come and go. All changes run one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.console.reading import NotFound, Reading
from anabranch.console.statements import allowed_statements, check_query
from anabranch.console.steering import Steering
from anabranch.cql import statements as cql
from anabranch.cql.dialect import parse
from anabranch.cql.problems import CQLError
from anabranch.cql.rendering import render
from anabranch.engine.query import ContinuousQuery
from anabranch.errors import AnabranchError, QueryError, in_a_line


class Changing:
    """Changes what is registered.

    Parameters
    ----------
    reading
        Knows the engine.
    steering
        Remembers changes that can be taken back.
    folders
        Below which files may be read and written for clients.
    """

    def __init__(self, reading: Reading, steering: Steering, folders: Sequence[Path]) -> None:
        self._reading = reading
        self._steering = steering
        self._folders = folders

    def check(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Whether a text is right: its errors, each with its place, and the plans of its queries."""
        text = wanted["text"]
        try:
            statements = allowed_statements(text, self._folders)
            plans = []
            for each in statements:
                tree = each.ast if isinstance(each, cql.SelectStatement | cql.CreateView) else None
                if isinstance(each, cql.CreateQuery) and each.for_each is None:
                    tree = each.ast
                if tree is not None:
                    plans.append(render(self._reading.engine.bind(tree).plan))
        except AnabranchError as error:
            return {"ok": False, "errors": [error_reply(error)], "plans": []}
        return {"ok": True, "errors": [], "plans": plans}

    def register(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Register a query, and start it unless told otherwise."""
        engine, text, name = self._reading.engine, wanted["text"], wanted["name"]
        check_query(text)
        found = parse(text)
        if len(found) != 1 or not isinstance(found[0], cql.SelectStatement):
            raise QueryError("a query is expected", hint="Select ... From ...")
        query = engine.query(text, name, history=wanted.get("history", False), share=wanted.get("share", True))
        if wanted.get("start", True):
            try:
                query.start(retain=wanted.get("retain"))
            except BaseException:
                engine.drop(name)
                raise
        return self._seen(name)

    def act(self, name: str, action: str) -> dict[str, Any]:
        """Start, pause, resume or stop a query."""
        query = self._query(name)
        if action in ("pause", "resume"):
            self._steering.change({"query": name, "status": "paused" if action == "pause" else "running"})
        elif action == "start":
            query.start()
        else:
            query.stop()
        return self._seen(name)

    def drop(self, name: str) -> dict[str, Any]:
        """Drop a query."""
        self._query(name)
        self._reading.engine.drop(name)
        self._reading.hub.look()
        return {"done": f"query {name} is dropped"}

    def statements(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out statements; queries that they create are started unless told otherwise."""
        engine, text = self._reading.engine, wanted["text"]
        found = allowed_statements(text, self._folders)
        before = set(engine.queries)
        said = engine.execute(found)
        new = [name for name in engine.queries if name not in before]
        if wanted.get("start", True):
            for name in new:
                engine.queries[name].start()
        self._reading.hub.look()
        return {"said": said, "queries": new}

    def new_rules(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Register a template."""
        check_query(wanted["text"])
        rules = self._reading.engine.rules(wanted["name"], wanted["text"], key=wanted.get("key", "rule"))
        if wanted.get("start", True):
            rules.start()
        return self._seen(rules.name)

    def add_rules(self, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Add rules to a template."""
        return {"added": self._rules(name).add_all(wanted["rules"])}

    def remove_rule(self, name: str, key: str) -> dict[str, Any]:
        """Remove a rule by its key."""
        removed = self._rules(name).remove(key)
        if not removed:
            raise NotFound(f"there is no rule {key!r}")
        return {"removed": removed}

    def steer(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Change a setting."""
        done = self._steering.change(wanted)
        self._reading.hub.look_anew()
        return {"done": done}

    def undo(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Take the last change of a setting back."""
        done = self._steering.undo()
        self._reading.hub.look_anew()
        return {"done": done}

    def _seen(self, name: str) -> dict[str, Any]:
        self._reading.hub.look()
        return self._reading.query(name)

    def _query(self, name: str) -> ContinuousQuery:
        query = self._reading.engine.queries.get(name)
        if query is None:
            raise NotFound(f"there is no query {name!r}")
        return query

    def _rules(self, name: str) -> Any:
        rules = self._reading.engine.rule_sets.get(name)
        if rules is None:
            raise NotFound(f"there are no rules {name!r}")
        return rules


def error_reply(error: BaseException) -> dict[str, Any]:
    """An error for clients: what, where, and a hint.

    >>> error_reply(CQLError("unknown column 'k'", source="Select k From s", start=7, end=7, hint="did you mean 'kk'?"))
    {'error': "unknown column 'k'", 'hint': "did you mean 'kk'?", 'line': 1, 'column': 8}
    """
    found: dict[str, Any] = {"error": in_a_line(error)}
    if isinstance(error, AnabranchError) and error.hint is not None:
        found["hint"] = error.hint
    if isinstance(error, CQLError) and error.line is not None:
        found["error"] = found["error"].rpartition(" at line ")[0]
        found |= {"line": error.line, "column": error.column}
    return found
