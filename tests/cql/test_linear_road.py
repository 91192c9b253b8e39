"""Linear Road, whole, through the engine without Spark: every answer is that of the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from anabranch.benches.linearroad import RELATIONS, STREAMS, Inputs, Row, queries, validate
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.operators.constrained_join import ConstrainedJoin
from cql.local import LocalEngine, joins
from cql.streams import Case, Cuts, Relation, Stream
from linear_road_inputs import RULES, generated, hostile
from tiers import tiers

VIEWS = queries(RULES)
TICKS, CELLS = 4, 2


def small() -> Inputs:
    """For every tier."""
    return hostile(cars=24, ticks=24, segments=8)


@pytest.fixture(scope="module", params=tiers((small, hostile, generated), fast=1))
def given(request: pytest.FixtureRequest) -> Inputs:
    make: Callable[[], Inputs] = request.param
    return make()


@pytest.fixture(scope="module")
def simulated(given: Inputs) -> dict[str, Counter[Row]]:
    return validate(given, RULES)


def stream(name: str, table: pa.Table) -> Stream:
    columns = [column for column in table.column_names if column not in ("ts", "seq")]
    values = [table["seq"], table["ts"].cast(pa.int64()), *(table[column] for column in columns)]
    rows = zip(*(each.to_pylist() for each in values), strict=True)
    return Stream(name, tuple((column, "bigint") for column in columns), tuple(rows))


def case(given: Inputs) -> Case:
    """All of it, in some ticks."""
    tables = {"CarStr": given.cars, "AccBalQueryStr": given.balances, "ExpQueryStr": given.expenses}
    streams = tuple(stream(name, table) for name, table in tables.items())
    segments = Relation("AllSeg", (("sid", "bigint"),), tuple((sid,) for sid in given.segments["sid"].to_pylist()))
    batches = {name: spread(len(table)) for name, table in tables.items()}
    return Case(streams, (segments,), "", Cuts(batches, CELLS))


def spread(rows: int) -> tuple[int, ...]:
    return tuple(rows * (tick + 1) // TICKS - rows * tick // TICKS for tick in range(TICKS))


def engine_of(given: Inputs, name: str) -> LocalEngine:
    """For a block, with constraints wherever they can be followed."""
    asked = case(given)
    streams = {each.name: tuple(column for column, _ in each.columns) for each in asked.streams}
    others = {other: text for other, text in VIEWS.items() if other != name}
    query = bind(VIEWS[name], Catalog(streams, {"AllSeg": ("sid",)}, views=others), name)
    return LocalEngine(asked, query, constraints="exact")


def answer(engine: LocalEngine, given: Inputs) -> Counter[Row]:
    """Up to the last report."""
    last = max(given.cars["ts"].cast(pa.int64()).to_pylist())
    return Counter({row: n for row, n in engine.answer().items() if row[-2] <= last})


def why_kept_whole(engine: LocalEngine) -> set[str]:
    """What the joins of a block say about constraints."""
    operators = (each.operator._base for each in engine._cells.states.values())
    found = [join for each in operators for join in joins(each) if isinstance(join, ConstrainedJoin)]
    return {join.idle for join in found}


def signed(name: str, row: Row) -> Row:
    """With the weight that the engine gives it."""
    return (*row[:-1], {"+": 1, "-": -1}[str(row[-1])]) if name in RELATIONS else (*row, 1)


@pytest.mark.parametrize("name", [*RELATIONS, *STREAMS])
def test_answers_are_those_of_the_simulation(name: str, given: Inputs, simulated: dict[str, Counter[Row]]) -> None:
    engine = engine_of(given, name)
    assert answer(engine, given) == {signed(name, row): n for row, n in simulated[name].items()}
    assert simulated[name]
    assert all("may take rows back" in why for why in why_kept_whole(engine)), why_kept_whole(engine)
