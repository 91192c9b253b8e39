"""`anabranch explain`: the plans of a file's queries, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlglot import exp

from anabranch.cli import files
from anabranch.cql import statements as cql
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, folded
from anabranch.cql.dialect import parse
from anabranch.cql.rendering import mermaid, render
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


def explain(file: Path, say: Callable[[str], None]) -> None:
    """Print the plans of a file's queries, as text and as Mermaid, without running anything."""
    from anabranch.engine import sysstream

    known: dict[str, dict[str, Any]] = {"stream": {}, "relation": {}, "query": {}, "view": {}}
    known["stream"][sysstream.NAME] = tuple(sysstream.SCHEMA.names)
    for statement in parse(files.read(file)):
        text = _explained(statement, known)
        if text is not None:
            say(text)


def _explained(statement: cql.Statement, known: dict[str, dict[str, Any]]) -> str | None:
    """What a statement has to say; what it registers is known from then on."""
    catalog = Catalog(known["stream"], known["relation"], known["query"], known["view"])
    match statement:
        case cql.CreateStream():
            known["stream"][statement.name] = _columns(statement)
        case cql.CreateRelation():
            known["relation"][statement.name] = _columns(statement)
        case cql.CreateView(name, _, ast):
            bind(ast, catalog, name)
            known["view"][name] = ast
        case cql.RelationFromStream(name):
            bind(statement.text, catalog, name)
            known["view"][name] = statement.text
        case cql.CreateQuery(name, _, ast):
            query = known["query"][name] = bind(_instantiated(ast, statement, catalog), catalog, name)
            return f"{name}\n{_plan(query)}"
        case cql.DropStatement(kind, name):
            del known[kind][catalog.own_name(kind, name)]
        case cql.Explain(str(name)):
            own = catalog.own_name("query", name)
            return f"{own}\n{_plan(known['query'][own])}"
        case cql.SelectStatement(_, ast) | cql.Explain(cql.SelectStatement(_, ast)):
            return _plan(bind(ast, catalog, "query"))
    return None


def _plan(query: Query) -> str:
    return f"{render(query.plan)}\n\n{mermaid(query)}\n"


def _columns(statement: cql.CreateStream | cql.CreateRelation) -> tuple[str, ...]:
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


def _instantiated(ast: exp.Query, statement: cql.CreateQuery, catalog: Catalog) -> exp.Query:
    if statement.for_each is None:
        return ast
    key, relation = statement.for_each
    own = catalog.own_name("relation", relation)
    columns = catalog.relations[own]
    return instantiated(ast, own, folded(key, columns), columns)
