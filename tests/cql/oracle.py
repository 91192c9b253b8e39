"""What a continuous query means, evaluated from the definition: at every instant anew, over the full history.

An instant fixes what each window holds, and with that the query is an ordinary SQL query over ordinary tables, which
DuckDB runs. Nothing is incremental and nothing is shared with the engine under test; a result is only remembered for
the next instant at which all windows hold the same rows.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

import duckdb
import sqlglot
from sqlglot import exp

from anabranch.cql.functions import is_aggregate
from cql.streams import Columns, Relation, Row, Stream

StreamKind: TypeAlias = Literal["istream", "dstream", "rstream"]

SIGNIFICANT_DIGITS = 9
AS_GOOD_AS_ZERO = 1e-9
NUMBER = "_number"

_table_numbers = itertools.count()


def normalised(row: Iterable[Any]) -> Row:
    """A row whose floats are rounded, so that two ways to compute a deviation agree."""
    return tuple(_rounded(value) if isinstance(value, float) else value for value in row)


def _rounded(value: float) -> float:
    return 0.0 if abs(value) < AS_GOOD_AS_ZERO else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


@dataclass(frozen=True)
class Window:
    """A window in microseconds and rows; the same fields as the dialect's."""

    span: int | None = None
    rows: int | None = None
    partition: tuple[str, ...] = ()
    slide: int | None = None
    slide_rows: int | None = None

    @property
    def unbounded(self) -> bool:
        """Whether it holds all rows, if not at once: what has entered stays."""
        return self.span is None and self.rows is None


@dataclass(frozen=True)
class _Element:
    time: int
    values: Row


@dataclass(frozen=True)
class _Elements:
    """A stream's elements in the order that `[Rows N]` counts, in a table that numbers them from 0."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[_Element, ...]

    def held(self, window: Window, instant: int) -> tuple[int, ...]:
        """Numbers of the elements that a window holds at an instant."""
        moved = instant if window.slide is None else instant // window.slide * window.slide
        by = [self.columns.index(name.lower()) for name in window.partition]
        partitions: dict[Row, list[int]] = defaultdict(list)
        for number, row in enumerate(self.rows):
            if row.time <= moved:
                partitions[tuple(row.values[place] for place in by)].append(number)
        held: list[int] = []
        for so_far in partitions.values():
            seen = len(so_far) if window.slide_rows is None else len(so_far) // window.slide_rows * window.slide_rows
            first = 0 if window.rows is None else max(0, seen - window.rows)
            held += [
                number
                for number in so_far[first:seen]
                if window.span is None or self.rows[number].time >= moved - window.span
            ]
        return tuple(sorted(held))

    def moves(self, window: Window) -> Iterator[int]:
        """Instants at which what the window holds may change."""
        for row in self.rows:
            for instant in (row.time,) if window.span is None else (row.time, row.time + window.span + 1):
                yield instant if window.slide is None else -(-instant // window.slide) * window.slide


@dataclass(frozen=True)
class _Versions:
    """The rows that a relation has at some time, in a table that numbers them from 0."""

    table: str
    columns: tuple[str, ...]
    lives: tuple[tuple[int | None, int | None], ...]

    def held(self, _: Window, instant: int) -> tuple[int, ...]:
        """Numbers of the rows that are there at an instant."""
        return tuple(
            number
            for number, (start, end) in enumerate(self.lives)
            if (start is None or start <= instant) and (end is None or instant < end)
        )

    def moves(self, _: Window) -> Iterator[int]:
        """Instants at which it changes."""
        yield from (time for life in self.lives for time in life if time is not None)


@dataclass
class _Prepared:
    """A query whose windows, and relations that change, are holes in a text of SQL."""

    sql: str
    kind: StreamKind | None
    inputs: list[tuple[Window, _Elements | _Versions]]
    arrivals: list[int]  # times of the rows of all streams below
    slides: set[int]
    end: int
    known: dict[tuple[tuple[int, ...], ...], Counter[Row]] = field(default_factory=dict)

    @property
    def origin(self) -> int | None:
        return self.arrivals[0] if self.arrivals else None

    @property
    def instants(self) -> list[int]:
        """Instants at which the relation may change."""
        moves = {instant for window, elements in self.inputs for instant in elements.moves(window)}
        moves.update(self.arrivals)
        return sorted(instant for instant in moves if self.origin is not None and self.origin <= instant <= self.end)

    @property
    def beats(self) -> list[int]:
        """Instants at which `Rstream` emits."""
        if self.origin is None or not self.slides:
            return self.arrivals
        ranges = (range(-(-self.origin // slide) * slide, self.end + 1, slide) for slide in self.slides)
        return sorted(set(itertools.chain.from_iterable(ranges)))

    def at(self, instant: int) -> Counter[Row]:
        """The relation at an instant."""
        if self.origin is None or instant < self.origin:
            return Counter()
        held = tuple(elements.held(window, instant) for window, elements in self.inputs)
        if held not in self.known:
            self.known[held] = Counter(map(normalised, _duckdb().execute(self.filled(held)).fetchall()))
        return self.known[held]

    def filled(self, held: Iterable[tuple[int, ...]]) -> str:
        """The SQL where the windows hold these elements."""
        text = self.sql
        for number, places in enumerate(held):
            text = text.replace(_hole(number), ", ".join(map(str, places)) or "NULL")
        return text

    def columns(self) -> Columns:
        """Name and type of the relation's columns."""
        described = _duckdb().execute("DESCRIBE " + self.filled(() for _ in self.inputs)).fetchall()
        return tuple((name, kind) for name, kind, *_ in described)

    def changes(self) -> Iterator[tuple[int, Counter[Row], Counter[Row]]]:
        """Per instant what enters the relation and what leaves it."""
        before: Counter[Row] = Counter()
        for instant in self.instants:
            now = self.at(instant)
            yield instant, now - before, before - now
            before = now

    def emitted(self, kind: StreamKind) -> Iterator[tuple[int, Counter[Row]]]:
        """The elements of the stream, per instant."""
        if kind == "rstream":
            yield from ((instant, self.at(instant)) for instant in self.beats)
        else:
            yield from ((instant, new if kind == "istream" else old) for instant, new, old in self.changes())


