"""An engine that answers growing files, with its console."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import anabranch as ab
from anabranch.console.service import serve
from console.stage import FAST, SCHEMA, Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "in").mkdir()
    engine = ab.Engine(spark, folder / "state", cells=2)
    engine.stream("calls", spark.readStream.schema(SCHEMA).parquet(str(folder / "in")), timestamp="ts")
    engine.relation("names", spark.createDataFrame([("h0", "web"), ("h1", "mail")], "host string, name string"))
    engine.function("large", lambda size: size > 20)
    engine.function("odd", lambda size: size % 2 == 1)
    busy = engine.query("Select host, Count(*) As n From calls [Range 1 Minute] Group By host", name="busy")
    engine.query("Select host, Count(*) As m From calls [Range 1 Minute] Group By host", name="twin").start()
    engine.query("Select host, size From calls Where large(size) And odd(size)", name="picked").start()
    busy.start()
    service = serve(engine, port=0, home=folder / "home", allow=[folder / "shared"], limits=FAST)
    found = Stage(engine, service, folder, spark)
    found.bring()
    busy.await_idle(600)
    yield found
    service.stop()
    engine.stop()
