"""The demo from end to end, on few rows and in the session of the tests."""

from __future__ import annotations

import io
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from anabranch.cli import demo, demo_bank, demo_console, demo_query, packets
from anabranch.cli.live import watch
from anabranch.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
NAMES = ["signature", "score", "encoded", "anonymous", "exposed"]


def test_demo_compares_both_sides_and_writes_its_report(spark: SparkSession, tmp_path: Path) -> None:
    out, report = io.StringIO(), tmp_path / "new [/1]" / "demo.html"
    compared = demo.run(ROWS, report, session=spark, console=Console(file=out, width=100))
    assert (compared.missing, compared.surplus) == (0, 0)
    assert compared.alerts == _alerts(ROWS)
    assert compared.plain.calls == dict.fromkeys(NAMES, ROWS)
    assert list(compared.ours.calls) == NAMES
    assert compared.fewer_calls > 1.5
    assert compared.report.rows == ROWS
    assert f"{compared.fewer_calls:.1f}x" in out.getvalue()
    assert f"the same {compared.alerts:,} packets" in out.getvalue()
    assert "100%  " in out.getvalue()
    assert out.getvalue().endswith(f"How the order moved: {report}\n")
    assert "signature" in report.read_text(encoding="utf-8")
    assert spark.range(3).count() == 3


def test_the_bank_says_that_the_sum_of_all_balances_is_always_0(spark: SparkSession, tmp_path: Path) -> None:
    out = io.StringIO()
    found = demo_bank.run(spark, tmp_path, Console(file=out, width=100))
    assert len(found) > demo_bank.TRANSFERS // 4
    assert set(found) == {0}
    assert f"at each of {len(found)} instants: 0" in out.getvalue()


def test_the_console_shows_the_packets_as_they_come(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from console.stage import await_true, client_of

    hours, out, seen = list(packets.write(tmp_path / "packets", 4_000)), io.StringIO(), []

    def look(service: Any) -> None:
        viewer = client_of(service, service._access.viewer)
        await_true(lambda: viewer.get("/api/queries/busy/rows")["rows"])
        seen.extend(viewer.get("/api/queries")["queries"])

    demo_console.run(spark, hours, tmp_path, Console(file=out, width=200), wait=look, home=tmp_path / "home")
    assert sorted(each["name"] for each in seen) == ["busy", "suspicious", "traffic"]
    assert "http://127.0.0.1:" in out.getvalue()


def test_the_continuous_query_says_what_the_packets_of_each_half_hour_say(spark: SparkSession, tmp_path: Path) -> None:
    out, hours = io.StringIO(), list(packets.write(tmp_path / "packets", ROWS))
    found = demo_query.run(spark, hours, ROWS, tmp_path, Console(file=out, width=100))
    rows = spark.read.parquet(*map(str, hours)).select("ts", "dst", "src").collect()
    half, last = timedelta(minutes=30), max(row.ts for row in rows)
    least, wanted = int(demo_query.WORTH_TELLING * ROWS / (2 * len(hours))), []
    at = min(row.ts for row in rows).replace(minute=0, second=0, microsecond=0)
    while at < last:
        recent = [(".".join(row.dst.split(".")[:2]), row.src) for row in rows if at - half <= row.ts <= at]
        counted = Counter(net for net, _ in recent)
        busy = sorted(net for net, n in counted.items() if n > least)
        wanted += [(net, counted[net], len({src for of, src in recent if of == net}), at) for net in busy]
        at += half
    assert [tuple(row) for row in found] == wanted
    assert wanted
    assert f"{wanted[-1][1]:,}" in out.getvalue()


def test_difference_counts_rows_as_bags(spark: SparkSession) -> None:
    payload = "session=none (![]+[])[+!![]]^{}[[]]"
    scores = {text: packets.score(text) for text in (payload, "order")}
    ours = spark.createDataFrame(
        [
            (1, payload, scores[payload]),
            (1, payload, scores[payload]),
            (2, "order", 0.9),
            (3, "order", scores["order"]),
        ],
        "seq int, payload string, score double",
    )
    plain = spark.createDataFrame([(1, payload), (2, "order"), (3, "order"), (4, "order")], "seq int, payload string")
    assert demo._difference(ours, plain) == (2, 2, 2)
    assert demo._difference(ours.limit(0), plain.limit(0)) == (0, 0, 0)


def test_results_that_differ_are_an_error() -> None:
    report = demo.alert_filter().report()
    differ = demo.Comparison(10, demo.Run(1.0, {}), demo.Run(1.0, {}), 8, 1, 0, report, "")
    with pytest.raises(InternalError, match="lacks 1 rows of plain Spark's and has 0 others"):
        demo._conclude(differ, Console(file=io.StringIO()))


def test_a_terminal_sees_a_bar_and_the_table_of_predicates() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    seconds = watch(console, "some job", lambda: None, lambda: 1.0, lambda: "below the bar")
    assert seconds >= 0
    assert "100%" in out.getvalue()
    assert "below the bar" in out.getvalue()


def test_a_job_that_fails_is_an_error_of_the_caller() -> None:
    def fail() -> None:
        raise ValueError("no such luck")

    with pytest.raises(ValueError, match="no such luck"):
        watch(Console(file=io.StringIO()), "some job", fail, lambda: 0.0)


def _alerts(rows: int) -> int:
    """Packets that pass, judged one by one without Spark."""
    import tempfile

    import pyarrow.parquet as pq

    from anabranch.model.prefixes import PrefixSet

    exposed, passed = PrefixSet(packets.NETWORKS), 0
    with tempfile.TemporaryDirectory() as folder:
        for hour in packets.write(Path(folder), rows):
            table = pq.read_table(hour, columns=["dst", "payload"], partitioning=None)
            for dst, payload in zip(table["dst"].to_pylist(), table["payload"].to_pylist(), strict=True):
                passed += (
                    packets.anonymous(payload)
                    and exposed.contains(dst)
                    and packets.encoded(payload)
                    and packets.signature(payload)
                    and packets.suspicious(packets.score(payload))
                )
    return passed
