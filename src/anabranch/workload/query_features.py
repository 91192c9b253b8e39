"""What a query reads and does, as plain values: the features by which a workload is described.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("ts", "src", "dst", "size")})
>>> text = "Select dst, Sum(size) As s From packets [Range 1 Minute] Where size > 40 Group By dst"
>>> found = features(bind(text, catalog, "busy"))
>>> found.windows, found.columns, found.conditions, found.aggregates
(('packets [range 1 minute]',), ('packets.dst', 'packets.size'), ('packets.size > 40',), ('sum(packets.size)',))

Notes
-----
Table 1 of the report, the structural features of a query: *projection list* is `output`, *selection list* is
`conditions` and `condition_columns`, *from list* is `streams`, `relations` and `nested`, *aggregation* is `group_keys`,
`aggregates` and `aggregate_columns`.

*Differs from the paper*: there is no *order by* list, since CQL has no Order By. Windows are features, which SQL lacks.
Selectivities (Table 2) depend on the rows, and are measured: see SysStream.

References
----------
S. Papadomanolakis, M. Shao, *Characterizing Change in SQL Workloads*, HotDB 2002 (CMU), section 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.cql.bound_query import BoundQuery
from anabranch.cql.dialect import parse_query
from anabranch.logical_plan import (
    Aggregate,
    Aggregation,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Query,
    Scalar,
    Scan,
    Window,
    scans,
    walk,
)
from anabranch.model.names import quoted

_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class QueryFeatures:
    """The features of one query; columns are written `stream.column`, and each stands once.

    Parameters
    ----------
    name, text
        Of the query.
    streams, relations
        What it reads from.
    reads
        The columns that it reads of each of them.
    windows
        Each with its stream, as in `packets [range 1 minute]`.
    conditions
        Of Where and Having; those that only compare columns of two inputs are `joins`.
    condition_columns
        The columns in them.
    joins
        Comparisons by which rows are joined, and those of In and Exists.
    group_keys, aggregates
        What is grouped by, and what is computed of groups.
    aggregate_columns
        The columns in both.
    output
        Names of the answer's columns.
    nested
        How many queries stand within the query's text.
    """

    name: str
    streams: tuple[str, ...]
    relations: tuple[str, ...]
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    windows: tuple[str, ...]
    conditions: tuple[str, ...]
    condition_columns: tuple[str, ...]
    joins: tuple[str, ...]
    group_keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    aggregate_columns: tuple[str, ...]
    output: tuple[str, ...]
    nested: int = 0
    text: str = field(default="", repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return tuple(f"{source}.{_plain(name)}" for source, names in self.reads for name in names)


def features(query: Query) -> QueryFeatures:
    """The features of a bound query."""
    nodes, names = list(walk(query.plan)), ColumnNames(query.plan)
    tested = [each for node in nodes if isinstance(node, Filter) for each in node.conditions if _written(each, query)]
    groups = [node for node in nodes if isinstance(node, Aggregate)]
    keys = [name for node in groups for name in node.keys]
    computed = [each for node in groups for each in node.aggregations]
    arguments = [each.argument for each in computed if each.argument is not None]
    return QueryFeatures(
        query.name,
        tuple(scans(query.plan, "stream")),
        tuple(scans(query.plan, "relation")),
        tuple((source, _once(_read(nodes, source))) for source in _sources(nodes)),
        _once(f"{windowed_stream(node)} [{names.window(node)}]" for node in nodes if isinstance(node, Window)),
        _once(map(names.scalar, tested)),
        names.behind(name for each in tested for name in each.columns),
        _once(_joins(nodes, names)),
        _once(names.shown[name] for name in keys),
        _once(map(names.aggregation, computed)),
        names.behind([*keys, *arguments]),
        query.output,
        _nested(query.text),
        query.text,
    )


class ColumnNames:
    """Columns of a plan as people know them, and the columns of streams and relations from which each is computed."""

    def __init__(self, plan: Plan) -> None:
        self.shown: dict[str, str] = {}
        self._behind: dict[str, tuple[str, ...]] = {}
        for node in walk(plan):
            match node:
                case Scan():
                    for there, unique in node.renamed:
                        self.shown[unique] = f"{node.name}.{_plain(there)}"
                        self._behind[unique] = (self.shown[unique],)
                case Project():
                    for name, scalar in node.items:
                        self._know(name, self.scalar(scalar), scalar.columns)
                case Aggregate():
                    for each in node.aggregations:
                        self._know(each.name, self.aggregation(each), [each.argument] if each.argument else [])
                case _:
                    pass

    def _know(self, name: str, shown: str, made_of: Iterable[str]) -> None:
        self.shown.setdefault(name, shown)
        self._behind.setdefault(name, self.behind(made_of))

    def behind(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns of streams and relations from which some columns are computed."""
        return _once(each for name in names for each in self._behind.get(name, ()))

    def scalar(self, scalar: Scalar) -> str:
        """An expression as people know it."""
        return scalar.shown(self.shown)

    def aggregation(self, each: Aggregation) -> str:
        """An aggregate as people write it."""
        argument = "*" if each.argument is None else self.shown[each.argument]
        parameter = "" if each.parameter is None else f", {each.parameter:g}"
        return f"{each.function}({'distinct ' if each.distinct else ''}{argument}{parameter})"

    def window(self, window: Window) -> str:
        """A window in words, partitioned by columns as people know them."""
        return replace(window, partition=tuple(self.shown[name] for name in window.partition)).describe()


def _written(condition: Scalar, query: Query) -> bool:
    """Whether a condition is the user's: `Not In` adds tests for NULL of its own."""
    written = query.expressions.get(condition.sql) if isinstance(query, BoundQuery) else None
    return written is None or written.condition


def _joins(nodes: Iterable[Plan], names: ColumnNames) -> Iterator[str]:
    for node in nodes:
        match node:
            case Join():
                yield from (" = ".join(names.shown[name] for _, name in key) for key in node.keys)
            case Member():
                word = "not in" if node.negated else "in"
                yield from (f"{names.shown[one]} {word} {names.shown[other]}" for one, other in node.pairs)
            case _:
                pass


def _sources(nodes: Iterable[Plan]) -> list[str]:
    return list(dict.fromkeys(node.name for node in nodes if isinstance(node, Scan)))


def _read(nodes: Iterable[Plan], source: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Scan) and node.name == source:
            yield from (there for there, _ in node.renamed)


def windowed_stream(window: Window) -> str:
    """The stream of a window; a query in parentheses has no name."""
    plan: Plan = window.input
    while isinstance(plan, Filter):
        plan = plan.input
    return plan.name if isinstance(plan, Scan) else "(query)"


def _nested(text: str) -> int:
    return max(0, len(list(parse_query(text).find_all(exp.Select))) - 1) if text else 0


def _plain(name: str) -> str:
    return name if _PLAIN.match(name) else quoted(name)


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
