"""How the state of queries grows: a catalogue of queries with labels, and what `anabranch explain` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.explain import explain
from anabranch.cli.script_catalog import ScriptCatalog
from anabranch.cql.binder import bind
from anabranch.cql.dialect import parse
from anabranch.planning.memory_growth import state_of

STREAMS = """
Create Stream p (k Long, j Long, v Long, ts Timestamp) From 'parquet' With (path = 'p') Timestamp ts;
Create Stream c (k Long, j Long, v Long, ts Timestamp) From 'parquet' With (path = 'c') Timestamp ts;
"""
CATALOGUE = [
    ("Select p.v As v From p [Range 1 Hour], c [Rows 9] Where p.k = c.k", "join", "bounded"),
    ("Select p.v As v From p [Rows 5], c [Now] Where p.k = c.k", "join", "bounded"),
    ("Select p.v As v From p [Rows Unbounded], c [Rows 9] Where p.k = c.k", "join", "without bound"),
    ("Select p.v As v From p [Partition By k Rows 1], c [Rows 9] Where p.k = c.k", "join", "with the keys"),
    ("Select p.v As v From p [Partition By k Rows 1], c [Rows 9]", "window of rows", "with the keys"),
    ("Select p.v As v From p [Rows 100], c [Rows 9]", "window of rows", "bounded"),
    ("Select k, Count(*) As n From p [Range 1 Hour] Group By k", "groups", "bounded"),
    ("Select k, Count(*) As n From p [Rows Unbounded] Group By k", "groups", "with the keys"),
    ("Select Count(*) As n From p [Rows Unbounded]", "groups", "bounded"),
    ("Select Distinct k From p [Rows Unbounded]", "distinct", "with the keys"),
    ("Select Distinct k From p [Range 1 Hour]", "distinct", "bounded"),
    ("Select k From p [Rows Unbounded]", "relation", "without bound"),
    ("Select k From p [Range 1 Minute]", "relation", "bounded"),
    (
        "Select k, Max(v) As m From (Select Distinct k, v From p [Rows Unbounded]) d Group By k",
        "groups",
        "with the keys",
    ),
]


@pytest.mark.parametrize(("text", "title", "growth"), CATALOGUE)
def test_the_state_of_a_query_grows_as_the_label_says(text: str, title: str, growth: str) -> None:
    script = ScriptCatalog()
    for statement in parse(STREAMS):
        script.register(statement)
    state = state_of(bind(text, script.catalog, "query").plan, title)
    assert state.growth == growth
    assert bool(state.hint) == (growth != "bounded")


def test_a_file_is_explained_without_an_engine(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "queries.cql"
    query = "Create Query q As Select p.v As v From p [Rows Unbounded], c [Rows 9] Where p.k = c.k;"
    file.write_text(f"{STREAMS}{query}\nExplain Memory;")
    explain(file, said.append)
    assert [line.split() for line in said[-1].splitlines() if " join " in line] == [
        "q join the rows of p (unbounded), c (rows 9) without bound give p a window, as in [Range 1 Hour]".split()
    ]
