"""What the API answers to those who look: each method is one address, and returns plain values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anabranch
from anabranch.console.hub import BUILT_IN, Hub, TickValues
from anabranch.console.results import Results, plain
from anabranch.cql.problems import KEYWORDS
from anabranch.cql.rendering import mermaid, render
from anabranch.model.names import without_number
from anabranch.operators.base import EVER

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine

MOST_NODES = 400
MOST_OPERATORS, MOST_JOINS = 300, 100
SHOWN_TEXT = 400


class NotFound(Exception):
    """There is nothing of this name."""


class Reading:
    """Reads what the hub has seen, and answers of queries.

    Parameters
    ----------
    hub
        Looks at the engine.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._results = None if hub.engine is None else Results(hub.engine)

    @property
    def engine(self) -> Engine:
        """The engine, if there is one."""
        if self.hub.engine is None:
            raise NotFound("this console watches filters; there is no engine")
        return self.hub.engine

    def overview(self) -> dict[str, Any]:
        """Counts of all there is, and what adaptivity has saved."""
        seen = self.hub.seen
        found = seen.overview or {}
        statuses: dict[str, int] = {}
        for query in found.get("queries", ()):
            statuses[query["status"]] = statuses.get(query["status"], 0) + 1
        return {
            "version": anabranch.__version__,
            "engine": self.hub.engine is not None,
            "began": self.hub.began,
            "now": time.time(),
            "tick": seen.tick,
            "cells": found.get("cells"),
            "decisions": seen.cards,
            "failed": seen.failed,
            "failure": seen.failure,
            "counts": {kind: len(found.get(kind, ())) for kind in ("streams", "relations", "views", "queries")},
            "statuses": statuses,
            "filters": len(self.hub.filters()),
            "saved": self.hub.totals(),
            "console_seconds": self.hub.looked_seconds,
        }

    def streams(self) -> list[Any]:
        """Streams, and how far each is."""
        return list(self._found("streams"))

    def relations(self) -> list[Any]:
        """Relations and views."""
        views = [{**each, "view": True} for each in self._found("views")]
        return [*({**each, "view": False} for each in self._found("relations")), *views]

    def aside(self, name: str, kind: str, limit: int = 100) -> dict[str, Any]:
        """Rows of a stream that came too late, or that have no usable time."""
        self._named("streams", name)
        df = self.engine.late(name) if kind == "late" else self.engine.unusable(name)
        rows = [[plain(value) for value in row] for row in df.limit(limit).collect()]
        columns = [{"name": each.name, "type": each.dataType.simpleString()} for each in df.schema.fields]
        return {"columns": columns, "rows": rows, "total": len(rows), "kind": kind}

    def queries(self, search: str = "", status: str = "", offset: int = 0, limit: int = 100) -> dict[str, Any]:
        """Queries whose name or text has some words, a page of them."""
        words = search.lower().split()
        found = [
            each
            for each in self._found("queries")
            if (not status or each["status"] == status)
            and all(word in each["name"].lower() or word in each["text"].lower() for word in words)
        ]
        page = [{**each, "text": each["text"][:SHOWN_TEXT]} for each in found[offset : offset + limit]]
        return {"total": len(found), "offset": offset, "queries": page}

    def query(self, name: str) -> dict[str, Any]:
        """All about a query."""
        found = self._named("queries", name)
        handle = self.engine.queries.get(name)
        if handle is None:
            raise NotFound(f"there is no query {name!r}")
        filters = [id for id in self.hub.filters() if id.startswith(f"{name}/")]
        rules = self.engine.rule_sets.get(name)
        return {
            **found,
            "plan": handle.explain(),
            "filters": filters,
            "sink": None if handle.sink is None else type(handle.sink).__name__.lower(),
            "retain": handle.retain,
            "rules": None if rules is None else rules.relation,
        }

    def rows(self, name: str, limit: int = 100, changes: bool = False) -> dict[str, Any]:
        """The answer of a query: the latest rows of a stream, or those that a relation has now."""
        found = self._named("queries", name)
        assert self._results is not None
        return self._results.rows(found, limit, changes=changes)

    def rules(self) -> list[dict[str, Any]]:
        """Templates with rules."""
        if self.hub.engine is None:
            return []
        return [
            {
                "name": name,
                "relation": each.relation,
                "key": each.key,
                "text": each.query.text,
                "status": each.query.status,
                "columns": [(f.name, f.dataType.simpleString()) for f in self.engine.schema_of(each.relation).fields],
            }
            for name, each in self.engine.rule_sets.items()
        ]

    def rule_rows(self, name: str, limit: int = 100) -> dict[str, Any]:
        """The rules of a template."""
        rules = self.engine.rule_sets.get(name)
        if rules is None:
            raise NotFound(f"there are no rules {name!r}")
        df = rules.to_dataframe()
        rows = [[plain(value) for value in row] for row in df.limit(limit).collect()]
        columns = [{"name": each.name, "type": each.dataType.simpleString()} for each in df.schema.fields]
        return {"columns": columns, "rows": rows, "total": rules.count(), "kind": "relation"}

    def plan(self, query: str = "", minutes: float = 5) -> dict[str, Any]:
        """The network with its sharing: rates, times and state of operators, as averages over some minutes."""
        network = self.hub.seen.network
        if network is None:
            raise NotFound("there is no engine")
        nodes, edges = network["nodes"], network["edges"]
        if query:
            self._named("queries", query)
            keep = _upstream(f"query:{query}", edges)
            nodes = [each for each in nodes if each["id"] in keep]
        total = len(nodes)
        nodes = nodes[:MOST_NODES]
        shown = {each["id"] for each in nodes}
        history = self._recent(minutes)
        facts = self._facts(history)
        return {
            "nodes": [{**each, **facts.get(each["id"], {})} for each in nodes],
            "edges": [list(edge) for edge in edges if edge[0] in shown and edge[1] in shown],
            "total": total,
            "ticks": len(history),
            "minutes": minutes,
        }

    def plan_of(self, name: str) -> dict[str, Any]:
        """The logical plan of a query: as text, and as a Mermaid chart."""
        self._named("queries", name)
        handle = self.engine.queries.get(name)
        if handle is None:
            raise NotFound(f"there is no query {name!r}")
        return {"name": name, "text": render(handle.query.plan), "mermaid": mermaid(handle.query)}

    def events(self, after: str = "", kind: str = "", filter: str = "", limit: int = 200) -> dict[str, Any]:
        """Decisions and failures, newest first; `after` is the id of one, and asks for those behind it."""
        cards = list(self.hub.cards)
        if after:
            at = next((n for n, card in enumerate(cards) if card["id"] == after), -1)
            cards = cards[at + 1 :]
        cards = [
            card for card in cards if (not kind or card["kind"] == kind) and (not filter or card["filter"] == filter)
        ]
        shown = list(reversed(cards[-limit:]))
        since = {id: self.hub.since(id) for id in {card["filter"] for card in shown}}
        found = [{**card, "since": since[card["filter"]].get(card["number"])} for card in shown]
        return {"total": len(cards), "events": found}

    def filters(self) -> list[dict[str, Any]]:
        """Filters with what they have measured."""
        return list(self.hub.reports().values())

    def filter(self, id: str) -> dict[str, Any]:
        """A filter, and its plan after each of its decisions."""
        filters = self.hub.filters()
        if id not in filters:
            raise NotFound(f"there is no filter {id!r}")
        return {**self.hub.report(id, filters[id]), "frames": self.hub.frames(id)}

    def traces(self, id: str) -> dict[str, Any]:
        """The rows of a filter that were traced last, newest first."""
        filters = self.hub.filters()
        if id not in filters:
            raise NotFound(f"there is no filter {id!r}")
        of = filters[id]
        named = without_number if self.hub.is_of_query(id) else str
        rows = [
            {**asdict(each), "values": [(named(name), value) for name, value in each.values]}
            for each in reversed(of.traces())
        ]
        return {"id": id, "share": of.trace_share, "written": [p.name for p in of.predicates], "traces": rows}

    def joins(self) -> list[dict[str, Any]]:
        """Queries whose joins can be traced, with the names of what they join."""
        if self.hub.engine is None:
            return []
        queries = dict(self.engine.queries)
        return [
            {"query": name, "joins": inputs, "share": queries[name].join_trace}
            for name, inputs in self.engine.joined().items()
            if name in queries
        ]

    def joined_rows(self, name: str) -> dict[str, Any]:
        """The rows of a query's joins that were traced last, newest first, with the partners that they met."""
        handle = self.engine.queries.get(name)
        if handle is None:
            raise NotFound(f"there is no query {name!r}")
        rows = [
            {**asdict(each), "time": None if each.time == EVER else each.time, "missed": each.missed}
            for each in reversed(handle.joined_rows())
        ]
        return {"query": name, "share": handle.join_trace, "rows": rows}

    def history(
        self, query: str = "", entity: str = "", property: str = "", minutes: float = 15, limit: int = 600
    ) -> dict[str, Any]:
        """Properties over time, a series for each that matches; each point is the end of a tick."""
        ticks = self._recent(minutes)
        series: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
        for tick in ticks[-limit:]:
            for key, value in tick.values.items():
                if (
                    (not query or key[0] == query)
                    and (not entity or key[1] == entity)
                    and key[2] == (property or key[2])
                ):
                    series.setdefault(key, []).append((tick.time, plain(float(value))))
        return {
            "ticks": len(ticks),
            "series": [
                {"query": key[0] or None, "entity": key[1], "property": key[2], "points": points}
                for key, points in series.items()
            ],
        }

    def state(self) -> dict[str, Any]:
        """Who holds how many rows and bytes, and why: the operators that hold most, and the sums of all."""
        operators = sorted(self._found("operators"), key=lambda each: -each["held_bytes"])
        return {
            "operators": operators[:MOST_OPERATORS],
            "total": len(operators),
            "held_rows": sum(each["held_rows"] for each in operators),
            "held_bytes": sum(each["held_bytes"] for each in operators),
            "streams": [each for each in self._found("streams") if each["name"] not in BUILT_IN],
            "joins": self._joins_keep(),
            "state_bytes": None if self.hub.engine is None else self.hub.engine.state_bytes,
        }

    def catalog(self) -> dict[str, Any]:
        """Names for completion."""
        found = self.hub.seen.overview or {}
        inputs = [*found.get("streams", ()), *found.get("relations", ())]
        return {
            "inputs": {each["name"]: [name for name, _ in each["columns"]] for each in inputs},
            "views": [each["name"] for each in found.get("views", ())],
            "queries": {each["name"]: list(each["columns"]) for each in found.get("queries", ())[:1000]},
            "functions": list(found.get("functions", ())),
            "keywords": [*KEYWORDS, "Range", "Rows", "Now", "Slide", "Partition", "Unbounded", "Count", "Sum", "Avg"],
        }

    def advice(self) -> dict[str, Any]:
        """What a change of queries would save."""
        return asdict(self.engine.advise())

    def metrics(self) -> dict[str, Any]:
        """Figures of streams, queries and filters, as `/metrics` has them."""
        found = self.hub.seen.overview or {}
        chosen = ("name", "status", "rows", "lag", "state_rows", "state_bytes", "seconds")
        return {
            "tick": self.hub.seen.tick,
            "streams": [
                {key: each[key] for key in ("name", "rows", "late", "unusable", "buffered")}
                for each in found.get("streams", ())
            ],
            "queries": [{key: each[key] for key in chosen} for each in found.get("queries", ())],
            "filters": [
                {key: each[key] for key in ("id", "policy", "rows", "evaluations", "seconds")}
                for each in self.hub.reports().values()
            ],
            "decisions": self.hub.seen.cards,
        }

    def _joins_keep(self) -> list[dict[str, Any]]:
        """Caches of joins, and the constraints by which joins let rows go."""
        kept = []
        for each in self.joins()[:MOST_JOINS]:
            handle = self.engine.queries.get(each["query"])
            report = None if handle is None else handle.report()
            if report is not None and (report.caches or report.constraints):
                lines = [line for found in report.constraints for line in str(found).splitlines()]
                caches = [asdict(cache) for cache in report.caches]
                kept.append({"query": each["query"], "caches": caches, "constraints": lines})
        return kept

    def _found(self, kind: str) -> Sequence[Mapping[str, Any]]:
        overview = self.hub.seen.overview
        return () if overview is None else overview[kind]

    def _named(self, kind: str, name: str) -> Mapping[str, Any]:
        for each in self._found(kind):
            if each["name"] == name:
                return each
        raise NotFound(f"there is no {name!r} among the {kind}")

    def _recent(self, minutes: float) -> list[TickValues]:
        since = time.time() - 60 * minutes
        return [each for each in self.hub.history() if each.time >= since]

    def _facts(self, history: Sequence[TickValues]) -> dict[str, dict[str, Any]]:
        """What is known about nodes of the network, by their ids."""
        seconds = sum(each.values.get(("", "engine", "seconds"), 0.0) for each in history)
        facts: dict[str, dict[str, Any]] = {}
        for each in self._found("operators"):
            facts[f"operator:{each['node']}"] = {
                **{key: each[key] for key in ("queries", "held_rows", "held_bytes", "segments")},
                **_operator_means(each, history, seconds),
            }
        for each in self._found("streams"):
            rates = [tick.values.get(("", f"stream {each['name']}", "rate")) for tick in history]
            known = [rate for rate in rates if rate is not None]
            mean = sum(known) / len(known) if known else None
            facts[f"stream:{each['name']}"] = {
                "queries": each["readers"],
                "rate": mean,
                **{key: each[key] for key in ("rows", "late", "unusable", "buffered", "newest", "skew")},
            }
        for each in self._found("queries"):
            lags = [tick.values.get((each["name"], "query", "lag")) for tick in history]
            known = [lag for lag in lags if lag is not None]
            facts[f"query:{each['name']}"] = {
                **{key: each[key] for key in ("status", "rows", "error", "position")},
                "queries": [each["name"]],
                "lag": sum(known) / len(known) if known else None,
            }
        return facts


def _operator_means(operator: Mapping[str, Any], history: Sequence[TickValues], seconds: float) -> dict[str, Any]:
    """Averages of an operator over ticks; it is published once for every query that uses it."""
    query = operator["queries"][0]
    sums = {"rows in": 0.0, "rows out": 0.0, "seconds": 0.0}
    for tick in history:
        for (owner, entity, name), value in tick.values.items():
            if owner == query and name in sums and entity.rpartition(" ")[0] == operator["title"]:
                sums[name] += value
    rows_in, rows_out, busy = sums.values()
    return {
        "rows_in": rows_in,
        "rows_out": rows_out,
        "selectivity": rows_out / rows_in if rows_in else None,
        "seconds": busy,
        "share": busy / seconds if seconds else None,
    }


def _upstream(node: str, edges: Sequence[Sequence[str]]) -> set[str]:
    """A node, and all from which rows reach it."""
    found, todo = {node}, [node]
    while todo:
        here = todo.pop()
        new = [one for one, other in edges if other == here and one not in found]
        found.update(new)
        todo += new
    return found