class Oracle:
    """Answers to continuous queries over streams and relations that are known in full.

    Queries are trees of sqlglot in which a table or subquery may have `meta["window"]` and a select or set operation
    `meta["to_stream"]`. A stream within a query, in whatever place, is a query of its own: it has its own origin, and
    is evaluated up to the end of the whole.

    >>> import sqlglot
    >>> oracle = Oracle([Stream("s", (("k", "bigint"),), ((0, 5, 1), (1, 5, 2), (2, 9, 1)))])
    >>> query = sqlglot.parse_one("SELECT k, count(*) AS n FROM s GROUP BY k", dialect="spark")
    >>> sorted(oracle.relation_at(query, 9).items())
    [((1, 2), 1), ((2, 1), 1)]
    >>> sorted(oracle.answer(query))
    [(1, 1, 5, 1), (1, 1, 9, -1), (1, 2, 9, 1), (2, 1, 5, 1)]
    """

    def __init__(self, streams: Iterable[Stream], relations: Iterable[Relation] = ()) -> None:
        self._tables: list[str] = []
        weakref.finalize(self, _drop, self._tables).atexit = False
        self._streams = {stream.name.lower(): stream for stream in streams}
        self._elements = {name: self._stored(stream) for name, stream in self._streams.items()}
        self._relations = {each.name.lower(): self._versions(each) for each in relations}
        self._changing = {each.name.lower() for each in relations if each.changes}
        self._prepared: dict[int, tuple[exp.Expr, _Prepared]] = {}

    def is_stream(self, ast: exp.Expr) -> bool:
        """Whether the answer is a stream."""
        return self._kind(ast) is not None

    def origin(self, ast: exp.Expr) -> int | None:
        """The first time of the query's streams, before which there is nothing at all; None if they are empty."""
        return self._prepare(ast).origin

    def instants(self, ast: exp.Expr) -> list[int]:
        """All instants at which the query's relation may change, up to the last time of its streams."""
        return self._prepare(ast).instants

    def relation_at(self, ast: exp.Expr, instant: int) -> Counter[Row]:
        """R(t), also of a query that makes a stream of it."""
        return self._prepare(ast).at(instant).copy()

    def changes(self, ast: exp.Expr) -> Counter[Row]:
        """Rows `(values..., instant, +1 or -1)` of what enters and leaves the query's relation."""
        changes: Counter[Row] = Counter()
        for instant, new, old in self._prepare(ast).changes():
            changes.update({(*row, instant, 1): count for row, count in new.items()})
            changes.update({(*row, instant, -1): count for row, count in old.items()})
        return changes

    def answer(self, ast: exp.Expr) -> Counter[Row]:
        """Rows `(values..., instant)` of a query that is a stream, else its changes."""
        prepared = self._prepare(ast)
        if prepared.kind is None:
            return self.changes(ast)
        answer: Counter[Row] = Counter()
        for instant, rows in prepared.emitted(prepared.kind):
            answer.update({(*row, instant): count for row, count in rows.items()})
        return answer

    def _prepare(self, ast: exp.Expr) -> _Prepared:
        _, prepared = self._prepared.get(id(ast), (ast, None))
        if prepared is None:
            prepared = self._bound(ast, max(self._arrivals(ast), default=0))
            self._prepared[id(ast)] = (ast, prepared)  # the tree is kept, and with it its id
        return prepared

    def _arrivals(self, ast: exp.Expr) -> list[int]:
        names = {table.name.lower() for table in ast.find_all(exp.Table)} & set(self._streams)
        return sorted({row[1] for name in names for row in self._streams[name].rows})

    def _bound(self, ast: exp.Expr, end: int) -> _Prepared:
        """Replace every stream by a subquery for what its window holds."""
        tree = ast.unnest().copy()
        inputs: list[tuple[Window, _Elements | _Versions]] = []
        local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for node in list(_leaves(tree)):
            name = node.name.lower() if isinstance(node, exp.Table) else None
            if name in local:
                if _window(node) != Window():
                    raise NotImplementedError(f"a window over {name!r} of With")
            else:
                leaf = self._relations[name] if name in self._relations else self._leaf(node, end)
                node.replace(_in_place_of(node, _selection(leaf, len(inputs))))
                inputs.append((_window(node), leaf))
        for call in list(tree.find_all(exp.Anonymous))[::-1]:
            call.replace(sqlglot.parse_one(call.sql(dialect="spark"), dialect="spark"))
        for each in list(tree.find_all(exp.ApproxQuantile)):
            each.replace(exp.func("quantile_disc", each.this, each.args["quantile"], dialect="duckdb"))
        slides = {slide for node in ast.unnest().walk() if (slide := _window(node).slide) is not None}
        return _Prepared(tree.sql(dialect="duckdb"), self._kind(ast), inputs, self._arrivals(ast), slides, end)

    def _kind(self, ast: exp.Expr) -> StreamKind | None:
        read = {table.name.lower() for table in ast.find_all(exp.Table)}
        return stream_kind(ast, monotone=not read & self._changing)

    def _leaf(self, node: exp.Expr, end: int) -> _Elements:
        if isinstance(node, exp.Table):
            if node.name.lower() not in self._elements:
                raise LookupError(f"no stream or relation {node.name!r}")
            return self._elements[node.name.lower()]
        prepared = self._bound(node, end)
        if prepared.kind is None:
            raise ValueError(f"a window over a relation: {node.sql()}")
        rows = [_Element(time, row) for time, rows in prepared.emitted(prepared.kind) for row in rows.elements()]
        return self._numbered(prepared.columns(), sorted(rows, key=lambda row: (row.time, _by_value(row.values))))

    def _stored(self, stream: Stream) -> _Elements:
        def place(row: Row) -> Row:
            return (row[1], row[0]) if stream.sequenced else (row[1], _by_value(row[2:]))

        rows = sorted(stream.rows, key=place)
        return self._numbered(stream.columns, [_Element(time, tuple(values)) for _, time, *values in rows])

    def _versions(self, relation: Relation) -> _Versions:
        found = relation.versions
        rows = [(*row, number) for number, (row, _, _) in enumerate(found)]
        table = self._table((*relation.columns, (NUMBER, "bigint")), rows)
        names = tuple(name.lower() for name, _ in relation.columns)
        return _Versions(table, names, tuple((start, end) for _, start, end in found))

    def _numbered(self, columns: Columns, rows: Sequence[_Element]) -> _Elements:
        numbered = [(*row.values, number) for number, row in enumerate(rows)]
        table = self._table((*columns, (NUMBER, "bigint")), numbered)
        return _Elements(table, tuple(name.lower() for name, _ in columns), tuple(rows))

    def _table(self, columns: Columns, rows: Sequence[Row]) -> str:
        name = f"_table_{next(_table_numbers)}"
        declared = ", ".join(f'"{column}" {kind}' for column, kind in columns)
        _duckdb().execute(f"CREATE TABLE {name} ({declared})")
        self._tables.append(name)
        if rows:
            row = f"({', '.join('?' for _ in columns)})"
            values = list(itertools.chain.from_iterable(rows))
            _duckdb().execute(f"INSERT INTO {name} VALUES {', '.join([row] * len(rows))}", values)
        return name


