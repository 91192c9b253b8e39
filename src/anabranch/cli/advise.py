"""`anabranch advise`: what a change of a file's queries or streams would save, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from anabranch.cli import files
from anabranch.cli.script_catalog import ScriptCatalog, columns_of
from anabranch.cli.tables import rich_table
from anabranch.cql import statements as cql
from anabranch.cql.binder import bind
from anabranch.cql.catalog import folded
from anabranch.cql.dialect import parse
from anabranch.errors import QueryError
from anabranch.model.stream_times import Arrival
from anabranch.workload.advice import NOTHING, AdviceReport
from anabranch.workload.advice import advise as advise_workload
from anabranch.workload.findings import StreamFacts, Workload

TITLES = ("advice", "why", "change")


def advise(file: Path, console: Console, *, json_path: Path | None = None) -> int:
    """Print a table of findings; with `json_path`, write them with the features of all queries, too."""
    if json_path is not None:
        files.make_room(json_path)
    report = advise_workload(_workload(files.read(file), file.name))
    if json_path is not None:
        json_path.write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    _show(report, console)
    return 0


def _workload(text: str, name: str) -> Workload:
    """The queries of a script as a run would register them."""
    script = ScriptCatalog()
    for statement in parse(text):
        script.register(statement)
        if isinstance(statement, cql.SelectStatement):
            own = script.free_name()
            script.queries[own] = bind(statement.ast, script.catalog, own)
    if not script.queries:
        raise QueryError(f"{name} has no query", hint="add one: Create Query name As Select ...")
    return Workload(list(script.queries.values()), {name: _facts(each) for name, each in script.created.items()})


def _facts(statement: cql.CreateStream) -> StreamFacts:
    from anabranch.engine.durations import duration

    columns = dict(statement.columns) or dict.fromkeys(columns_of(statement), "")
    given = [value for key, value in statement.options if key.lower() == "retain"]
    sequence = statement.sequence
    return StreamFacts(
        columns,
        None if isinstance(statement.timestamp, Arrival) else folded(statement.timestamp, list(columns)),
        None if sequence is None else folded(sequence, list(columns)),
        duration(given[0], "retain") if given else statement.retain_us or 0,
        statement.format,
        bool(statement.columns),
    )


def _show(report: AdviceReport, console: Console) -> None:
    if report.findings:
        rows = [(each.kind, escape(f"{each.what}: {each.why}"), escape(each.change)) for each in report.findings]
        console.print(rich_table(TITLES, rows, left=TITLES))
    else:
        console.print(NOTHING)
    for note in report.notes():
        console.print(note, markup=False, highlight=False)
