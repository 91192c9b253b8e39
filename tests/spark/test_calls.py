"""Predicates that call, in Spark: a server of our own counts what it is asked and paid for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.killing import TEN, paid_through
from anabranch.benches.model_server import ask, number_of, running, state_of
from anabranch.errors import QueryError
from anabranch.spark.connect import is_connect
from spark.plan_texts import everything

ROWS, DISTINCT = 600, 400


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "server", least_seconds=0.002, most_seconds=0.02, refuse_every=40) as address:
        yield address


def texts(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    text = F.concat(F.lit("t"), (F.col("id") % DISTINCT).cast("string"))
    return spark.range(0, rows, 1, 4).select("id", text.alias("text"))


def scoring(address: str, **options: Any) -> Any:
    async def score(text: str) -> ab.Reply:
        value, tokens = await ask(address, text)
        return ab.Reply(value, tokens=tokens, money=tokens * 1e-6)

    usual = {"returns": "double", "test": lambda s: s > 0.7, "concurrency": 16, "cost": "money", "timeout": "30 s"}
    return ab.predicate(score, "text", **{**usual, **options})


def expected(rows: int = ROWS) -> set[int]:
    return {n for n in range(rows) if number_of(f"t{n % DISTINCT}", "small") > 0.7}


def ids(df: DataFrame) -> set[int]:
    found = [row.id for row in df.select("id").collect()]
    assert len(found) == len(set(found))
    return set(found)


def test_equal_rows_are_asked_once_and_a_later_run_asks_nothing(
    spark: SparkSession, server: str, tmp_path: Path
) -> None:
    f = ab.Filter(scoring(server, keep="score", cache=tmp_path / "answers"), F.col("id") >= 0)
    rows = f.apply(texts(spark)).collect()
    assert {row.id for row in rows} == expected()
    assert all(row.score == number_of(row.text, "small") for row in rows)
    assert (state_of(server)["paid"], state_of(server)["twice"]) == (DISTINCT, 0)
    (calls,) = f.report().calls
    assert (calls.calls, calls.hits, calls.unasked) == (DISTINCT, ROWS - DISTINCT, 0)
    assert calls.retries == state_of(server)["refused"]
    assert calls.money == pytest.approx(calls.tokens * 1e-6)
    assert "money" in f.report().describe()
    again = ab.Filter(scoring(server, cache=tmp_path / "answers"))
    assert ids(again.apply(texts(spark))) == expected()
    assert state_of(server)["paid"] == DISTINCT
    newer = ab.Filter(scoring(server, cache=tmp_path / "answers", version="2"))
    assert ids(newer.apply(texts(spark))) == expected()
    assert state_of(server)["paid"] == 2 * DISTINCT


def test_a_budget_stops_cleanly_and_the_next_run_goes_on(spark: SparkSession, server: str, tmp_path: Path) -> None:
    predicate, frame = scoring(server, cache=tmp_path / "answers"), texts(spark)
    whole, budget = 400 * 80e-6, 0.01
    first = ab.Filter(predicate, budget=budget)
    found = ids(first.apply(frame))
    left = ids(first.undecided())
    assert found | left >= expected()
    assert not found & left
    assert found <= expected()
    assert left
    most = 2 * 16 * 120e-6  # a batch of calls: the concurrency of two workers
    assert budget * 0.9 <= first.report().money <= budget + most < whole
    paid = state_of(server)["paid"]
    assert ids(first.undecided()) == left  # costs nothing, and says the same
    assert state_of(server)["paid"] == paid
    second = ab.Filter(predicate, budget=1.0)
    assert found | ids(second.apply(first.undecided())) == expected()
    assert second.undecided().count() == 0
    assert (state_of(server)["paid"], state_of(server)["twice"]) == (DISTINCT, 0)


def test_what_a_free_predicate_rejects_is_decided_without_money(spark: SparkSession, server: str) -> None:
    f = ab.Filter(scoring(server), ab.predicate(lambda n: n % 2 == 0, "id", name="even"), budget=0.0)
    assert ids(f.apply(texts(spark))) == set()
    assert ids(f.undecided()) == set(range(0, ROWS, 2))
    assert state_of(server)["asked"] == 0


def test_a_limit_stops_asking(spark: SparkSession, server: str) -> None:
    f = ab.Filter(scoring(server), limit=20)
    found = ids(f.apply(texts(spark, 20_000)))
    assert len(found) == 20
    assert f.report().rows < 2000


def test_errors_stay_with_their_rows_and_come_back_the_same(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path / "s", least_seconds=0.0, most_seconds=0.4) as slow:
        f = ab.Filter(scoring(slow, timeout=0.2, concurrency=64, cache=tmp_path / "a"), on_error="quarantine")
        passed = ids(f.apply(texts(spark, 300)))
        aside = f.quarantined()
        errors = {row._error for row in aside.collect()}
        assert errors == {"TimeoutError: no answer in 0.2 s"}
        assert passed | ids(aside) >= expected(300)
        assert not passed & ids(aside)
        asked = state_of(slow)["asked"]
        assert ids(f.apply(texts(spark, 300))) == passed
        assert state_of(slow)["asked"] == asked
        with pytest.raises(Exception, match=r"no answer in 0\.05 s"):
            ab.where(texts(spark, 300), scoring(slow, timeout=0.05)).count()


def test_plain_functions_and_lists(spark: SparkSession) -> None:
    def long(text: str) -> bool:
        return len(text) > 3

    async def lengths(several: list[str]) -> list[int]:
        return [len(text) for text in several]

    in_threads = ab.predicate(long, "text", concurrency=4)
    in_lists = ab.predicate(lengths, "text", returns="int", keep="n", test=lambda n: n > 3, batch=20)
    wanted = {n for n in range(ROWS) if len(f"t{n % DISTINCT}") > 3}
    assert ids(ab.where(texts(spark), in_threads)) == wanted
    f = ab.Filter(in_lists)
    assert ids(f.apply(texts(spark))) == wanted
    assert f.report().calls[0].calls < DISTINCT / 4


def test_the_order_saves_money_where_money_is_asked_for(spark: SparkSession, server: str) -> None:
    """The dear predicate is fast and selective: the quick order asks it first, the cheap one last."""

    async def dear(text: str) -> ab.Reply:
        return ab.Reply(number_of(text, "dear") < 0.3, money=0.1)

    async def cheap(text: str) -> ab.Reply:
        value, _ = await ask(server, text, "cheap")
        return ab.Reply(value < 0.5, money=0.001)

    predicates = [ab.predicate(f, "text", cost="money", concurrency=32) for f in (dear, cheap)]
    frame = spark.range(0, 1500, 1, 2).select("id", F.concat(F.lit("x"), "id").alias("text"))
    f = ab.Filter(*predicates, minimize="money")
    wanted = {n for n in range(1500) if number_of(f"x{n}", "dear") < 0.3 and number_of(f"x{n}", "cheap") < 0.5}
    assert ids(f.apply(frame)) == wanted
    report = f.report()
    assert report.order == ("cheap", "dear")
    assert report.calls[0].calls < 1100  # 1500 as written, about 750 at best, and what learning costs
    assert report.money_saved is not None
    assert report.money_saved > 0.25 * 150
    assert f.events()


def test_what_cannot_be_is_refused(spark: SparkSession) -> None:
    async def free(text: str) -> bool:
        return bool(text)

    with pytest.raises(QueryError, match="no predicate that costs money"):
        ab.Filter(ab.predicate(free, "text"), budget=1.0)
    with pytest.raises(QueryError, match="finds routes by their time"):
        ab.Filter(ab.predicate(free, "text"), minimize="money", policy="mesh")
    with pytest.raises(QueryError, match="without a name"):
        ab.Filter(ab.predicate(lambda text: True, "text", cache="here"))
    with pytest.raises(QueryError, match="limit is 0"):
        ab.Filter(ab.predicate(free, "text"), limit=0)
    with pytest.raises(QueryError, match="decides all rows"):
        ab.Filter(ab.predicate(free, "text")).undecided()


def test_secrets_stay_in_the_environment(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-live-0123456789abcdef"
    monkeypatch.setenv("MODEL_API_KEY", secret)

    async def fails(text: str) -> bool:
        raise ValueError(f"401 for {os.environ.get('MODEL_API_KEY', 'no key')}")

    f = ab.Filter(ab.predicate(fails, "text", cache=tmp_path / "answers"), on_error="quarantine", state=tmp_path / "f")
    assert f.apply(texts(spark, 10)).count() == 0
    assert f.quarantined().count() == 10
    assert secret.encode() not in cloudpickle.dumps(f._tasks.evaluator(f.predicates[0], None))  # type: ignore[no-untyped-call,arg-type]
    out = f.apply(texts(spark, 10))
    plan = everything(out)
    told = [f.quarantined().collect(), f.events(), f.report(), f.report()._repr_html_(), f.explain(out), plan, f]
    assert secret not in " ".join(map(str, told)) + f.progress(rows=10).line()
    written = [path for folder in (tmp_path, f.calls.folder.parent) for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"answers.sqlite", "meter", "filter.json"}
    assert not [path for path in written if secret.encode() in path.read_bytes()]
    with pytest.raises(Exception, match="predicate 'fails' failed on a row") as raised:
        ab.where(texts(spark, 10), ab.predicate(fails, "text", cache=tmp_path / "answers")).count()
    assert secret not in str(raised.value)

    async def holds(text: str) -> bool:
        return bool(secret)

    refusal = "holds the value of the environment variable MODEL_API_KEY"
    with pytest.raises(QueryError, match=refusal):
        ab.Filter(ab.predicate(holds, "text"))
    if not is_connect(spark):
        with pytest.raises(QueryError, match=refusal):
            ab.Engine(spark).function("holds", holds, cache=tmp_path / "answers")


@pytest.mark.classic(reason="an engine needs a classic session")
def test_a_function_that_calls_keeps_its_answers(spark: SparkSession, tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    async def odd(n: int) -> bool:
        with asked.open("a") as log:
            log.write(f"{n}\n")
        return n % 2 == 1

    async def doubled(n: int) -> int:
        return 2 * n

    times = spark.sql("SELECT timestamp_seconds(id) AS ts, id % 5 AS n FROM range(20)")
    for _ in range(2):
        engine = ab.Engine(spark)
        engine.stream("numbers", times, timestamp="ts")
        engine.function("odd", odd, cache=tmp_path / "answers", timeout="20 s")
        engine.function("doubled", doubled, returns="int")
        engine.query("Select Istream(n, doubled(n) As twice) From numbers [Now] Where odd(n)", "kept")
        engine.query("Select Istream(n) From numbers [Now] Where Not odd(n)", "left")
        found = engine.run_batch()
        assert sorted((row.n, row.twice) for row in found["kept"].collect()) == [(1, 2)] * 4 + [(3, 6)] * 4
        assert sorted(row.n for row in found["left"].collect()) == [0] * 4 + [2] * 4 + [4] * 4
    assert sorted(asked.read_text().split()) == ["0", "1", "2", "3", "4"]


@pytest.mark.classic(reason="an engine needs a classic session")
def test_a_function_in_a_query_is_a_look_up_with_a_time_out(spark: SparkSession, tmp_path: Path) -> None:
    async def owner(n: int) -> str:
        await asyncio.sleep(60 if n == 3 else 0)
        return f"owner {n}"

    async def known(n: int) -> bool:
        await asyncio.sleep(60 if n == 3 else 0)
        return n > 1

    times = spark.sql("SELECT timestamp_seconds(id) AS ts, id % 5 AS n FROM range(10)")

    def answers(on_error: str) -> dict[str, list[tuple[int, str | None]]]:
        engine = ab.Engine(spark)
        engine.stream("numbers", times, timestamp="ts")
        engine.function("owner", owner, returns="string", timeout="200 ms", on_error=on_error, cache=tmp_path / "kept")
        engine.function("known", known, timeout="200 ms", on_error=on_error)
        engine.query("Select Istream(n, owner(n) As who) From numbers [Now] Where n > 1", "enriched")
        engine.query("Select Istream(n, 'left' As who) From numbers [Now] Where Not known(n)", "left")
        found = engine.run_batch()
        return {name: sorted((row.n, row.who) for row in found[name].collect()) for name in ("enriched", "left")}

    whose = {n: None if n == 3 else f"owner {n}" for n in (2, 3, 4)}
    assert answers("null") == {
        "enriched": sorted(list(whose.items()) * 2),
        "left": [(0, "left")] * 2 + [(1, "left")] * 2,
    }
    with pytest.raises(Exception, match=r"no answer in 0\.2 s"):
        answers("raise")
    engine = ab.Engine(spark)
    with pytest.raises(QueryError, match="on_error='skip'"):
        engine.function("owner", owner, returns="string", on_error="skip")
    with pytest.raises(QueryError, match="has no option 'time_out'"):
        engine.function("owner", owner, returns="string", time_out=3)


@pytest.mark.spark
@pytest.mark.full(reason="starts Spark four times, and kills it and its workers ten times")
@pytest.mark.timeout(900)
def test_ten_kills_of_workers_and_drivers_pay_no_call_twice(tmp_path: Path) -> None:
    found = paid_through(TEN, tmp_path)
    assert len(TEN) == 10
    assert (found.paid, found.twice) == (found.rows, 0)
    assert found.starts >= 1 + TEN.count("driver")
