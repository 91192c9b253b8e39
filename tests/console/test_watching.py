"""Filters without an engine are shown, too; and looking waits for nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from console.stage import Stage, await_true, client_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_watched_filter_shows_how_its_order_changes(spark: SparkSession, tmp_path: Path) -> None:
    def costly(number: int) -> bool:
        return sum(range(2_000)) > number

    watched = ab.Filter(
        ab.predicate(costly, "id", name="costly"), ab.predicate(lambda number: number % 50 == 0, "id", name="rare")
    )
    with ab.watch(watched, "numbers", home=tmp_path) as service:
        assert ab.watch(watched, "again", home=tmp_path) is service
        viewer = client_of(service, service._access.viewer)
        assert viewer.get("/api/overview")["engine"] is False
        assert viewer.ask("GET", "/api/plans").status == 404
        assert watched.apply(spark.range(0, 20_000, 1, 2)).count() == 400
        await_true(lambda: viewer.get("/api/events?filter=numbers&kind=Reordered")["events"])
        (card, *_) = viewer.get("/api/events?filter=numbers&kind=Reordered")["events"]
        assert (card["before"], card["after"]) == (["costly", "rare"], ["rare", "costly"])
        found = viewer.get("/api/filters/numbers")
        assert found["order"] == ["rare", "costly"]
        assert found["frames"][-1]["order"] == ["rare", "costly"]
        assert found["evaluations"] == watched.report().evaluations
    assert not service.running


def test_looking_waits_for_no_tick(stage: Stage) -> None:
    looked = threading.Thread(target=stage.service._hub.look)
    with stage.engine._loop.between_ticks():  # as long as a tick, or a change, holds the engine
        looked.start()
        looked.join(120)
        assert not looked.is_alive()
        assert stage.viewer.get("/api/queries/busy")["status"] == "running"
        assert stage.viewer.get("/api/queries/busy/rows")["rows"]
        assert stage.viewer.ask("GET", "/metrics").status == 200
