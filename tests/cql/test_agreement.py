"""Random queries over random streams: the engine says what the definition says, at every instant, however rows come."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.cql.dialect import parse_query
from anabranch.model.continuous import Query
from cql.generate import random_case
from cql.local import LocalEngine
from cql.oracle import Oracle
from cql.streams import Case, Row

CASES = 50_000 if os.environ.get("ANABRANCH_SOAK") else 2000
CHUNK = 100


def bound(case: Case) -> Query:
    streams = {stream.name: tuple(name for name, _ in stream.columns) for stream in case.streams}
    relations = {relation.name: tuple(name for name, _ in relation.columns) for relation in case.relations}
    return bind(case.query, Catalog(streams, relations), "q")


def expected(case: Case) -> Counter[Row]:
    oracle, ast = Oracle(case.streams, case.relations), parse_query(case.query)
    if oracle.is_stream(ast):
        return Counter({(*row, 1): n for row, n in oracle.answer(ast).items()})
    return oracle.changes(ast)


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_the_engine_agrees_with_the_definition(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        case = random_case(seed)
        folder = tmp_path / str(seed) if seed % 5 == 0 else None
        got = LocalEngine(case, bound(case), folder, few_codes=seed % 7 == 0).answer()
        want = expected(case)
        assert got == want, f"seed {seed}: {case.query}\n{case}\nmissing {want - got}\nextra {got - want}"
