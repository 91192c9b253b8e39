"""Advice about queries that are registered, and what becomes of them when it is followed; queries as rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("rich")

from pyspark.sql import DataFrame
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.commands import app
from anabranch.engine.network import sharing
from anabranch.engine.sysqueries import SCHEMA, sys_queries
from anabranch.workload.plan_operators import operators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(i, ZERO + timedelta(seconds=i), f"h{i % 5}", f"h{i % 3}", i * 37 % 100) for i in range(120)]
COUNT = "Select dst, Count(*) As n From packets [{}] Group By dst"
TEXTS = {
    "count": COUNT.format("Range 30 Seconds"),
    "again": "Select dst As d, Count(*) As many From packets [Range 30 Seconds] Group By dst",
    "often": COUNT.format("Range 30 Seconds") + " Having Count(*) > 4",
    "more_often": COUNT.format("Range 30 Seconds") + " Having Count(*) > 3",
    "entering": "Select Istream(dst, Count(*) As n) From packets [Range 30 Seconds] Group By dst",
    "pairs": "Select Istream(a.dst, b.size) From packets [Range 9 Seconds] a, packets [Now] b Where a.size = b.size",
    "couples": """Select x.dst, Count(*) As n From packets [Range 9 Seconds] x, packets [Now] y
                  Where x.size = y.size Group By x.dst""",
    "latest": "Select dst, Sum(size) As s From packets [Partition By dst Rows 2] Where size < 9 Group By dst",
    "newest": "Select dst, Sum(size) As t From packets [Partition By dst Rows 2] Where size < 8 Group By dst",
    "plain": "Select dst, size From packets Where size > 50",
}
SCRIPT = """
Create Stream packets (seq Long, ts Timestamp, src String, dst String, size Long, flags String)
    From 'parquet' With (path = 'nowhere', retain = '1 hour') Timestamp TS Sequence seq;
