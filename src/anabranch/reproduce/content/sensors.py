"""Sensor readings for the Lab queries: 54 generated sensors, and a real room where its data is at hand.

>>> lab = generated(days=1, minutes=30, seed=1)
>>> lab.names, len(lab.readings["light"])
(('sensorID', 'day', 'hour', 'minute'), 2592)

Differs from the paper
----------------------
The trace of the Berkeley lab is not at hand. The generated sensors have its traits: daylight that reaches some sensors
and not others, lamps in working hours, temperature and humidity that follow with a delay, batteries that run down.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.routing.content_learns import Kind
from anabranch.routing.partitioning import Column

ROOM = Path("../shared/data/room_occupancy.csv.gz")
SENSORS = 54
BRIGHT = 500.0
OUTER_QUARTER = 0.25


@dataclass(frozen=True)
class Sensors:
    """Readings in order of time, and the attributes that may classify them."""

    readings: Mapping[str, Floats]
    attributes: Mapping[str, Column]
    hours: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(self.attributes)

    @property
    def columns(self) -> list[Column]:
        """The attributes."""
        return list(self.attributes.values())

    @property
    def kinds(self) -> list[Kind]:
        """How to partition the attributes."""
        return ["continuous" if column.dtype.kind == "f" else "discrete" for column in self.columns]

    def bright(self) -> BoolMatrix:
        """Query Q1: is there more light than 500?"""
        return (self.readings["light"] > BRIGHT)[:, np.newaxis]

    def ranges(self, seed: int) -> BoolMatrix:
        """A query Q2: each reading between one of its lowest and one of its highest quarter of values."""
        rng = np.random.default_rng([66, seed])
        passes = []
        for values in self.readings.values():
            low, high = np.quantile(values, [rng.uniform(0, OUTER_QUARTER), 1 - rng.uniform(0, OUTER_QUARTER)])
            passes.append((values >= low) & (values <= high))
        return np.stack(passes, axis=1)


def generated(days: int, minutes: float, seed: int) -> Sensors:
    """54 sensors that report every so many minutes, in any order."""
    rng = np.random.default_rng([54, seed])
    rounds = int(days * 24 * 60 / minutes)
    sensor = np.concatenate([rng.permutation(SENSORS) for _ in range(rounds)])
    hours = np.repeat(np.arange(rounds) * minutes / 60.0, SENSORS)
    noise = rng.normal(size=(3, len(hours)))
    window, office, warm, battery = rng.beta(0.6, 0.9, SENSORS), rng.random(SENSORS), *rng.normal(size=(2, SENSORS))
    clock = hours % 24
    sun = np.maximum(np.sin((clock - 6.5) / 12.0 * np.pi), 0.0)
    lamps = ((clock > 8 + 2 * office[sensor]) & (clock < 17 + 4 * office[sensor])) * (office[sensor] > 0.35)
    light = 1500 * window[sensor] * sun * (1 + 0.1 * noise[0]) + 350 * lamps + rng.exponential(3.0, len(hours))
    heat = np.sin((clock - 9.5) / 12.0 * np.pi)
    temperature = 21 + 1.5 * warm[sensor] + (1 + 3 * window[sensor]) * heat + 0.2 * noise[1]
    humidity = 40 - 1.4 * (temperature - 21) + 2 * battery[::-1][sensor] + 0.4 * noise[2]
    voltage = 2.65 - 0.01 * hours / 24 + 0.05 * battery[sensor] + 0.005 * (temperature - 21)
    return Sensors(
        {"light": light, "temperature": temperature, "humidity": humidity, "voltage": voltage},
        {"sensorID": sensor, **_calendar(hours)},
        hours,
    )


def room(path: Path = ROOM) -> Sensors | None:
    """The real room, if its file is there: a reading a minute, with CO2 in place of the voltage."""
    if not path.exists():
        return None
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    start = datetime.fromisoformat(rows[0]["ts"]).replace(hour=0, minute=0, second=0)
    hours = np.array([(datetime.fromisoformat(row["ts"]) - start).total_seconds() / 3600 for row in rows])
    readings = {
        name: np.array([float(row[name]) for row in rows]) for name in ("light", "temperature", "humidity", "co2")
    }
    occupied = np.array([int(row["occupied"]) for row in rows])
    return Sensors(readings, {"occupied": occupied, **_calendar(hours)}, hours)


def _calendar(hours: Floats) -> dict[str, Column]:
    day, hour = (hours // 24).astype(np.int64), (hours % 24).astype(np.int64)
    return {"day": day, "hour": hour, "minute": (hours * 60 % 60).astype(np.int64)}
