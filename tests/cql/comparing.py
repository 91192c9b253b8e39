"""One random case through the engine without Spark and through the oracle; a module of its own, for other processes."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.cql.dialect import parse_query
from anabranch.logical_plan import Query
from anabranch.planning.placement import chosen
from anabranch.planning.reading import JoinPlan
from cql.generate import cases, random_case
from cql.local import LocalEngine
from cql.oracle import Oracle
from cql.placing import random_place
from cql.streams import Case, Row

EXAMPLES = 100
"""Cases that Hypothesis makes from one seed."""


def bound(case: Case) -> Query:
    """The case's query, bound to its streams and relations."""
    streams = {stream.name: tuple(name for name, _ in stream.columns) for stream in case.streams}
    relations = {relation.name: tuple(name for name, _ in relation.columns) for relation in case.relations}
    changing = [relation.name for relation in case.relations if relation.changes]
    return bind(case.query, Catalog(streams, relations, changing=changing), "q")


def expected(case: Case) -> Counter[Row]:
    """What the definition says."""
    oracle, ast = Oracle(case.streams, case.relations), parse_query(case.query)
    if oracle.is_stream(ast):
        return Counter({(*row, 1): n for row, n in oracle.answer(ast).items()})
    return oracle.changes(ast)


def difference(number: int) -> str | None:
    """What the two say differently about the case of a seed."""
    found = disagreement(random_case(number), number)
    return found and f"seed {number}: {found}"


def smallest_difference(number: int) -> str | None:
    """What the two say differently about the smallest such case that Hypothesis finds from a seed on."""

    @seed(number)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(), st.integers(0, 3 * 4 * 5 * 7 - 1))
    def agree(case: Case, variant: int) -> None:
        found = disagreement(case, variant)
        assert found is None, found

    try:
        agree()
    except AssertionError as error:
        return f"Hypothesis, seed {number}: {error}"
    return None


def disagreement(case: Case, number: int) -> str | None:
    """What the two say differently about a case.

    By number, every third switches plans between ticks, every fifth loses its memory, in every seventh hash codes
    collide, every fourth joins by a tree of joins of two, and in every second rows of joins go to cells at random.
    """
    switches = random.Random(number) if number % 3 == 0 else None
    join: JoinPlan = "xjoin" if number % 4 == 0 else "auto"
    with tempfile.TemporaryDirectory(prefix="anabranch-case-") as folder:
        log = Path(folder) if number % 5 == 0 else None
        few = number % 7 == 0
        place = random_place(random.Random(number)) if number % 2 else chosen
        got = LocalEngine(case, bound(case), log, few_codes=few, switches=switches, join=join, place=place).answer()
    want = expected(case)
    return None if got == want else f"{case}\nmissing {want - got}\nextra {got - want}"
