"""`anabranch demo`: a job by plain Spark and by an adaptive filter, watched, timed and compared; then two queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

import anabranch as ab
from anabranch.cli import demo_bank, demo_console, demo_query, demo_report, files, packets
from anabranch.cli.live import predicate_table, watch
from anabranch.cli.tables import rich_table
from anabranch.errors import InternalError
from anabranch.filter_report import FilterReport
from anabranch.model.prefixes import PrefixSet

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame, SparkSession

WARM_UP_SEED = 2023
WARM_UP_ROWS = 80_000
"""So many that Java has compiled most of what both sides need: the first side to run would pay for it."""


@dataclass(frozen=True)
class Run:
    """What one side took: seconds, and the rows that each predicate was called on."""

    seconds: float
    calls: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """Both sides on the same packets.

    `alerts` counts the packets that pass all predicates; `missing` and `surplus` those that only one side returned.
    """

    rows: int
    ours: Run
    plain: Run
    alerts: int
    missing: int
    surplus: int
    report: FilterReport
    explained: str

    @property
    def speed_up(self) -> float:
        """Time of plain Spark over ours."""
        return self.plain.seconds / self.ours.seconds

    @property
    def fewer_calls(self) -> float:
        """Predicate calls of plain Spark over ours."""
        return sum(self.plain.calls.values()) / sum(self.ours.calls.values())


class PlainFilter:
    """The same predicates as ordinary pandas UDFs, counted batch by batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._calls: dict[str, Accumulator[int]] = {}

    def apply(self, df: DataFrame) -> DataFrame:
        """The rows that pass every predicate, as one writes it in Spark."""
        from pyspark.sql import functions as F

        exposed = PrefixSet(packets.NETWORKS)
        return df.where(
            self._counted("signature", packets.signature)(F.col("payload"))
            & self._counted("score", lambda payload: packets.suspicious(packets.score(payload)))(F.col("payload"))
            & self._counted("encoded", packets.encoded)(F.col("payload"))
            & self._counted("anonymous", packets.anonymous)(F.col("payload"))
            & self._counted("exposed", exposed.contains, distinct=True)(F.col("dst"))
        )

    def calls(self) -> dict[str, int]:
        """Rows that each predicate was called on, in the tasks that have ended."""
        return {name: calls.value for name, calls in self._calls.items()}

    def _counted(self, name: str, function: Callable[[str], bool], *, distinct: bool = False) -> Callable[..., Column]:
        self._calls[name] = self._spark.sparkContext.accumulator(0)
        return _udf(function, "boolean", calls=self._calls[name], distinct=distinct)


def alert_filter() -> ab.Filter:
    """The five predicates of an alert, written the costly ones first."""
    return ab.Filter(
        ab.predicate(packets.signature, "payload"),
        ab.predicate(packets.score, "payload", returns="double", keep="score", test=packets.suspicious),
        ab.predicate(packets.encoded, "payload"),
        ab.predicate(packets.anonymous, "payload"),
        ab.lookup("dst", packets.NETWORKS, match="prefix", name="exposed"),
    )


def run(
    rows: int,
    report: Path,
    *,
    session: SparkSession | None = None,
    console: Console | None = None,
    serve: bool = False,
) -> Comparison:
    """Run the demo and write its report.

    Parameters
    ----------
    rows
        Packets to generate.
    report
        Where the HTML report goes.
    session
        Runs in this session; in one of its own, which is stopped at the end, if not given.
    serve
        Whether the console opens on the packets at the end, until it is interrupted.
    """
    console = console or Console(highlight=False)
    files.make_room(report)
    with _demo_session(session, console) as spark, TemporaryDirectory(prefix="anabranch-demo-") as folder:
        with console.status(f"writing {rows:,} packets"):
            hours = packets.write(Path(folder) / "packets", rows)
        compared = _compare(spark, hours, rows, Path(folder), console)
        _conclude(compared, console)
        demo_query.run(spark, hours, rows, Path(folder), console)
        demo_bank.run(spark, Path(folder), console)
        report.write_text(demo_report.page(compared), encoding="utf-8")
        console.print(f"How the order moved: [bold]{escape(str(report))}[/]", soft_wrap=True)
        if serve:
            demo_console.run(spark, hours, Path(folder), console)
    return compared


@contextmanager
def _demo_session(given: SparkSession | None, console: Console) -> Iterator[SparkSession]:
    """A session whose settings are apart from those of others."""
    if given is None:
        with console.status("starting Spark"):
            base = ab.local_session("anabranch-demo")
    else:
        base = given
    try:
        yield base.newSession()
    finally:
        if given is None:
            base.stop()


