"""The names of what this reproduction compares."""

from __future__ import annotations

CALLS, TIME, BOUND, SBR, LEARNS = "Learns, routing calls", "Learns, time", "Knows, routing calls", "SBR", "Learns"
ROOM, SHARE, RATIO = "room sensors", "selectivity", "gain ratio of sensorID"
SENSOR, HOUR, OTHERS = "sensorID", "hour", "all others"
