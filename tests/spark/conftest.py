"""What the tests of the Spark layer share: data, bags of rows, and a record of calls that survives the worker."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

ROWS = 3000


@pytest.fixture(scope="module", autouse=True)
def functions_of_tests_travel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import a test module, so that its functions are sent whole."""
    module: ModuleType = request.module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    yield
    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> DataFrame:
    """A few thousand rows of many types, with NULLs, in three partitions."""
    number = F.col("id")
    made = spark.range(0, ROWS, 1, 3).select(
        "id",
        F.when(number % 17 == 0, None).otherwise(number % 100).cast("int").alias("a"),
        F.when(number % 29 == 0, float("nan")).otherwise(number % 1000 / 1000).alias("b"),
        F.when(number % 13 == 0, None).otherwise(F.concat(F.lit("packet-"), number.cast("string"))).alias("text"),
        F.concat(F.lit("10."), (number % 5).cast("string"), F.lit(".0.7")).alias("dst"),
        F.when(number % 11 == 0, None).otherwise(F.array(number % 3, number % 7)).alias("list"),
    )
    return made.cache()


@pytest.fixture(scope="session")
def connect_address(spark: SparkSession) -> Iterator[str]:
    """Of a server of Spark Connect in the Java process of the shared session: no other one has to start."""
    pytest.importorskip("grpc")
    if not hasattr(F, "arrow_udf"):
        pytest.skip("Spark 4.0 has no Arrow UDFs, which filters need on Spark Connect")
    java = spark._jvm
    assert java is not None
    context = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", "0")
    service = getattr(getattr(java.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    yield f"sc://localhost:{service.localPort()}"
    nobody = getattr(java.scala, "None$")
    service.stop(getattr(nobody, "MODULE$"), getattr(nobody, "MODULE$"))


@pytest.fixture(scope="session")
def bag() -> Callable[[DataFrame], Counter[str]]:
    """Rows of a DataFrame without their order: each with its multiplicity."""
    return lambda df: Counter(map(repr, df.collect()))


@pytest.fixture
def recorder(tmp_path: Path) -> Callable[[str], tuple[Callable[[Any], None], Callable[[], list[Any]]]]:
    """Makes pairs of functions: one notes a value from anywhere, one returns all that were noted."""

    def make(name: str) -> tuple[Callable[[Any], None], Callable[[], list[Any]]]:
        path = str(tmp_path / f"{name}.calls")

        def note(value: Any) -> None:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(handle, json.dumps(value).encode() + b"\n")
            os.close(handle)

        def noted() -> list[Any]:
            return [json.loads(line) for line in Path(path).read_text().splitlines()] if os.path.exists(path) else []

        return note, noted

    return make


@pytest.fixture
def settings_of(spark: SparkSession) -> Callable[..., Any]:
    """A context in which some settings of the session differ."""

    @contextmanager
    def changed(**settings: Any) -> Iterator[None]:
        keys = {name.replace("__", "."): value for name, value in settings.items()}
        before = {key: spark.conf.get(key) for key in keys}
        for key, value in keys.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                spark.conf.set(key, str(old))

    return changed


@pytest.fixture
def clocks_of() -> Callable[[str], Any]:
    """A context in which this process is in another time zone; workers stay in that of the session's start."""

    @contextmanager
    def changed(zone: str) -> Iterator[None]:
        before = os.environ.get("TZ")
        os.environ["TZ"] = zone
        time.tzset()
        try:
            yield
        finally:
            os.environ.pop("TZ")
            if before is not None:
                os.environ["TZ"] = before
            time.tzset()

    return changed


@pytest.fixture
def batch_rows(spark: SparkSession) -> Iterator[Callable[[int], None]]:
    """Sets how many rows Spark puts into one Arrow batch."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    yield lambda most: spark.conf.set(key, most)
    spark.conf.set(key, str(before))
