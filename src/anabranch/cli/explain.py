"""`anabranch explain`: the plans of a file's queries, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anabranch.cli import files
from anabranch.cli.script_catalog import ScriptCatalog
from anabranch.cql import statements as cql
from anabranch.cql.binder import bind
from anabranch.cql.dialect import parse
from anabranch.cql.rendering import mermaid, render
from anabranch.logical_plan import Query
from anabranch.planning.memory_growth import states
from anabranch.tables import text_table


def explain(file: Path, say: Callable[[str], None]) -> None:
    """Print the plans of a file's queries, as text and as Mermaid, without running anything."""
    script = ScriptCatalog()
    for statement in parse(files.read(file)):
        script.register(statement)
        text = _explained(statement, script)
        if text is not None:
            say(text)


def _explained(statement: cql.Statement, script: ScriptCatalog) -> str | None:
    """What a statement has to say."""
    match statement:
        case cql.CreateQuery(name):
            return f"{name}\n{_plan(script.queries[name])}"
        case cql.Explain(str(name)):
            own = script.catalog.own_name("query", name)
            return f"{own}\n{_plan(script.queries[own])}"
        case cql.SelectStatement(_, ast) | cql.Explain(cql.SelectStatement(_, ast)):
            return _plan(bind(ast, script.catalog, "query"))
        case cql.Show("memory"):
            return _memory(script)
    return None


def _memory(script: ScriptCatalog) -> str:
    """What the operators of all queries keep, and how that grows."""
    found = [(name, *each) for name, query in script.queries.items() for each in states(query.plan)]
    rows = [(name, title, state.keeps, state.growth, state.hint) for name, title, state in found]
    titles = ("query", "operator", "keeps", "grows", "hint")
    return f"{text_table(titles, rows, left=titles)}\n"


def _plan(query: Query) -> str:
    return f"{render(query.plan)}\n\n{mermaid(query)}\n"
