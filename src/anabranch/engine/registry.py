"""Everything that is registered with an engine, as its parts see it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.engine.inputs import RelationInput, StreamInput
from anabranch.engine.query import ContinuousQuery
from anabranch.logical_plan import Query, scans, user_functions
from anabranch.model.prefixes import IN_NETWORK


@dataclass
class Registry:
    """Streams, relations, queries, views, and what functions return, by name."""

    streams: dict[str, StreamInput] = field(default_factory=dict)
    relations: dict[str, RelationInput] = field(default_factory=dict)
    queries: dict[str, ContinuousQuery] = field(default_factory=dict)
    views: dict[str, str | exp.Query] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=lambda: {IN_NETWORK: "boolean"})

    def fingerprint(self, query: Query) -> str:
        """Of a query's plan and its inputs: what one has kept serves no other."""
        plan = repr((query.plan, query.output))
        streams = [self.streams[name] for name in scans(query.plan, "stream")]
        inputs = [(each.name, each.df.schema.simpleString(), each.timestamp, each.sequence) for each in streams]
        tables = [(name, self.relations[name].df.schema.simpleString()) for name in scans(query.plan, "relation")]
        called = [(name, self.functions[name]) for name in user_functions(query.plan) if name in self.functions]
        return hashlib.sha256(repr((plan, inputs, tables, sorted(called))).encode()).hexdigest()[:16]
