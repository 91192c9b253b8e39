"""Relations that change: queries see every change exactly at its instant, in batches, streams and after restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch.errors import QueryError
from cql.answers import answered
from cql.comparing import expected as defined
from cql.streams import SECOND, Case, Cuts, Relation, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZERO = datetime(1970, 1, 1, tzinfo=UTC)
LABELS = "k long, label string"
NOW = "Select Istream(s.k, a, label) From s [Now], r Where s.k = r.k"
TEXTS = {
    "now": NOW,
    "window": "Select label, Count(*) As n From s [Range 4 Seconds], r Where s.k = r.k Group By label",
    "rows": "Select a, label From s [Rows 3], r Where s.k = r.k",
    "not_in": "Select k, a From s [Range 3 Seconds] Where k Not In (Select k From r)",
    "growing": "Select s.k, label From s, r Where s.k = r.k",
}
STREAM = Stream(
    "s", (("k", "bigint"), ("a", "bigint")), tuple((n, n * SECOND, n % 3, n) for n in range(12)), sequenced=True
)
RELATION = Relation(
    "r",
    (("k", "bigint"), ("label", "string")),
    ((0, "zero"), (0, "zero"), (1, "one")),
    (
        (4 * SECOND, 1, (2, "two")),
        (6 * SECOND, -1, (0, "zero")),
        (9 * SECOND, -1, (1, "one")),
        (9 * SECOND, 1, (1, "uno")),
    ),
)


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def rows(spark: SparkSession) -> DataFrame:
    emitted = [(k, a, at(time / SECOND), n) for n, time, k, a in STREAM.rows]
    return spark.createDataFrame(emitted, "k long, a long, ts timestamp, seq long")


def labels(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(list(RELATION.rows), LABELS)


def change(engine: ab.Engine) -> None:
    """The changes of `RELATION`, each in another way."""
    assert engine.insert("r", [(2, "two")], at=at(4)) == 1
    assert engine.delete("r", [(0, "zero"), (7, "not there")], at=at(6)) == 1
    assert engine.delete("r", "k = 1", at=at(9)) == 1
    assert engine.insert("r", [{"k": 1, "label": "uno"}], at=at(9)) == 1


def expected(text: str) -> Counter[Any]:
    return defined(Case((STREAM,), (RELATION,), text, Cuts({"s": (len(STREAM.rows),)}, 1)))


@pytest.mark.parametrize(
    ("changing", "names"), [(True, tuple(TEXTS)), (False, ("now", "window"))], ids=["declared", "not declared"]
)
def test_queries_see_every_change_at_its_instant(changing: bool, names: tuple[str, ...], spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", rows(spark), timestamp="ts", sequence="seq")
    engine.relation("r", labels(spark), changing=changing)
    for name in names:
        engine.query(TEXTS[name], name)
    change(engine)
    answers = engine.run_batch()
    for name in names:
        assert answered(answers[name]) == expected(TEXTS[name]), name


class Streamed:
    """An engine on a stream of files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.rows = rows(spark)
        (folder / "in").mkdir(exist_ok=True)

    def start(self, texts: dict[str, str], **options: Any) -> ab.Engine:
        engine = ab.Engine(self.spark, self.folder / "state")
        source = self.spark.readStream.schema(self.rows.schema).parquet(str(self.folder / "in"))
        engine.stream("s", source, timestamp="ts", sequence="seq")
        engine.relation("r", labels(self.spark), **options)
        for name, text in texts.items():
            engine.query(text, name).start()
        return engine

    def bring(self, engine: ab.Engine, first: int, end: int) -> None:
        some = self.rows.where(f"seq >= {first} and seq < {end}").coalesce(1)
        some.write.mode("append").parquet(str(self.folder / "in"))
        for query in engine.queries.values():
            query.await_idle()


def test_changes_while_a_stream_runs_outlive_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    streamed = Streamed(spark, tmp_path)
    engine = streamed.start(TEXTS, changing=True)
    streamed.bring(engine, 0, 3)
    engine.insert("r", [(2, "two")], at=at(4))
    streamed.bring(engine, 3, 8)
    with pytest.raises(QueryError, match="cannot be changed at 1970-01-01 00:00:06"):
        engine.delete("r", [(0, "zero")], at=at(6))
    engine.stop()
    engine = streamed.start(TEXTS)
    engine.delete("r", "k = 1", at=at(9))
    engine.insert("r", spark.createDataFrame([(1, "uno")], LABELS), at=at(9))
    streamed.bring(engine, 8, 12)
    engine.stop()
    changed = Relation(
        "r",
        RELATION.columns,
        RELATION.rows,
        ((4 * SECOND, 1, (2, "two")), (9 * SECOND, -1, (1, "one")), (9 * SECOND, 1, (1, "uno"))),
    )
    for name, text in TEXTS.items():
        case = Case((STREAM,), (changed,), text, Cuts({"s": (12,)}, 1))
        until = 12 * SECOND if engine._runtime.is_direct(engine.queries[name]) else 11 * SECOND
        want = Counter({row: count for row, count in defined(case).items() if row[-2] < until})
        assert answered(engine.queries[name].to_dataframe()) == want, name


def test_a_change_without_a_time_comes_after_all_rows_that_have_come(spark: SparkSession, tmp_path: Path) -> None:
    streamed = Streamed(spark, tmp_path)
    engine = streamed.start({"now": NOW})
    streamed.bring(engine, 0, 5)
    assert engine.replace("r", [(0, "zero"), (2, "two")]) == 3
    streamed.bring(engine, 5, 10)
    engine.stop()
    emitted = Counter((row["k"], row["label"]) for row in engine.queries["now"].to_dataframe().collect())
    assert emitted == {(0, "zero"): 2 * 2 + 1, (1, "one"): 2, (2, "two"): 2}  # before the last row, at 9 s