Create Stream ticks From 'rate' Timestamp timestamp;
Create Query busy As Select dst, Count(*) As n From packets [Range 10 Minutes] Group By dst;
Create Query gone As Select src, flags From packets [Now];
Create View recent As Select dst From packets [Range 1 Minute] Where size > 4;
Create Query high As Select value From ticks [Now] Where value > 100;
Drop Query gone;
Select src From packets [Now];
"""


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    made = spark.createDataFrame(ROWS, "seq long, ts timestamp, src string, dst string, size long").persist()
    made.count()
    return made


def engine(spark: SparkSession, frame: DataFrame, **texts: str) -> ab.Engine:
    made = ab.Engine(spark)
    made.stream("packets", frame, timestamp="ts", sequence="seq")
    for name, text in texts.items():
        made.query(text, name=name)
    return made


def test_operators_that_are_equal_as_texts_are_one_in_the_engine(spark: SparkSession, frame: DataFrame) -> None:
    made = engine(spark, frame, **TEXTS)
    found = {name: {each.identity() for each in operators(query.query)} for name, query in made.queries.items()}
    shared = {name: set(made._runtime.signatures(name).values()) for name in made.queries}
    alike = {pair for pair in combinations(TEXTS, 2) if found[pair[0]] & found[pair[1]]}
    assert alike == {("count", "again"), ("often", "more_often"), ("pairs", "couples"), ("latest", "newest")}
    assert all(shared[one] & shared[other] for one, other in alike)


def test_queries_whose_windows_are_made_equal_share(spark: SparkSession, frame: DataFrame) -> None:
    texts = {length: COUNT.format(f"Range {length} Seconds Slide 5 Seconds") for length in (20, 18)}
    made = engine(spark, frame, a=texts[20], b=texts[18])
    [found] = [each for each in made.advise().findings if each.kind == "equal windows"]
    assert found.change == (
        "in b, write packets [Range 20 Seconds Slide 5 Seconds] instead of [Range 18 Seconds Slide 5 Seconds]"
    )
    made.query(texts[20], name="changed")
    a, b, changed = (set(made._runtime.signatures(name).values()) for name in ("a", "b", "changed"))
    assert a == changed
    assert not a & b


def test_a_query_that_is_made_to_slide_is_summed_up(spark: SparkSession, frame: DataFrame) -> None:
    made = engine(spark, frame, busy=COUNT.format("Range 20 Seconds"))
    [found] = made.advise().findings
    assert found.change == "in busy, write packets [Range 20 Seconds Slide 1 Second], before the stream starts"
    [shown] = made.execute("Show Advice")
    assert shown.startswith("1. slide: busy\n")
    assert "summed up" not in made.queries["busy"].explain()
    made = engine(spark, frame, busy=COUNT.format("Range 20 Seconds Slide 1 Second"))
    assert made.queries["busy"].explain().endswith("summed up as rows come: packets")
    assert made.advise().findings == ()


@pytest.mark.full(reason="runs three queries, and then one in their stead")
def test_queries_with_other_constants_are_one_over_a_relation_of_them(spark: SparkSession, frame: DataFrame) -> None:
    text = "Select dst, Count(*) As n From packets [Range 9 Seconds] Where size > {} And src = '{}' Group By dst"
    rules = [("a", 40, "h0"), ("b", 90, "h1"), ("c", 40, "h2")]
    made = engine(spark, frame, **{name: text.format(size, src) for name, size, src in rules})
    [found] = made.advise().findings
    assert "packets.size > rules.c1 And packets.src = rules.c2; Group By rules.query, too" in found.change
    folded = engine(spark, frame)
    folded.relation("rules", spark.createDataFrame(rules, "query string, c1 long, c2 string"))
    folded.query(
        """Select rules.query, packets.dst, Count(*) As n From packets [Range 9 Seconds], rules
           Where packets.size > rules.c1 And packets.src = rules.c2 Group By rules.query, packets.dst""",
        name="q",
    )
    answers = made.run_batch()
    apart = Counter((name, *row) for name, answer in answers.items() for row in answer.collect())
    assert Counter(map(tuple, folded.run_batch()["q"].collect())) == apart


def test_retained_columns_are_found_and_those_of_queries_that_do_not_share_are_read(
    spark: SparkSession, frame: DataFrame
) -> None:
    made = ab.Engine(spark)
    made.stream("packets", frame, timestamp="ts", sequence="seq", retain="1 hour")
    made.query("Select dst From packets [Now]", name="a")
    made.query("Select src From packets [Now]", name="b", share=False)
    [found] = made.advise().findings
    assert found.change == "register packets without them: df.drop('size')"


def test_queries_are_rows(spark: SparkSession, frame: DataFrame) -> None:
    text = COUNT.format("Range 30 Seconds") + " Having Count(*) > {}"
    made = engine(spark, frame, a=text.format(3), b=text.format(4), c="Select dst, size From packets Where size > 50")
    made.query("Select src, Max(size) As m From packets Group By src", name="grows")
    fresh = sys_queries(made._registry, made._manifest, {})
    assert [row[1] for row in fresh] == ["registered"] * 4
    answers = made.run_batch()
    rows = spark.createDataFrame(sys_queries(made._registry, made._manifest, made._runner.reports), SCHEMA)
    a, b, c, grows = rows.orderBy("name").collect()
    assert (a.status, a.streams, a.windows, a.aggregates) == (
        "ended",
        ["packets"],
        ["packets [range 30 seconds]"],
        ["count(*)"],
    )
    assert (a.columns, a.conditions, c.conditions) == (["packets.dst"], ["count(*) > 3"], ["packets.size > 50"])
    assert a.shared_nodes == b.shared_nodes == list(sharing(made._manifest))
    assert c.shared_nodes == []
    assert a.rows == answers["a"].count()
    assert a.state_bytes > 0
    assert a.seconds > 0
    assert (c.state_bytes, c.seconds, c.text) == (0, 0.0, "Select dst, size From packets Where size > 50")
    reading = rows.where("array_contains(columns, 'packets.dst')").orderBy("name").collect()
    assert [row.name for row in reading] == ["a", "b", "c"]
    [found] = [each for each in made.advise().findings if each.kind == "unbounded state"]
    assert found.why.endswith(f" rows, {grows.state_bytes / 1e6:.1f} MB by now")


def test_advice_on_a_file(tmp_path: Path) -> None:
    script, out = tmp_path / "queries.cql", tmp_path / "new" / "advice.json"
    script.write_text(SCRIPT)
    done = CliRunner().invoke(app, ["advise", str(script), "--json", str(out)], env={"COLUMNS": "300"})
    assert done.exit_code == 0
    assert "no query reads size and flags of packets" in done.stdout
    assert "in busy, write packets [Range 10 Minutes Slide 1 Minute], before the stream starts" in done.stdout
    shown = json.loads(out.read_text())
    assert [each["kind"] for each in shown["findings"]] == ["unread columns", "slide"]
    assert [each["name"] for each in shown["features"]] == ["busy", "high", "query_3"]


def test_a_file_with_nothing_to_change_says_so_and_one_without_queries_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "queries.cql"
    script.write_text("Create Stream ticks From 'rate' Timestamp timestamp; Select value From ticks [Now]")
    assert CliRunner().invoke(app, ["advise", str(script)]).stdout == "nothing to change\n"
    script.write_text("Create Stream ticks From 'rate' Timestamp timestamp")
    refused = CliRunner().invoke(app, ["advise", str(script)])
    assert "queries.cql has no query" in str(refused.exception)