def _compare(spark: SparkSession, hours: list[Path], rows: int, folder: Path, console: Console) -> Comparison:
    _warm_up(spark, rows, folder, console)
    df = _read(spark, hours)
    ours, plain = alert_filter(), PlainFilter(spark)
    found, expected = ours.apply(df), plain.apply(df)
    seconds = watch(
        console,
        "Anabranch  ",
        lambda: found.write.parquet(str(folder / "ours")),
        lambda: ours.report().rows / rows,
        lambda: predicate_table(ours.report()),
        lambda: " > ".join(ours.report().order),
    )
    plain_seconds = watch(
        console,
        "plain Spark",
        lambda: expected.write.parquet(str(folder / "plain")),
        lambda: min(plain.calls().values()) / rows,
    )
    report = ours.report()
    with console.status("comparing both results"):
        alerts, missing, surplus = _difference(
            spark.read.parquet(str(folder / "ours")), spark.read.parquet(str(folder / "plain"))
        )
    called = {p.predicate: p.calls or 0 for p in report.predicates}
    return Comparison(
        rows,
        Run(seconds, called),
        Run(plain_seconds, plain.calls()),
        alerts,
        missing,
        surplus,
        report,
        ours.explain(df),
    )


def _read(spark: SparkSession, hours: list[Path]) -> DataFrame:
    """Hour after hour, and every file in a task of its own, so that tasks end steadily.

    In a single read, Spark would sort all files by their size, and the hours would mix.
    """
    spark.conf.set("spark.sql.files.minPartitionNum", max(len(list(hour.iterdir())) for hour in hours))
    return reduce(lambda all_before, hour: all_before.unionAll(hour), [spark.read.parquet(str(hour)) for hour in hours])


def _warm_up(spark: SparkSession, rows: int, folder: Path, console: Console) -> None:
    """Let both sides start their workers, load their modules and compile their plans before the clock runs."""
    with console.status("warming up both sides"):
        df = _read(spark, packets.write(folder / "warm-up", min(WARM_UP_ROWS, rows), seed=WARM_UP_SEED))
        for side in (alert_filter(), PlainFilter(spark)):
            side.apply(df).write.mode("overwrite").parquet(str(folder / "warmed-up"))


def _udf(
    function: Callable[[str], Any], returns: str, *, calls: Accumulator[int] | None = None, distinct: bool = False
) -> Callable[..., Column]:
    """A pandas UDF of a function; with `distinct`, it is called once per value in a batch, as our look-ups do it."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def judge(values: pd.Series) -> pd.Series:
        if calls is not None:
            calls.add(len(values))
        return values.map({v: function(v) for v in values.unique()} if distinct else function)

    judge.__annotations__ = {"values": pd.Series, "return": pd.Series}
    return pandas_udf(judge, returns)  # type: ignore[call-overload, no-any-return]


def _difference(ours: DataFrame, plain: DataFrame) -> tuple[int, int, int]:
    """Rows that both hold as bags, rows that ours lacks, and rows that it has beyond; scores are compared as well."""
    from pyspark.sql import functions as F

    scored = plain.withColumn("score", _udf(packets.score, "double")("payload"))
    both = ours.withColumn("_side", F.lit(1)).unionAll(scored.select(*ours.columns).withColumn("_side", F.lit(-1)))
    balance = both.groupBy(*ours.columns).agg(F.sum("_side").alias("over"), F.count("*").alias("copies"))
    totals: Any = balance.agg(
        F.sum((F.col("copies") - F.abs("over")) / 2).cast("long").alias("common"),
        F.sum(F.greatest(-F.col("over"), F.lit(0))).alias("missing"),
        F.sum(F.greatest(F.col("over"), F.lit(0))).alias("surplus"),
    ).first()
    return totals.common or 0, totals.missing or 0, totals.surplus or 0


def _conclude(compared: Comparison, console: Console) -> None:
    """Print the comparison; results that differ are our bug, whatever the times."""
    if compared.missing or compared.surplus:
        raise InternalError(
            f"the adaptive filter lacks {compared.missing:,} rows of plain Spark's and has {compared.surplus:,} others",
            hint="this must never happen; please report it",
        )
    sides, title = (("plain Spark", compared.plain), ("Anabranch", compared.ours)), f"{compared.rows:,} packets"
    rows = ((name, f"{side.seconds:.1f} s", f"{sum(side.calls.values()):,}") for name, side in sides)
    table = rich_table((title, "time", "predicate calls"), rows, left=(title,))
    table.add_section()
    table.add_row("plain / ours", f"[bold]{compared.speed_up:.1f}x[/]", f"[bold]{compared.fewer_calls:.1f}x[/]")
    console.print(table)
    console.print(f"Both returned the same {compared.alerts:,} packets (compared row by row, with their scores).")
    console.print(f"Both were warmed up on {min(WARM_UP_ROWS, compared.rows):,} other packets, then timed once.")
