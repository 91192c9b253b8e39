"""Small versions of the routing experiments: what the paper claims holds in direction, run after run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anabranch.reproduce.content import adaptivity, sensors, skew
from anabranch.reproduce.content.running import KNOWS, LEARNS, SBR, fewer, star
from anabranch.reproduce.content.streams import draw, random, skewed


@pytest.mark.parametrize("joins", [2, 6, 8])
@pytest.mark.parametrize("a", [0.05, 0.5, 0.95])
def test_five_percent_of_every_skewed_stream_find_all_partners(joins: int, a: float) -> None:
    selectivities = skewed(joins, a)
    assert selectivities.prod(axis=1) == pytest.approx(0.05)
    assert (np.diag(selectivities) == a).all()


def test_streams_have_the_selectivities_asked_for_and_nine_attributes() -> None:
    asked = random(4, seed=1, aggregate=0.2)
    assert asked.prod(axis=1) == pytest.approx(0.2)
    stream = draw(asked, 40_000, seed=1)
    found = np.stack([stream.outcomes[stream.columns[0] == c].mean(axis=0) for c in range(4)])
    assert found == pytest.approx(asked, abs=0.02)
    assert len(stream.columns) == 9


def test_skew_pays_and_the_bound_is_a_bound() -> None:
    found = skew.point(4, 0.05, tuples=40_000)
    assert found[KNOWS].calls < found[LEARNS].calls < found[SBR].calls
    assert fewer(found) > 0.35
    again = skew.point(4, 0.05, tuples=40_000)
    assert [again[name].calls for name in found] == [tally.calls for tally in found.values()]


def test_the_wrong_classifier_is_used_rarely() -> None:
    runs = [star(draw(random(4, seed), 40_000, seed), seed)[LEARNS] for seed in range(3)]
    wrong, calls = sum(run.wrong for run in runs), sum(run.calls for run in runs)
    assert wrong <= 0.064 * calls
    assert all(run.right + run.wrong + run.without == run.calls for run in runs)
    assert sum(run.right for run in runs) > 0.3 * calls


def test_the_sensor_tells_about_light_by_day_and_nothing_does_in_the_dark() -> None:
    lab = sensors.generated(days=1, minutes=2.0, seed=1)
    found = adaptivity.watch(lab)
    by_day = [each for each in found if each.selectivity > 0.1]
    assert sum(each.classifier == lab.names.index("sensorID") for each in by_day) > len(by_day) / 2
    assert all(each.classifier == -1 for each in found if each.selectivity == 0)


def test_range_queries_keep_at_least_half_of_every_reading() -> None:
    lab = sensors.generated(days=1, minutes=10.0, seed=1)
    passes = lab.ranges(seed=1)
    assert passes.shape == (54 * 144, 4)
    assert (passes.mean(axis=0) >= 0.499).all()
    assert sensors.room(Path("no/such/file")) is None


def test_the_real_room_is_read_where_it_is_at_hand() -> None:
    real = sensors.room()
    if real is None:
        pytest.skip(f"{sensors.ROOM} is not there")
    assert len(real.hours) == 20_560
    assert (np.diff(real.hours) >= 0).all()