def stream_kind(ast: exp.Expr, *, monotone: bool = True) -> StreamKind | None:
    """How a query makes a stream of its relation; None if its answer is the relation.

    A query that only ever gains rows is an `Istream` if it says nothing else, unless what it reads is not `monotone`.
    """
    query = ast.unnest()
    written: StreamKind | None = query.meta.get("to_stream")
    return written or ("istream" if monotone and _is_monotone(query) else None)


def _is_monotone(query: exp.Expr) -> bool:
    leaves = list(_leaves(query))
    if not all(_window(leaf).unbounded for leaf in leaves):
        return False
    inner = {id(leaf) for leaf in leaves}
    return not any(_may_lose_rows(node) for node in query.walk(prune=lambda node: id(node) in inner))


def _may_lose_rows(node: exp.Expr) -> bool:
    if isinstance(node, exp.Join):
        return bool(node.side) or node.kind == "ANTI"
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        above = node.parent
        while isinstance(above, exp.And | exp.Or | exp.Paren):
            above = above.parent
        return not isinstance(above, exp.Where | exp.Join)
    return is_aggregate(node) or isinstance(
        node, exp.AggFunc | exp.Group | exp.Having | exp.Except | exp.Window | exp.Limit
    )


def _leaves(query: exp.Expr) -> Iterator[exp.Expr]:
    """Tables of a query, and streams within it; what is inside of those is theirs."""

    def is_leaf(node: exp.Expr) -> bool:
        if isinstance(node, exp.Table) or "window" in node.meta:
            return True
        return node is not query and "to_stream" in (node.unnest() if isinstance(node, exp.Subquery) else node).meta

    yield from (node for node in query.walk(prune=is_leaf) if is_leaf(node))


