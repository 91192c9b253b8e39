"""Linear Road: there is traffic worth a query, and the simulation agrees with a naive reading of the CQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from anabranch.benches.linearroad import QUERIES, Row, Rules, generate, queries, relation_at, validate
from anabranch.benches.linearroad.answers import ACTIVE, SECOND, SPEED_WINDOW

RULES = Rules(crowd=3)
TEXTS = queries(RULES)
RELATIONS, STREAMS = ("CurCarSeg", "AccSeg", "SegToll"), ("CarExitStr", "TollStr", "NegTollStr")
INSTANTS = 20
SOURCE = re.compile(r"(From |,\s+)(\w+)(?: \[([^]]*)\])?(?= As|[\s)]|$)")
STREAMED = re.compile(r"Select (Istream|Dstream|Rstream)\((.*)\)(?=\s+From)")


@pytest.fixture(scope="module", params=["generated", "hostile"])
def reports(request: pytest.FixtureRequest) -> pa.Table:
    """Some traffic, and reports that lie exactly at the borders of windows, speeds and distances."""
    if request.param == "hostile":
        return hostile(np.random.default_rng(5))
    return generate(minutes=12, cars=150, seed=7, crowd=3, accidents=12)


def hostile(rng: np.random.Generator, cars: int = 40, ticks: int = 40, segments: int = 14) -> pa.Table:
    """Cars that jump between few segments or stay, at the limits of speed, every 15 seconds or not."""
    ts, cid = (axis.ravel() for axis in np.meshgrid(np.arange(ticks), np.arange(cars), indexing="ij"))
    here = rng.random(len(ts)) < np.where(rng.random((ticks, cars)) < 0.2, 0.0, 0.6).ravel()
    stays = cid % 4 > 0
    sid = np.where(stays, cid // 2 % segments, rng.integers(0, segments, len(ts)))
    columns = {"cid": cid, "speed": rng.choice([38, 40, 41], len(ts)), "xpos": 5280 * sid, "sid": sid, "ts": 15 * ts}
    moved = rng.random(len(ts)) < 0.45
    columns["xpos"] = columns["xpos"] + moved * rng.integers(1, 100, len(ts))
    table: dict[str, Any] = {name: values[here] for name, values in columns.items()}
    table["ts"] = pa.array(table["ts"] * SECOND).cast(pa.timestamp("us", "UTC"))
    return pa.table(table | {"seq": np.arange(here.sum())})


@pytest.fixture(scope="module")
def answers(reports: pa.Table) -> dict[str, Counter[Row]]:
    return validate(reports, RULES)


@pytest.fixture(scope="module")
def db(reports: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        index = reports.schema.get_field_index("ts")
        connection.register("arrow", reports.set_column(index, "ts", reports["ts"].cast(pa.int64())))
        connection.execute("Create Table CarStr As From arrow")
        yield connection


def window(text: str, t: int) -> str:
    """The reports that a window holds at an instant."""
    seen = f"From CarStr Where ts <= {t}"
    if span := re.fullmatch(r"Range (\d+) (Second|Minute)s", text):
        return f"{seen} And ts >= {t - int(span[1]) * (60 if span[2] == 'Minute' else 1) * 1_000_000}"
    rows = re.fullmatch(r"Partition By cid Rows (\d)", text)
    assert rows, text
    return f"{seen} Qualify row_number() Over (Partition By cid Order By ts Desc, seq Desc) <= {rows[1]}"


def relation(name: str, t: int) -> str:
    """A query as SQL about one instant, before its operator to a stream."""

    def rows(found: re.Match[str]) -> str:
        before, source, frame = found.groups()
        if source == "CarStr":
            return f"{before}({window(frame, t)})"
        if source not in TEXTS:
            return found[0]
        assert frame == ("Now" if operator(source) else None)
        return f"{before}({stream(source, t) if frame else relation(source, t)})"

    return SOURCE.sub(rows, STREAMED.sub(r"Select \2", TEXTS[name]))


def operator(name: str) -> str | None:
    found = STREAMED.search(TEXTS[name])
    return found[1] if found else None


def stream(name: str, t: int) -> str:
    """What a stream holds at one instant, by the definition of its operator."""
    now, before = f"({relation(name, t)})", f"({relation(name, t - 1)})"
    return {"Istream": f"{now} Except All {before}", "Dstream": f"{before} Except All {now}", "Rstream": now}[
        operator(name) or ""
    ]


def some_instants(reports: pa.Table, answer: Counter[Row], time: int) -> list[int]:
    """Instants at which the answer has something, and others at which a report arrives or gets too old."""
    busy = sorted({int(row[time]) for row in answer})
    arrivals = set(reports["ts"].cast(pa.int64()).to_pylist())
    others = sorted({t + late for t in arrivals for late in (0, ACTIVE + 1, SPEED_WINDOW + 1)})
    others = [t for t in others if t <= max(arrivals)]
    return sorted({*busy[:: 1 + len(busy) // INSTANTS], *others[:: 1 + len(others) // INSTANTS], max(arrivals)})


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_agree_with_the_windows_at_instants(
    name: str, reports: pa.Table, answers: dict[str, Counter[Row]], db: duckdb.DuckDBPyConnection
) -> None:
    for t in some_instants(reports, answers[name], -2):
        assert relation_at(answers[name], t) == Counter(db.execute(relation(name, t)).fetchall()), t
    assert answers[name]


@pytest.mark.parametrize("name", STREAMS)
def test_streams_agree_with_the_windows_at_instants(
    name: str, reports: pa.Table, answers: dict[str, Counter[Row]], db: duckdb.DuckDBPyConnection
) -> None:
    for t in some_instants(reports, answers[name], -1):
        want = Counter({row[:-1]: n for row, n in answers[name].items() if row[-1] == t})
        assert want == Counter(db.execute(stream(name, t)).fetchall()), t
    assert answers[name]


def test_queries_build_on_those_before_them() -> None:
    for i, text in enumerate(QUERIES.values()):
        sources = {found[2] for found in SOURCE.finditer(text)} & {*QUERIES, "CarStr"}
        assert sources <= {"CarStr", *list(QUERIES)[:i]}
    assert "V.volume - 50" in QUERIES["SegToll"]


def test_the_seed_decides() -> None:
    first, again, other = (generate(minutes=3, cars=50, seed=seed) for seed in (7, 7, 8))
    assert first.equals(again)
    assert not first.equals(other)


def test_an_expressway_for_half_an_hour_has_tolls_accidents_and_exits() -> None:
    reports = generate()
    assert 100_000 < len(reports) < 200_000
    seen = {name: sum(answer.values()) for name, answer in validate(reports).items()}
    assert seen["CarExitStr"] > 2000
    assert seen["TollStr"] > 1000
    assert seen["AccSeg"] >= 8
    assert seen["NegTollStr"] > 20


def test_cars_report_every_half_minute_and_drive_forward() -> None:
    reports = generate(minutes=12, cars=150, seed=7, crowd=3)
    ts, cid, sid, xpos, heading = (
        np.asarray(reports[name].cast(pa.int64())) for name in ("ts", "cid", "sid", "xpos", "dir")
    )
    assert np.all(np.diff(ts) >= 0)
    for car in np.unique(cid):
        mine = cid == car
        assert np.all(np.diff(ts[mine]) % ACTIVE == 0)
        assert np.all(np.diff(ts[mine]) > 0)
        assert np.all(np.diff(sid[mine]) >= 0)
    miles = np.where(heading == 0, xpos // 5280, 99 - xpos // 5280)
    assert np.array_equal(sid, 128 * heading + miles)


def test_an_accident_is_two_cars_at_one_place() -> None:
    reports = generate(minutes=20, cars=400, seed=1, accidents=3)
    still = Counter((row["cid"], row["xpos"], row["dir"]) for row in reports.select(["cid", "xpos", "dir"]).to_pylist())
    places = Counter((xpos, heading) for (_, xpos, heading), n in still.items() if n >= 4)
    assert sum(cars >= 2 for cars in places.values()) >= 2


def test_segments_of_several_expressways_do_not_touch() -> None:
    reports = generate(expressways=2, minutes=3, cars=200, seed=2)
    assert set(np.asarray(reports["sid"]) // 128) == {0, 1, 2, 3}
    assert len(set(reports["seq"].to_pylist())) == len(reports)


def test_a_report_counts_for_five_minutes_to_the_microsecond() -> None:
    fast, slow = [(1, 80, 0)], [(2, 39, 30 * i) for i in range(12)]
    cid, speed, seconds = (np.array(values) for values in zip(*fast, *slow, strict=True))
    ts = pa.array(seconds * SECOND).cast(pa.timestamp("us", "UTC"))
    reports = pa.table({"cid": cid, "speed": speed, "xpos": seconds, "sid": np.ones_like(cid), "ts": ts})
    assert validate(reports, Rules(crowd=0))["SegToll"] == Counter({(1, 2, SPEED_WINDOW + 1, "+"): 1})
