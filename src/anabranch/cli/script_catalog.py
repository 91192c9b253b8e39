"""What the statements of a script register, without Spark and without reading any rows."""

from __future__ import annotations

from itertools import count
from typing import Any

from sqlglot import exp

from anabranch.cql import statements as cql
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, folded
from anabranch.cql.templates import instantiated
from anabranch.errors import QueryError
from anabranch.formats import DESCRIBES_ITSELF
from anabranch.logical_plan import Query

KNOWN_COLUMNS = {
    "rate": ("timestamp", "value"),
    "rate-micro-batch": ("timestamp", "value"),
    "socket": ("value",),
    "kafka": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
}
MORE_COLUMNS = {"socket": {"includetimestamp": "timestamp"}, "kafka": {"includeheaders": "headers"}}


class ScriptCatalog:
    """Streams, relations, views and queries of a script, by name; `created` has the statements of its streams."""

    def __init__(self) -> None:
        from anabranch.engine import sysqueries, sysstream

        self.created: dict[str, cql.CreateStream] = {}
        self.queries: dict[str, Query] = {}
        self._streams = {sysstream.NAME: tuple(sysstream.SCHEMA.names)}
        self._relations = {sysqueries.NAME: tuple(sysqueries.SCHEMA.names)}
        self._views: dict[str, str | exp.Query] = {}

    @property
    def catalog(self) -> Catalog:
        """What the next statement may name."""
        return Catalog(self._streams, self._relations, self.queries, self._views)

    def free_name(self) -> str:
        """A name for a query that has none, as a run of the script gives it."""
        taken = {name.lower() for name in self.catalog.names()}
        return next(name for n in count(len(self.queries) + 1) if (name := f"query_{n}") not in taken)

    def register(self, statement: cql.Statement) -> None:
        """Know from now on what a statement creates, and no longer what it drops."""
        match statement:
            case cql.CreateStream():
                self.created[statement.name] = statement
                self._streams[statement.name] = columns_of(statement)
            case cql.CreateRelation():
                self._relations[statement.name] = columns_of(statement)
            case cql.CreateView(name, _, ast):
                bind(ast, self.catalog, name)
                self._views[name] = ast
            case cql.RelationFromStream(name):
                bind(statement.text, self.catalog, name)
                self._views[name] = statement.text
            case cql.CreateQuery(name, _, ast):
                self.queries[name] = bind(self._instantiated(ast, statement.for_each), self.catalog, name)
            case cql.DropStatement(kind, name):
                known: dict[str, dict[str, Any]] = {"stream": self._streams, "relation": self._relations}
                known |= {"query": self.queries, "view": self._views}
                del known[kind][self.catalog.own_name(kind, name)]
                self.created = {name: each for name, each in self.created.items() if name in self._streams}
            case _:
                pass

    def _instantiated(self, ast: exp.Query, for_each: tuple[str, str] | None) -> exp.Query:
        if for_each is None:
            return ast
        relation = self.catalog.own_name("relation", for_each[1])
        columns = self._relations[relation]
        return instantiated(ast, relation, folded(for_each[0], columns), columns)


def columns_of(statement: cql.CreateStream | cql.CreateRelation) -> tuple[str, ...]:
    """The columns of a stream or relation: as declared, or as its source always has them."""
    form, options = statement.format.lower(), {key.lower(): value.lower() for key, value in statement.options}
    if statement.columns:
        return tuple(name for name, _ in statement.columns)
    if form in KNOWN_COLUMNS:
        more = [name for option, name in MORE_COLUMNS.get(form, {}).items() if options.get(option) == "true"]
        return (*KNOWN_COLUMNS[form], *more)
    describes_itself = form in DESCRIBES_ITSELF
    declared = f"declare them: Create ... {statement.name} (k Long, ts Timestamp) From ..."
    raise QueryError(
        f"the columns of {statement.name!r} are not known before it is read",
        hint="write Explain into the file, and run it" if describes_itself else declared,
    )
