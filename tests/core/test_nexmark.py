"""NEXMark: the events have the promised shape, and the answers agree with a second, naive reading of the CQL."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from anabranch.benches.nexmark import race
from anabranch.benches.nexmark.answers import QUERIES, Row, at, expected
from anabranch.benches.nexmark.events import FIRST_ID, LONGEST_LIFE, SECOND, ZERO, Ints, Nexmark, generate

STREAMS = ("person", "auction", "bid")
WINDOW = re.compile(
    r"(From |,\s+)(person|auction|bid)(?: \[Range (\d+) Seconds(?: Slide (\d+) Seconds)?\])?(?=[\s)]|$)"
)
STREAMED = re.compile(r"Select (?:Istream|Rstream)\((.*)\)\n")


@pytest.fixture(scope="module", params=["generated", "hostile"])
def data(request: pytest.FixtureRequest) -> Nexmark:
    """A slow and short auction house, and one where everything happens exactly at the borders of windows."""
    return generate(400, seed=3, rate=9) if request.param == "generated" else hostile(generate(1500, seed=3, rate=50))


def hostile(data: Nexmark) -> Nexmark:
    """Whole seconds only, references that point anywhere, few prices."""
    rng = np.random.default_rng(1)

    def swap(table: pa.Table, **columns: Ints) -> pa.Table:
        for name in ("ts", "expires"):
            if name in table.column_names:
                columns[name] = np.array(times(table, name)) // SECOND * SECOND
        for name, values in columns.items():
            i = table.schema.get_field_index(name)
            table = table.set_column(i, name, pa.array(values).cast(table.schema.field(i).type))
        return table

    people, auctions, bids = len(data.person), len(data.auction), len(data.bid)
    return Nexmark(
        swap(data.person),
        swap(data.auction, seller=FIRST_ID + rng.integers(0, people, auctions)),
        swap(data.bid, auction=FIRST_ID + rng.integers(0, auctions, bids), price=rng.integers(1, 30, bids)),
    )


@pytest.fixture(scope="module")
def db(data: Nexmark) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name in STREAMS:
            table = getattr(data, name)
            micros = {c: table[c].cast(pa.int64()) for c in ("ts", "expires") if c in table.column_names}
            connection.register(f"all_{name}", pa.table({c: table[c] for c in table.column_names} | micros))
            connection.execute(f"Create Table {name} As From all_{name}")
        yield connection


def times(table: pa.Table, column: str = "ts") -> list[int]:
    return [int(t) for t in table[column].cast(pa.int64()).to_pylist()]


def as_sql(text: str, t: int) -> str:
    """The CQL text as SQL about one instant: every window becomes the rows it holds then."""

    def rows(found: re.Match[str]) -> str:
        before, stream, span, slide = found.groups()
        now = t // (int(slide) * SECOND) * int(slide) * SECOND if slide else t
        first = now - int(span) * SECOND if span else 0
        return f"{before}(From {stream} Where ts Between {first} And {now})"

    return WINDOW.sub(rows, STREAMED.sub(r"Select \1\n", text))


def instants(data: Nexmark, spans: Sequence[int] = (), slide: int | None = None) -> list[int]:
    arrivals = {t for name in STREAMS for t in times(getattr(data, name))}
    points = arrivals | {t + span * SECOND + 1 for t in arrivals for span in spans}
    if slide:
        points |= set(range(ZERO, data.end + 1, slide * SECOND))
    return sorted(t for t in points if t <= data.end)


def istream(relation: Callable[[int], Counter[Row]], points: Sequence[int]) -> Counter[Row]:
    out: Counter[Row] = Counter()
    before: Counter[Row] = Counter()
    for t in points:
        now = relation(t)
        out.update({(*row, t): n for row, n in (now - before).items()})
        before = now
    return out


def test_one_person_three_auctions_and_46_bids_of_50() -> None:
    data = generate(10_000, seed=1)
    assert (len(data.person), len(data.auction), len(data.bid)) == (200, 600, 9200)
    seqs = np.concatenate([getattr(data, name)["seq"].to_numpy() for name in STREAMS])
    assert sorted(seqs) == list(range(10_000))


def test_the_seed_decides() -> None:
    first, again, other = generate(1000, seed=5), generate(1000, seed=5), generate(1000, seed=6)
    assert first == again
    assert not first.bid.equals(other.bid)


def test_times_follow_the_event_numbers_with_ties_at_the_rate() -> None:
    data = generate(10_000, seed=1, rate=500)
    by_seq = {s: t for name in STREAMS for s, t in zip(*_seq_and_time(getattr(data, name)), strict=True)}
    gaps = np.diff([by_seq[s] for s in range(10_000)])
    assert gaps.min() == 0
    assert 0.15 < np.mean(gaps == 0) < 0.25
    assert (data.end - ZERO) / SECOND == pytest.approx(20, rel=0.05)
    assert str(data.bid.schema.field("ts").type) == "timestamp[us, tz=UTC]"


def _seq_and_time(table: pa.Table) -> tuple[list[int], list[int]]:
    return table["seq"].to_pylist(), times(table)


def test_references_point_back_and_keys_are_hot() -> None:
    data = generate(20_000, seed=2)
    opened = dict(zip(data.auction["id"].to_pylist(), data.auction["seq"].to_pylist(), strict=True))
    joined = dict(zip(data.person["id"].to_pylist(), data.person["seq"].to_pylist(), strict=True))
    for auction, bidder, seq in zip(*(data.bid[c].to_pylist() for c in ("auction", "bidder", "seq")), strict=True):
        assert opened[auction] < seq
        assert joined[bidder] < seq
    hot = np.mean(data.bid["auction"].to_numpy() % 100 == 0)
    assert 0.45 < hot < 0.6
    life = np.array(times(data.auction, "expires")) - times(data.auction)
    assert 0 < life.min() <= life.max() <= LONGEST_LIFE


@pytest.mark.parametrize(("name", "spans", "slide"), [("q3", (), None), ("q7", (), 10), ("q8", (10,), None)])
def test_inserted_rows_agree_with_the_windows_at_every_instant(
    name: str, spans: Sequence[int], slide: int | None, data: Nexmark, db: duckdb.DuckDBPyConnection
) -> None:
    def relation(t: int) -> Counter[Row]:
        return Counter(db.execute(as_sql(QUERIES[name], t)).fetchall())

    answer = expected(name, data)
    assert answer == istream(relation, instants(data, spans, slide))
    assert sum(answer.values()) > 3


@pytest.mark.parametrize("name", ["q0", "q1", "q2"])
def test_rows_of_a_single_stream_come_at_their_own_times(name: str) -> None:
    data = generate(5000, seed=8)
    when = dict(zip(*_seq_and_time(data.bid), strict=True))
    with duckdb.connect() as db:
        db.register("bid", data.bid)
        rows = db.execute(QUERIES[name]).fetchall()
    assert expected(name, data) == Counter((*row, when[row[-1]]) for row in rows)
    assert rows


def test_hot_items_agree_with_the_windows_at_every_slide(data: Nexmark, db: duckdb.DuckDBPyConnection) -> None:
    slides = range(ZERO, data.end + 1, 2 * SECOND)
    seen = Counter((*row, t) for t in slides for row in db.execute(as_sql(QUERIES["q5"], t)).fetchall())
    assert expected("q5", data) == seen


def test_average_price_per_category_at_instants(data: Nexmark, db: duckdb.DuckDBPyConnection) -> None:
    for t in [*instants(data)[::40], data.end]:
        assert at("q4", data, t) == Counter(db.execute(as_sql(QUERIES["q4"], t)).fetchall())
    assert sum(at("q4", data, data.end).values()) == 5


@pytest.mark.parametrize("is_hostile", [False, True])
def test_average_price_of_a_sellers_last_ten_auctions(is_hostile: bool) -> None:
    data = generate(5000 if is_hostile else 1500, seed=4, rate=30)
    data = hostile(data) if is_hostile else data
    opened = sorted(zip(times(data.auction), *(data.auction[c].to_pylist() for c in ("id", "seller")), strict=True))
    lives = {auction: (t, end) for (t, auction, _), end in zip(opened, times(data.auction, "expires"), strict=True)}
    valid: defaultdict[int, list[int]] = defaultdict(list)
    for t, auction, price in zip(
        times(data.bid), *(data.bid[c].to_pylist() for c in ("auction", "price")), strict=True
    ):
        if lives[auction][0] <= t <= lives[auction][1]:
            valid[auction].append(price)
    longest = 0
    for t in sorted({opened[i][0] + LONGEST_LIFE + late for i in (20, 40, 60, 70, 80) for late in (0, 1)}):
        sold: defaultdict[int, list[int]] = defaultdict(list)
        for start, auction, seller in opened:
            if start + LONGEST_LIFE < t and valid[auction]:
                sold[seller].append(max(valid[auction]))
        want = [(seller, sum(p[-10:]) / len(p[-10:]), len(p[-10:])) for seller, p in sold.items()]
        assert at("q6", data, t) == Counter(want)
        longest = max([longest, *map(len, sold.values())])
    assert longest > (1 if is_hostile else 10)


def test_streams_and_relations_are_asked_for_differently(data: Nexmark) -> None:
    with pytest.raises(ValueError, match="with `at`"):
        expected("q4", data)
    with pytest.raises(ValueError, match="with `expected`"):
        at("q0", data, data.end)


def test_batches_of_a_race_have_all_rows_once_and_end_together(tmp_path: Path) -> None:
    files = race._write(tmp_path, 5_000)
    spans = {}
    for name in STREAMS:
        batches = [_times(path) for path in sorted(files.batches(name).iterdir())]
        assert [time for batch in batches for time in batch] == _times(files.whole(name))
        spans[name] = [(min(batch), max(batch)) for batch in batches]
    for batch in range(race.BATCHES - 1):
        assert max(each[batch][1] for each in spans.values()) < min(each[batch + 1][0] for each in spans.values())
    assert len({each[-1][1] for each in spans.values()}) == 1  # the last rows, after which time is complete


def _times(path: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in path.read_text().splitlines()]