def test_a_query_that_began_with_a_fixed_relation_says_so(spark: SparkSession, tmp_path: Path) -> None:
    streamed = Streamed(spark, tmp_path)
    engine = streamed.start({"window": TEXTS["window"]})
    streamed.bring(engine, 0, 3)
    with pytest.raises(QueryError, match="'r' was joined once and for all by window") as caught:
        engine.insert("r", [(2, "two")])
    assert "changing=True" in str(caught.value)
    engine.stop()


def test_a_relation_in_cql(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", rows(spark), timestamp="ts", sequence="seq")
    engine.relation("r", labels(spark))
    engine.execute(
        """
        Insert Into r Values (2, 'two'), (7, Concat('se', 'ven'));
        Insert Into R (label) Values ('no key');
        Delete From r Where label = 'seven' Or k = 0;
        Create Relation latest From Stream s Key (k);
        Create Query now As Select Istream(s.k, label) From s [Now], r Where s.k = r.k;
        Create Query held As Select k, a From latest;
        """
    )
    engine.run_batch()
    emitted = Counter((row["k"], row["label"]) for row in engine.queries["now"].to_dataframe().collect())
    assert emitted == {(1, "one"): 4, (2, "two"): 4}
    held = Counter(map(tuple, engine.queries["held"].current().collect()))
    assert held == {(0, 9): 1, (1, 10): 1, (2, 11): 1}
    assert "1970" not in engine.describe("relations")
    engine.drop("now")
    engine.drop("r")
    with pytest.raises(QueryError, match="there is no relation 'r'"):
        engine.insert("r", [(1, "one")])


MISTAKES: dict[str, tuple[Callable[[ab.Engine, SparkSession], object], str]] = {
    "type": (lambda e, s: e.insert("r", [("x", "one")]), "rows for relation 'r' do not fit its columns: .*field k"),
    "width": (lambda e, s: e.insert("r", [(1,)]), "rows for relation 'r' do not fit its columns"),
    "frame": (lambda e, s: e.insert("r", s.range(3)), "unknown column 'k' in the rows for relation 'r'"),
    "frame type": (
        lambda e, s: e.replace("r", s.sql("SELECT 1 AS k, 'x' AS label")),
        "'k' for relation 'r' is of type int",
    ),
    "stream": (lambda e, s: e.insert("s", [(1, "x")]), "'s' is a stream, not a relation"),
    "condition": (lambda e, s: e.delete("r", "nobody = 3"), "the condition on relation 'r' is invalid: .*nobody"),
    "no zone": (lambda e, s: e.insert("r", [(1, "x")], at=datetime(2026, 1, 1)), "at is datetime"),  # noqa: DTZ001
    "values": (lambda e, s: e.execute("Insert Into r Values (1)"), "a row of 1 values for 2 columns of relation 'r'"),
    "cast": (lambda e, s: e.execute("Insert Into r Values ('x', 'y')"), "rows for relation 'r' cannot be read: .*CAST"),
    "name": (lambda e, s: e.execute("Insert Into r (lable) Values ('x')"), "unknown column 'lable' in Insert Into r"),
}


def test_a_wrong_change_is_refused_and_changes_nothing(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", rows(spark), timestamp="ts", sequence="seq")
    engine.relation("r", labels(spark))
    engine.query(NOW, "now")
    for wrong, words in MISTAKES.values():
        with pytest.raises(QueryError, match=words):
            wrong(engine, spark)
    assert engine.run_batch()["now"].count() == 4 * 2 + 4


def test_changes_in_the_past_of_another_change_are_refused(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.relation("r", labels(spark))
    engine.insert("r", [(3, "x")], at=at(5))
    with pytest.raises(QueryError, match=r"the time before 1970-01-01 00:00:05\S* is settled"):
        engine.insert("r", [(4, "y")], at=at(4))


def test_maps_can_be_inserted_and_not_deleted(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.relation("m", spark.sql("SELECT 1 AS k, map('a', 1) AS m"))
    engine.insert("m", [(2, {"b": 2})])
    with pytest.raises(QueryError, match="relation 'm' has a column 'm' of maps"):
        engine.delete("m", "k = 1")


def test_other_columns_under_the_name_of_a_changed_relation_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    engine = ab.Engine(spark, tmp_path)
    engine.relation("r", labels(spark))
    engine.insert("r", [(3, "x")])
    engine.stop()
    with pytest.raises(QueryError, match="the checkpoint holds a relation 'r' with the columns"):
        ab.Engine(spark, tmp_path).relation("r", spark.range(3))


def test_what_others_read_is_not_dropped(spark: SparkSession) -> None:
    made = ab.Engine(spark)
    made.stream("s", spark.sql("SELECT timestamp_seconds(id) AS ts, id AS v FROM range(5)"), timestamp="ts")
    made.relation("r", spark.sql("SELECT 1L AS v"))
    made.view("small", "Select v From s Where v < 3")
    made.query("Select Istream(x.v) From small [Now] x, r Where x.v = r.v", "first")
    made.query("Select v From first [Rows 2]", "second")
    rules = made.rules("alerts", "Select v From s Where v > :limit")
    rules.add(rule="a", limit=3)
    for name, reader in {"s": "first, second, alerts", "r": "first", "small": "first", "first": "second"}.items():
        with pytest.raises(QueryError, match=f"'{name}' is read by {reader}"):
            made.drop(name)
    with pytest.raises(QueryError, match="'alerts_rules' is read by alerts"):
        made.drop("alerts_rules")
    answers = made.run_batch()
    assert sorted(row["v"] for row in answers["alerts"].collect()) == [4]
    for name in ("second", "first", "small", "r", "alerts", "alerts_rules", "s"):
        made.drop(name)