def _window(node: exp.Expr) -> Window:
    spec = node.meta.get("window")
    return Window() if spec is None else Window(spec.span, spec.rows, spec.partition, spec.slide, spec.slide_rows)


def _selection(elements: _Elements | _Versions, number: int) -> exp.Select:
    columns = [exp.column(name, quoted=True) for name in elements.columns]
    return exp.select(*columns).from_(elements.table).where(exp.column(NUMBER).isin(exp.column(_hole(number))))


def _in_place_of(node: exp.Expr, selection: exp.Select) -> exp.Expr:
    if not isinstance(node, exp.Table | exp.Subquery):
        return selection
    alias = node.args.get("alias")
    if alias is None and isinstance(node, exp.Table):
        alias = exp.TableAlias(this=exp.to_identifier(node.name))
    return exp.Subquery(this=selection, alias=alias, joins=node.args.get("joins"))


def _hole(number: int) -> str:
    return f"__window_{number}__"


def _by_value(values: Row) -> Row:
    """A key that sorts rows by their values from left to right, NULLs last."""
    return tuple((value is None, value) for value in values)


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """The one connection; plans of a few rows are not worth an optimizer."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("PRAGMA disable_optimizer")
    atexit.register(_duckdb.cache_clear)  # DuckDB complains of connections that are left
    return connection


def _drop(tables: Iterable[str]) -> None:
    for table in tables:
        _duckdb().execute(f"DROP TABLE IF EXISTS {table}")
