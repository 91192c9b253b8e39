"""The one factory of local Spark sessions: quiet, in UTC, sized for one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import MissingExtra
from anabranch.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY_MEBIBYTES = 2048
ARROW_ROWS = 65_536
LOG_FILES = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(app: str = "anabranch", cores: int | None = None, **config: object) -> SparkSession:
    """Start a Spark session inside this process, or return the one that is running.

    It finds Java (see `anabranch.spark.java`), lets the workers run on this very Python, works in UTC, shows neither a
    web page nor progress bars, and logs errors only. On a session that was running already, only the settings that
    Spark can change at run time take effect.

    Parameters
    ----------
    app
        Name of the application, as Spark's logs show it.
    cores
        Worker threads; all cores of the machine if not given.
    config
        Further Spark settings by their full names; they win over ours.

    >>> spark = local_session(cores=2, **{"spark.sql.shuffle.partitions": 2})
    >>> spark.range(10).where("id % 2 = 0").count()
    5
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as missing:
        raise MissingExtra("pyspark", "spark", needed_for="a Spark session") from missing
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app).master(f"local[{cores or '*'}]")
    for key, value in _settings(cores or os.cpu_count() or 1, config).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def own_session(spark: SparkSession, partitions: int) -> SparkSession:
    """A session beside the user's, with its settings and functions: what is set here changes nothing there.

    Plans of ticks are small and known, so they are not planned anew while they run, and batches for workers are large.
    """
    session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # has smallest and largest values
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")  # no job to list known files
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")  # takes time exponential in many conditions
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ARROW_ROWS))
    return session


@contextmanager
def light_logs(spark: SparkSession) -> Iterator[None]:
    """Streams that are started here write their logs on a local disk as plain files that are renamed.

    Spark's own way keeps a file of checksums beside each file and calls a command of the system for every file that it
    makes: half of what Spark needs between two batches. Settings of the user are left as they are.
    """
    wanted = LOCAL_FILES | {LOG_FILES: _renaming_files(spark)}
    ours = {key: value for key, value in wanted.items() if spark.conf.get(key, None) is None}
    for key, value in ours.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in ours:
            spark.conf.unset(key)


def _renaming_files(spark: SparkSession) -> str:
    """The class by which Spark writes logs through Hadoop's simple interface; it has moved between versions."""
    from py4j.java_gateway import JavaClass

    assert spark._jvm is not None
    streaming = spark._jvm.org.apache.spark.sql.execution.streaming
    name = "FileSystemBasedCheckpointFileManager"
    moved = isinstance(getattr(streaming.checkpointing, name), JavaClass)
    return f"org.apache.spark.sql.execution.streaming.{'checkpointing.' if moved else ''}{name}"


def _settings(cores: int, config: dict[str, object]) -> dict[str, str]:
    ours = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory()}m",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    settings = ours | {key: _spelled(value) for key, value in config.items()}
    java_options = settings.get("spark.driver.extraJavaOptions", "")
    quiet = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    return settings | {"spark.driver.extraJavaOptions": f"{quiet} {java_options}".rstrip()}


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _driver_memory() -> int:
    """Mebibytes for Spark's process: ours, but at most half of the machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(DRIVER_MEMORY_MEBIBYTES, memory // 2)
