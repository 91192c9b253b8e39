"""Queries with state that differ in constants alone: one plan over the rows that some of them want.

Such a query selects rows of a stream, in windows over time, and groups them. Without the constants of its conditions
it is a *template*: a plan over another stream, that of *matches*, in which each row is found once for every query that
wants it, with the number of the query in a column. That column joins whatever a plan groups by, as the key of a rule
does (`cql/templates.py`): queries of a template have nothing in common but the operators that run them.

>>> from anabranch.logical_plan import Aggregation
>>> plan = Aggregate(
...     Window(Filter(Scan("s", "stream", (("k", "k_1"), ("v", "v_2"))), (Scalar.parsed("`v_2` > 3"),)), span=9),
...     ("k_1",),
...     (Aggregation("n_3", "count"),),
... )
>>> template, values = query_template(Query("q", plan, ("k", "n")), {"k": pa.string(), "v": pa.int64()})
>>> [str(each) for each in template.probes], values, template.query.plan.columns
(['v > :_constant0'], (3,), ('k_1', '_query', 'n_3'))

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from anabranch.expressions import Scalar
from anabranch.logical_plan import (
    Aggregate,
    Distinct,
    Filter,
    Plan,
    Project,
    Query,
    Scan,
    ToStream,
    Window,
    user_functions,
)
from anabranch.operators.base import TIME
from anabranch.planning.constants import CONSTANT, taken_out
from anabranch.planning.index_look_up import IndexLookUp
from anabranch.planning.probes import Probe
from anabranch.planning.rules import rewrite, with_inputs
from anabranch.rules.factors import Op

MEMBER = "_query"
"""The column with the number of the query that wants a row."""
SINCE = "_since"
"""The column, in the table of constants, with the time from which on a query sees rows."""


@dataclass(frozen=True)
class QueryTemplate:
    """What queries with state are that differ in constants.

    Parameters
    ----------
    query
        What each of them asks, of its matches: `MEMBER` is among the columns.
    stream
        The stream that they read.
    schema
        Of the stream's columns that are read of matches.
    probes, kinds
        How columns are compared with constants, and the types of these.
    safe
        Conditions that all have, and that cannot fail, on columns of the stream.
    """

    query: Query
    stream: str
    schema: pa.Schema
    probes: tuple[Probe, ...]
    kinds: tuple[pa.DataType, ...]
    safe: tuple[Scalar, ...]

    @property
    def matches(self) -> str:
        """The name of the stream of matches: equal for queries of one template."""
        return self.query.streams[0]

    @property
    def matched(self) -> pa.Schema:
        """The columns of matches, with their times."""
        return pa.schema([*self.schema, pa.field(MEMBER, pa.int32()), pa.field(TIME, pa.int64())])

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the stream from which matches are found."""
        return tuple(dict.fromkeys([*self.schema.names, *(probe.attribute for probe in self.probes), TIME]))

    def index(self, members: Sequence[tuple[int, int, tuple[Any, ...]]]) -> IndexLookUp:
        """Finds matches, given the number of each query, the time from which on it sees rows, and its constants."""
        values = {
            probe.columns[0]: pa.array([each[2][place] for each in members], kind)
            for place, (probe, kind) in enumerate(zip(self.probes, self.kinds, strict=True))
        }
        numbers, since = [each[0] for each in members], [each[1] for each in members]
        # All began before the rows that one of them sees, unless it began later than another.
        begins = (Probe(TIME, Op.AT_LEAST, (SINCE,)),) if len(set(since)) > 1 else ()
        table = pa.table({**values, SINCE: pa.array(since, pa.int64()), MEMBER: pa.array(numbers, pa.int32())})
        return IndexLookUp.over(table, (), (*self.probes, *begins))


def query_template(query: Query, types: Mapping[str, pa.DataType]) -> tuple[QueryTemplate, tuple[Any, ...]] | None:
    """A query as a template and its constants; None if there is none.

    Parameters
    ----------
    query
        Bound.
    types
        Those of the columns of its stream.
    """
    nodes = _chain(rewrite(query.plan))
    taken = [name for name in types if name in (MEMBER, SINCE) or name.startswith(CONSTANT)]
    if nodes is None or len(nodes) < 3 or taken or user_functions(query.plan):
        return None
    scan, conditions, *above = nodes
    if not isinstance(scan, Scan) or not isinstance(conditions, Filter) or not isinstance(above[0], Window):
        return None
    there = {unique: name for name, unique in scan.renamed}
    found = taken_out(conditions.conditions, {unique: types[name] for unique, name in there.items()})
    if not found.probes:
        return None
    probes = tuple(replace(probe, attribute=there[probe.attribute]) for probe in found.probes)
    read = _read([Filter(scan, found.rest), *above])
    kept = tuple((name, unique) for name, unique in scan.renamed if read is None or unique in read)
    below = [Filter(scan, found.rest)] if found.rest else []
    made: Plan = Scan("", "stream", (*kept, (MEMBER, MEMBER)))
    for node in (*below, *above):
        made = _with_member(with_inputs(node, (made,)))
    schema = pa.schema([(name, types[name]) for name, _ in kept])
    about = (made, query.output, probes, [*map(str, found.kinds)], [*map(str, schema)])
    name = f"{scan.name}.{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"
    safe = tuple(each.renamed(there) for each in found.rest if not each.may_fail)
    template = Query(name, _over(made, name), query.output)
    return QueryTemplate(template, scan.name, schema, probes, found.kinds, safe), found.values


def _chain(plan: Plan) -> list[Plan] | None:
    """The nodes of a plan, inputs first, if it is a chain of those that treat the rows of each query by themselves."""
    match plan:
        case Scan(kind="stream"):
            return [plan]
        case ToStream(kind="istream" | "dstream"):
            below = _chain(plan.input)
            return None if below is None else [*below, plan]
        case Filter() | Project() | Distinct():
            pass
        case Aggregate() if plan.keys:
            pass
        case Window() if plan.by_time:
            pass
        case _:
            return None
    below = _chain(plan.input)
    return None if below is None or isinstance(below[-1], ToStream) else [*below, plan]


def _read(nodes: Sequence[Plan]) -> set[str] | None:
    """The columns of the stream that are read; None for all."""
    read: set[str] = set()
    for node in nodes:
        match node:
            case Filter():
                read.update(name for each in node.conditions for name in each.columns)
            case Project():
                return read | {name for _, scalar in node.items for name in scalar.columns}
            case Aggregate():
                return read | {*node.keys, *(each.argument for each in node.aggregations if each.argument)}
            case _:
                pass
    return None


def _with_member(node: Plan) -> Plan:
    """A node that keeps the rows of each query apart."""
    match node:
        case Project():
            return replace(node, items=(*node.items, (MEMBER, Scalar.reading(MEMBER))))
        case Aggregate():
            return replace(node, keys=(*node.keys, MEMBER))
        case _:
            return node


def _over(plan: Plan, name: str) -> Plan:
    """The plan over a stream of this name."""
    if isinstance(plan, Scan):
        return replace(plan, name=name)
    return with_inputs(plan, tuple(_over(each, name) for each in plan.inputs))
