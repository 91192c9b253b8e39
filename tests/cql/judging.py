"""Documented queries through the engine without Spark and through DuckDB: do they say the same, at several instants?"""

from __future__ import annotations

import atexit
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.errors import AnabranchError
from anabranch.logical_plan import Query
from cql.documented import Choices, Documented, World, documented, world
from cql.local import LocalEngine
from cql.oracle import normalised
from cql.streams import Case, Columns, Cuts, Row

SIGNIFICANT_DIGITS = 6
INSTANTS = 3
SHRINKING_STEPS = 200


def comparable(row: Iterable[Any]) -> Row:
    """A row whose numbers with a fraction are rounded, zero has no sign and NaN is itself."""
    return tuple(_comparable(value) for value in row)


def _comparable(value: Any) -> Any:
    if isinstance(value, int | str | None):
        return value
    try:
        number = float(value)
    except TypeError:
        return value
    return "NaN" if number != number else float(f"{number:.{SIGNIFICANT_DIGITS}g}") + 0.0


class Definition:
    """What DuckDB says of queries over a world."""

    def __init__(self, world: World) -> None:
        self.times = {stream.name: [row[1] for row in stream.rows] for stream in world.streams}
        for stream in world.streams:
            _fill(stream.name, (("_seq", "bigint"), ("_ts", "bigint"), *stream.columns), stream.rows)
        for relation in world.relations:
            _fill(relation.name, relation.columns, relation.rows)

    def instants(self, query: Documented) -> list[int]:
        """Times of the rows of the query's streams."""
        return sorted({time for name in query.streams for time in self.times[name]})

    def at(self, query: Documented, instant: int) -> Counter[Row]:
        """The query's relation."""
        times = self.instants(query)
        if not times or instant < times[0]:
            return Counter()
        found = _duckdb().execute(query.duck.replace("@t", str(instant))).fetchall()
        return Counter(comparable(normalised(row)) for row in found)  # rounded as the engine's answers are

    def difference(self, query: Documented, emitted: Counter[Row], rng: random.Random) -> str | None:
        """What rows `(values..., instant, +1 or -1)` say otherwise than DuckDB, at the end and at a few instants."""
        times = self.instants(query)
        if query.to_stream == "Rstream" and query.slides and times:
            beats = {
                each for slide in query.slides for each in range(-(-times[0] // slide) * slide, times[-1] + 1, slide)
            }
            times = sorted(beats)
        chosen = {*times[-1:], *rng.sample(times, min(len(times), INSTANTS - 1))}
        if query.to_stream != "Rstream" and times:
            chosen.add(rng.randint(times[0], times[-1]))
        if not self.instants(query) and emitted:
            return f"without a row of its streams it says {dict(emitted)}"
        for instant in sorted(chosen):
            want, got = self._expected(query, instant), _emitted(query, emitted, instant)
            if want != got:
                return f"at {instant}\nDuckDB: {_shown(want)}\n  ours: {_shown(got)}"
        return None

    def _expected(self, query: Documented, instant: int) -> Counter[Row]:
        now = self.at(query, instant)
        if query.to_stream == "Istream":
            return now - self.at(query, instant - 1)
        if query.to_stream == "Dstream":
            return self.at(query, instant - 1) - now
        return now


def _emitted(query: Documented, emitted: Counter[Row], instant: int) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for (*values, time, weight), count in emitted.items():
        if time == instant or (query.to_stream is None and time <= instant):
            out[tuple(values)] += weight * count
    return Counter({row: count for row, count in out.items() if count})


def _shown(rows: Counter[Row]) -> str:
    return str(sorted(map(repr, rows.elements())) if all(n > 0 for n in rows.values()) else dict(rows))


def bound(world: World, query: Documented) -> Query:
    """The query, bound to the world's inputs and to what it defines."""
    streams = {stream.name: tuple(name for name, _ in stream.columns) for stream in world.streams}
    relations = {relation.name: tuple(name for name, _ in relation.columns) for relation in world.relations}
    catalog = Catalog(streams, relations)
    for each in query.definitions:
        if each.is_view:
            catalog = replace(catalog, views={**catalog.views, each.name: each.cql})
        else:
            catalog = replace(catalog, queries={**catalog.queries, each.name: bind(each.cql, catalog, each.name)})
    return bind(query.cql, catalog, "q")


def refused(query: Documented, error: Exception) -> bool:
    """Whether an error is one that the documents promise for this query."""
    return isinstance(error, AnabranchError) and any(re.search(each, str(error)) for each in query.refusals)


@dataclass(frozen=True)
class Judged:
    """What was found about one draw."""

    draw: Sequence[Sequence[int]]
    found: str | None
    kind: str = ""


def judged(draw: Sequence[Choices]) -> Judged:
    """A world and a query of these choices: what the engine without Spark and DuckDB say differently."""
    inputs, query = world(draw[0]), documented(draw[1])
    cells = 1 + draw[2].below(3)
    cuts: dict[str, tuple[int, ...]] = {}
    for stream in inputs.streams:
        first = draw[2].below(len(stream.rows) + 1)
        cuts[stream.name] = (first, len(stream.rows) - first)
    found, kind = None, ""
    definition = Definition(inputs)
    try:
        case = Case(inputs.streams, inputs.relations, query.cql, Cuts(cuts, cells))
        emitted: Counter[Row] = Counter()
        for row, count in LocalEngine(case, bound(inputs, query)).answer().items():
            emitted[(*comparable(row[:-2]), *row[-2:])] += count
        found = definition.difference(query, emitted, random.Random(draw[2].below(1000)))
        kind = "difference"
    except duckdb.Error as error:
        found, kind = f"{type(error).__name__}: {error}", type(error).__name__
    except Exception as error:
        kind = re.sub(r"at line.*|'[^']*'", "", f"{type(error).__name__}: {str(error).splitlines()[0]}")
        found = None if refused(query, error) else f"{type(error).__name__}: {error}"
    if found is not None:
        listed = "\n".join(
            f"{each.name} ({'view' if each.is_view else 'query'}): {each.cql}" for each in query.definitions
        )
        data = "\n".join(map(str, (*inputs.streams, *inputs.relations)))
        found = f"{query.cql}\n{listed}\nfor DuckDB: {query.duck}\n{data}\n{found}"
    return Judged([choices.taken for choices in draw], found, kind)


def drawn(seed: int) -> list[Choices]:
    """The choices of a seed: for the data, the query, and how it is run."""
    return [Choices(rng=random.Random(f"{seed} {part}")) for part in ("data", "query", "run")]


def difference(seed: int) -> str | None:
    """What is wrong with the case of a seed, in the smallest case that is wrong in the same way."""
    first = judged(drawn(seed))
    if first.found is None:
        return None
    return f"seed {seed}, again by cql.judging.difference({seed}):\n{smallest(first).found}"


def smallest(failing: Judged, judge: Callable[[Sequence[Choices]], Judged] = judged) -> Judged:
    """Take choices away and make them smaller, as long as it fails in the same way."""
    best, steps, improved = failing, 0, True
    while improved and steps < SHRINKING_STEPS:
        improved = False
        for candidate in _simpler(best.draw):
            steps += 1
            if steps >= SHRINKING_STEPS:
                break
            tried = judge([Choices(numbers) for numbers in candidate])
            if tried.found is not None and tried.kind == best.kind and _size(tried.draw) < _size(best.draw):
                best, improved = tried, True
                break
    return best


def _size(draw: Sequence[Sequence[int]]) -> tuple[int, int]:
    return sum(map(len, draw)), sum(map(sum, draw))


def _simpler(draw: Sequence[Sequence[int]]) -> Iterable[list[list[int]]]:
    for part, numbers in enumerate(draw):

        def instead(numbers: list[int], part: int = part) -> list[list[int]]:
            return [list(numbers) if place == part else list(each) for place, each in enumerate(draw)]

        for length in (len(numbers) // 2, 8, 3, 1):
            for start in range(0, len(numbers), max(1, length)) if length else ():
                yield instead([*numbers[:start], *numbers[start + length :]])
        for place, number in enumerate(numbers):
            if number:
                yield instead([*numbers[:place], 0, *numbers[place + 1 :]])
        for place, number in enumerate(numbers):
            if number > 1:
                yield instead([*numbers[:place], number // 2, *numbers[place + 1 :]])


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("PRAGMA disable_optimizer")
    atexit.register(_duckdb.cache_clear)  # DuckDB complains of connections that are left
    return connection


def _fill(name: str, columns: Columns, rows: Sequence[Row]) -> None:
    declared = ", ".join(f'"{column}" {kind}' for column, kind in columns)
    _duckdb().execute(f'CREATE OR REPLACE TABLE "{name}" ({declared})')
    if rows:
        places = f"({', '.join('?' * len(columns))})"
        _duckdb().execute(
            f'INSERT INTO "{name}" VALUES {", ".join([places] * len(rows))}', [v for row in rows for v in row]
        )
