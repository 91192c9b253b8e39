"""Rules: a template with parameters says for every rule what a query with its values says alone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch.engine.rules import RulesRefused
from anabranch.errors import QueryError
from anabranch.model.prefixes import in_network

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(i, ZERO + timedelta(seconds=i), f"s{i % 5}", float(i * 37 % 100)) for i in range(120)]
COLUMNS = "seq long, ts timestamp, sensor string, value double"
RULES = [{"rule": f"r{n}", "sensor": f"s{n % 5}", "limit": float(n * 13 % 100)} for n in range(12)]
TEMPLATES = {
    "now": "Select Istream(sensor, value) From readings [Now] Where sensor = :sensor And value > :limit",
    "star": "Select * From readings Where sensor = :sensor And value > :limit",
    "counts": "Select Istream(Count(*) As n, Max(value) As top) From readings [Range 20 Seconds] "
    "Where sensor = :sensor And value > :limit Group By sensor",
    "having": "Select Istream(sensor, Sum(seq) As total) From readings [Range 20 Seconds] "
    "Where sensor = :sensor Group By sensor Having Max(value) > :limit",
    "join": "Select Istream(a.seq, b.seq) From readings [Now] a, readings [Range 5 Seconds] b "
    "Where a.value = b.value And a.sensor = :sensor And a.value > :limit",
    "union": "Istream(Select seq From readings [Now] Where value > :limit Union All "
    "Select seq From readings [Now] Where sensor = :sensor)",
}

OF_AN_INDEX: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "between": (
        "value Between :low And :high",
        [{"low": 10.0, "high": 20.0}, {"low": 15.0, "high": 90.0}],
        "access by",
    ),
    "several": ("sensor In (:x, :y) And value > :v", [{"x": "s1", "y": "s2", "v": 30.0}], "sensor in (:x, :y)"),
    "listed": (
        "array_contains(:names, sensor)",
        [{"names": ["s1", "s2"]}, {"names": ["s3", None]}],
        "sensor in :names",
    ),
    "begins": ("line Like :p", [{"p": "disk1%"}, {"p": "disk%"}, {"p": "nothing%"}], "forest of prefixes"),
    "inside": ("line Like :p", [{"p": "%error1%"}, {"p": "%k2 e%"}], "Aho-Corasick"),
    "mixed": ("line Like :p", [{"p": "disk1%"}, {"p": "%error_"}, {"p": "%\\%%"}, {"p": "d_sk0 %2"}], "sets of RE2"),
    "regex": (
        "line RLike :p",
        [
            {"p": "disk[12] .*2$"},
            {"p": "(?i)ERROR1"},
            {"p": "^d.*\\b"},
            {"p": "k(?=1)"},
            {"p": "\\s[a-e]r{2}or(1|2)"},
        ],
        "tested on what is found: line RLIKE p",
    ),
    "starts": ("startswith(line, :p)", [{"p": "disk1"}, {"p": ""}], "line prefix :p"),
    "contains": ("contains(line, :p)", [{"p": "error1"}, {"p": "1 e"}], "line contains :p"),
    "network": ("in_network(address, :p)", [{"p": "10.0.1.0/24"}, {"p": "10.0.0.0/22"}], "address network :p"),
    "equal": (
        "sensor = :s And abs(value - :p) < 50",
        [{"s": "s1", "p": 20.0}],
        "evaluated per rule: abs(value - p) < 50",
    ),
    "computed": ("value * 2 > :p", [{"p": 20.0}, {"p": 170.0}], "evaluated per rule: value * 2 > p"),
}
"""Conditions, rules, and a word of what `explain` says."""
TYPES = {"listed": {"names": "array<string>"}, "equal": {"p": "double"}, "computed": {"p": "double"}}


def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, COLUMNS)


def engine(spark: SparkSession) -> ab.Engine:
    made = ab.Engine(spark)
    made.stream("readings", frame(spark), timestamp="ts", sequence="seq")
    return made


def emitted(df: DataFrame) -> Counter[Any]:
    return Counter(tuple(row) for row in df.collect())


CHOSEN = 3


@pytest.fixture(scope="module")
def of_rules_and_queries(spark: SparkSession) -> tuple[dict[str, DataFrame], dict[str, DataFrame]]:
    """Of all templates with rules, and of the queries that say the same, each with what belongs to it."""
    together, alone = engine(spark), engine(spark)
    for name, template in TEMPLATES.items():
        assert together.rules(name, template).add_all(RULES[:CHOSEN]) == CHOSEN
        for each in RULES[:CHOSEN]:
            text = template.replace(":sensor", f"'{each['sensor']}'").replace(":limit", str(each["limit"]))
            alone.query(text, f"{name}_{each['rule']}")
    return together.run_batch(), alone.run_batch()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_rule_says_what_its_query_says_alone(
    name: str, of_rules_and_queries: tuple[dict[str, DataFrame], dict[str, DataFrame]]
) -> None:
    together, separate = of_rules_and_queries
    answers = together[name]
    assert answers.columns[0] == "rule"
    alone = (
        separate[f"{name}_{each['rule']}"].selectExpr(f"'{each['rule']}' AS rule", *answers.columns[1:])
        for each in RULES[:CHOSEN]
    )
    assert emitted(answers) == emitted(reduce(type(answers).unionAll, alone))


def literal(value: Any) -> str:
    return (
        f"array({', '.join(map(literal, value))})"
        if isinstance(value, list)
        else "Null"
        if value is None
        else repr(value)
    )


def test_what_an_index_finds_is_what_each_condition_finds_alone(spark: SparkSession) -> None:
    lines = frame(spark).selectExpr(
        "*", "concat('disk', seq % 5, ' error', seq % 3) AS line", "concat('10.0.', seq % 9, '.', seq % 200) AS address"
    )
    made, kept, alone = ab.Engine(spark), {}, {}
    made.stream("readings", lines, timestamp="ts", sequence="seq")
    for name, (condition, given, _) in OF_AN_INDEX.items():
        text = f"Select Istream(seq) From readings [Now] Where {condition}"
        kept[name] = made.rules(name, text, types=TYPES.get(name))
        kept[name].add_all([{"rule": f"r{place}"} | values for place, values in enumerate(given)])
        for place, values in enumerate(given):
            alone[name, f"r{place}"] = condition
            for parameter in sorted(values, key=len, reverse=True):
                alone[name, f"r{place}"] = alone[name, f"r{place}"].replace(f":{parameter}", literal(values[parameter]))
    spark.udf.register("in_network", in_network, "boolean")
    answers = made.run_batch()
    rows = lines.selectExpr("seq", *(f"({each}) AS c{place}" for place, each in enumerate(alone.values()))).collect()
    of_all = (answers[name].selectExpr(f"'{name}' AS name", "rule", "seq") for name in OF_AN_INDEX)
    got = emitted(reduce(type(lines).unionAll, of_all))
    for place, (name, rule) in enumerate(alone):
        found = sorted(seq for (of, by, seq), times in got.items() for _ in range(times) if (of, by) == (name, rule))
        assert found == sorted(row["seq"] for row in rows if row[f"c{place}"]), (name, rule)
    for name, (*_, words) in OF_AN_INDEX.items():
        assert words in kept[name].query.explain(), (name, kept[name].query.explain())


def test_an_index_takes_differences(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    made = ab.Engine(spark, tmp_path / "state")
    frame(spark).where("seq < 30").coalesce(1).write.parquet(str(folder))
    made.stream("readings", spark.readStream.schema(COLUMNS).parquet(str(folder)), timestamp="ts", sequence="seq")
    rules = made.rules("alerts", TEMPLATES["now"])
    rules.add_all({"rule": f"r{n}", "sensor": f"s{n % 5}", "limit": float(n % 90)} for n in range(300))
    rules.start().query.await_idle()
    for step in range(1, 4):
        rules.remove(f"r{step}")
        rules.add(rule=f"new{step}", sensor="s0", limit=-1.0)
        frame(spark).where(f"seq >= {30 * step} and seq < {30 * step + 30}").coalesce(1).write.mode("append").parquet(
            str(folder)
        )
        rules.query.await_idle()
    assert made._runtime._indexes.builds == 1
    assert "added later" in rules.query.explain()
    made.stop()
    got = Counter(row["rule"] for row in rules.query.to_dataframe().collect())
    for step in range(1, 4):  # the newest row still waits when rules change, and at the end
        assert got[f"new{step}"] == sum(s == "s0" for i, _, s, _ in ROWS if 30 * step <= i < 119)
        before = sum(s == f"s{step}" and v > step for i, _, s, v in ROWS if i < 30 * step)
        assert got[f"r{step}"] == before


def test_rules_come_and_go_at_an_instant(spark: SparkSession) -> None:
    made = engine(spark)
    rules = made.rules("alerts", "Select Istream(seq) From readings [Now] Where value >= :low And value < :high")
    rules.add(rule="early", low=0, high=100)
    rules.add_all([{"rule": "late", "low": 0.0, "high": 50.0}], at=ZERO + timedelta(seconds=40))
    assert rules.remove("early", at=ZERO + timedelta(seconds=80)) == 1
    assert rules.count() == 1
    got = emitted(made.run_batch()["alerts"].select("rule", "seq"))
    want = Counter({("early", i): 1 for i in range(80)})
    want += Counter(("late", i) for i, _, _, value in ROWS if i >= 40 and value < 50)
    assert got == want


def test_rules_of_a_stream_outlive_a_restart_and_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame(spark).where("seq < 60").coalesce(1).write.parquet(str(tmp_path / "in"))

    def started() -> Any:
        made = ab.Engine(spark, tmp_path / "state")
        source = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
        made.stream("readings", source, timestamp="ts", sequence="seq")
        return made, made.rules("alerts", TEMPLATES["now"])

    made, rules = started()
    rules.add_all(RULES)
    rules.start().query.await_idle()
    made.stop()
    made, rules = started()
    assert rules.count() == len(RULES)
    rules.remove("r1")
    rules.add(rule="new", sensor="s1", limit=-1.0)
    frame(spark).where("seq >= 60").coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    rules.start().query.await_idle()
    hour = rules["r2"].current(window="1 hour")
    made.stop()
    got = Counter(row["rule"] for row in rules.query.to_dataframe().collect())
    before = sum(s == "s1" and v > 13 for i, _, s, v in ROWS if i < 60)
    assert (got["r1"], got["new"]) == (before, sum(s == "s1" for i, _, s, _ in ROWS if 60 <= i < 119))
    assert hour.num_rows == sum(s == "s2" and v > 26 for i, _, s, v in ROWS if i < 119)
    assert hour.column_names == ["sensor", "value", "_ts"]


def test_rules_over_a_relation_in_cql(spark: SparkSession) -> None:
    made = engine(spark)
    made.relation("limits", spark.createDataFrame([("a", 90.0), ("b", 95.0)], "rule string, limit double"))
    made.execute(
        """
        Create Query alerts For Each rule In limits As Select Istream(value) From readings [Now] Where value > :limit;
        Insert Into limits Values ('c', 97.0);
        Delete From limits Where rule = 'a';
        """
    )
    got = Counter(row["rule"] for row in made.run_batch()["alerts"].collect())
    assert got == {"b": sum(v > 95 for *_, v in ROWS), "c": sum(v > 97 for *_, v in ROWS)}


def test_wrong_rules_are_refused_and_the_others_go_in(spark: SparkSession) -> None:
    made = engine(spark)
    rules = made.rules("alerts", "Select Istream(seq) From readings [Now] Where value > :limit")
    with pytest.raises(RulesRefused, match="3 of 4 rules are refused: 'bad': limit is 'high', not double") as caught:
        rules.add_all(
            [{"rule": "good", "limit": 5}, {"rule": "bad", "limit": "high"}, {"rule": "good", "limit": 6}, {"limit": 1}]
        )
    assert caught.value.added == 1
    with pytest.raises(QueryError, match="rule 'good' is refused: there is a rule 'good' already"):
        rules.add(rule="good", limit=1.0)
    with pytest.raises(QueryError, match="rule 'x' is refused: 'limt' is not a parameter"):
        rules.add(rule="x", limt=1.0)
    table = spark.createDataFrame(
        [("good", "1"), ("x", "2"), ("y", "much"), ("z", "3"), ("z", "4")], "rule string, limit string"
    )
    with pytest.raises(RulesRefused, match="3 of 4 rules are refused") as caught:
        rules.add_all(table)
    assert set(caught.value.refused) == {"good", "y", "z"}
    assert sorted(row["rule"] for row in rules.to_dataframe().collect()) == ["good", "x"]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("Select Istream(seq) From readings [Now] Where value > 3", "a template without parameters"),
        ("Select Istream(seq) From readings [Now] Where :a > :b", "the type of parameter ':a' is not known"),
        (
            "Select Istream(seq) From readings [Now] Where seq In (Select seq From readings [Rows 3] Where value > :x)",
            "parameter ':x' stands in a query within the template",
        ),
        ("Select Istream(seq) From readings [Now] Where valeu > :x", "the type of parameter ':x' is not known"),
    ],
)
def test_a_wrong_template_is_refused(template: str, words: str, spark: SparkSession) -> None:
    made = engine(spark)
    with pytest.raises(QueryError, match=words):
        made.rules("alerts", template)
    made.relation("limits", spark.createDataFrame([("a", 1.0)], "rule string, limit double"))
    with pytest.raises(QueryError, match="parameter ':most' is not a column of 'limits'"):
        made.rules("alerts", "Select Istream(seq) From readings [Now] Where value > :most", over="limits")
    assert "alerts" not in made.describe("relations")
