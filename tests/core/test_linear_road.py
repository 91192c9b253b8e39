"""Linear Road: there is traffic worth a query, and the simulation agrees with a naive reading of the CQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from anabranch.benches.linearroad import (
    MANY_MANY,
    MANY_ONE,
    QUERIES,
    RELATIONS,
    SPATIAL,
    STREAMS,
    Inputs,
    Row,
    Rules,
    asked,
    generate,
    queries,
    relation_at,
    validate,
)
from anabranch.benches.linearroad.answers import ACTIVE, SPEED_WINDOW
from anabranch.benches.linearroad.inputs import SECOND
from linear_road_inputs import RULES, generated, hostile

INSTANTS = 12
ACCOUNTS = ("AccBalOutStr", "ExpOutStr")
CHANGE = re.compile(r"\((Select (?:Istream|Dstream)\(\w+\) From (\w+))\) \[Now\]")
SOURCE = re.compile(r"(From |,\s+)(\w+)(?: \[([^]]*)\])?(?= As|[\s)]|$)")
STREAMED = re.compile(r"Select (Istream|Dstream|Rstream)\((.*)\)(?=\s+From)")


def texts() -> dict[str, str]:
    """The blocks; a change of a relation that is written within one gets a name."""
    found = queries(RULES)
    for name, text in list(found.items()):
        for change in CHANGE.finditer(text):
            found[f"{name}Change"] = change[1]
            found[name] = CHANGE.sub(f"{name}Change [Now]", text)
    return found


TEXTS = texts()


@pytest.fixture(scope="module", params=[generated, hostile])
def given(request: pytest.FixtureRequest) -> Inputs:
    """Some traffic, and reports that lie exactly at the borders of windows, speeds and distances."""
    made: Inputs = request.param()
    return made


@pytest.fixture(scope="module")
def answers(given: Inputs) -> dict[str, Counter[Row]]:
    return validate(given, RULES)


@pytest.fixture(scope="module")
def db(given: Inputs, answers: dict[str, Counter[Row]]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        paid = [(car, -int(toll), ts) for car, _, toll, ts in answers["TollStr"]]
        booked = paid + [(car, int(credit), ts) for car, _, credit, ts in answers["NegTollStr"]]
        rows = pa.table(dict(zip(("cid", "credit", "ts"), map(list, zip(*booked, strict=True)), strict=True)))
        tables = {"CarStr": given.cars, "AccBalQueryStr": given.balances, "ExpQueryStr": given.expenses}
        micros = {
            name: table.set_column(table.schema.get_field_index("ts"), "ts", table["ts"].cast(pa.int64()))
            for name, table in tables.items()
        }
        for name, table in {**micros, "AllSeg": given.segments, "Booked": rows}.items():
            connection.register("arrow", table)
            connection.execute(f"Create Table {name} As From arrow")
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


def some_instants(given: Inputs, answer: Counter[Row], time: int) -> list[int]:
    """Instants at which the answer has something, and others at which a report arrives or gets too old."""
    busy = sorted({int(row[time]) for row in answer})
    arrivals = set(given.cars["ts"].cast(pa.int64()).to_pylist())
    others = sorted({t + late for t in arrivals for late in (0, ACTIVE + 1, SPEED_WINDOW + 1)})
    others = [t for t in others if t <= max(arrivals)]
    return sorted({*busy[:: 1 + len(busy) // INSTANTS], *others[:: 1 + len(others) // INSTANTS], max(arrivals)})


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_agree_with_the_windows_at_instants(
    name: str, given: Inputs, answers: dict[str, Counter[Row]], db: duckdb.DuckDBPyConnection
) -> None:
    for t in some_instants(given, answers[name], -2):
        assert relation_at(answers[name], t) == Counter(db.execute(relation(name, t)).fetchall()), t
    assert answers[name]


@pytest.mark.parametrize("name", [name for name in STREAMS if name not in ACCOUNTS])
def test_streams_agree_with_the_windows_at_instants(
    name: str, given: Inputs, answers: dict[str, Counter[Row]], db: duckdb.DuckDBPyConnection
) -> None:
    for t in some_instants(given, answers[name], -1):
        want = Counter({row[:-1]: n for row, n in answers[name].items() if row[-1] == t})
        assert want == Counter(db.execute(stream(name, t)).fetchall()), t
    assert answers[name]


def test_accounts_are_sums_of_what_was_booked(answers: dict[str, Counter[Row]], db: duckdb.DuckDBPyConnection) -> None:
    of_all = """Select qid, q.cid, Sum(credit)::BigInt, q.ts From AccBalQueryStr q, Booked b
        Where q.cid = b.cid And b.ts <= q.ts Group By qid, q.cid, q.ts"""
    of_day = f"""Select qid, q.cid, -Sum(credit)::BigInt, q.ts From ExpQueryStr q, Booked b
        Where q.cid = b.cid And b.ts Between q.ts - {RULES.day * 60 * SECOND} And q.ts Group By qid, q.cid, q.ts"""
    for name, text in zip(ACCOUNTS, (of_all, of_day), strict=True):
        assert answers[name] == Counter(db.execute(text).fetchall())
        assert answers[name]


def test_queries_build_on_those_before_them() -> None:
    for i, text in enumerate(QUERIES.values()):
        sources = {found[2] for found in SOURCE.finditer(text)} & {*QUERIES, "CarStr"}
        assert sources <= {"CarStr", *list(QUERIES)[:i]}
    assert "V.volume - 50" in QUERIES["SegToll"]


def test_eighteen_blocks_and_twelve_joins() -> None:
    blocks = {name for name, text in QUERIES.items() if "Union All" not in text}
    joins = {name for name, text in QUERIES.items() if re.search(r" As \w, ?|\] As \w,", text)}
    assert len(blocks) == 18
    assert len(QUERIES) == 19
    assert joins == {*MANY_ONE, *SPATIAL, *MANY_MANY}
    assert (len(MANY_ONE), len(SPATIAL), len(MANY_MANY)) == (7, 4, 1)


def test_the_seed_decides() -> None:
    first, again, other = (generate(minutes=3, cars=50, seed=seed) for seed in (7, 7, 8))
    assert first.equals(again)
    assert not first.equals(other)


def test_an_expressway_for_half_an_hour_has_tolls_accidents_and_exits() -> None:
    reports = generate()
    assert 100_000 < len(reports) < 200_000
    seen = {name: sum(answer.values()) for name, answer in validate(asked(reports)).items()}
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
    assert validate(asked(reports), Rules(crowd=0))["SegToll"] == Counter({(1, 2, SPEED_WINDOW + 1, "+"): 1})
