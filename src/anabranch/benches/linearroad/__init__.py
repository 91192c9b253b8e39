"""Linear Road: cars on expressways report where they are, hear of accidents, and pay tolls where the road is full.

`linear_road.cql` has the queries, after those that were published for the benchmark. `validate` answers them by
driving through the reports one instant after the other, with dictionaries; it knows neither CQL nor our engine.
`anabranch bench linearroad` finds out how many expressways are answered in time.

Notes
-----
A car reports every 30 seconds. A segment is a mile of one direction of one expressway, and `sid` names it among all
of them: ``128 * (2 * xway + dir)`` plus the miles from where that direction begins. So the segments ahead of a car
have the next higher numbers, and the last segment of a road has no follower.

Differs from the benchmark: travel times, which need history that it does not give, are left out; the volume of a
segment is the number of cars whose last report, at most 30 seconds old, came from there (not the cars of the last
minute); one stopped car makes an accident, as in the published CQL; tolls are those of the instant, not of the last
full minute; the expenses of a day are those of the last 24 hours. Our traffic is simulated by ourselves.

References
----------
S. Babu: Adaptive query processing in data stream management systems (thesis, 2005), section 6.11, figure 6.19.
A. Arasu, S. Babu, J. Widom: The CQL continuous query language, VLDB Journal 15 (2006).
A. Arasu and others: Linear Road, a stream data management benchmark, VLDB 2004.
"""

from pathlib import Path

from anabranch.benches.linearroad.answers import RELATIONS, STREAMS, Row, relation_at, validate
from anabranch.benches.linearroad.inputs import Inputs, asked, inputs
from anabranch.benches.linearroad.queries import ANSWERS, MANY_MANY, MANY_ONE, QUERIES, SPATIAL, Rules, queries, script
from anabranch.linear_road_traffic import generate

__all__ = [
    "ANSWERS",
    "MANY_MANY",
    "MANY_ONE",
    "QUERIES",
    "RELATIONS",
    "SPATIAL",
    "STREAMS",
    "Inputs",
    "Row",
    "Rules",
    "asked",
    "generate",
    "inputs",
    "queries",
    "relation_at",
    "script",
    "validate",
]


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Find out how many expressways are answered in time: see `sustained.py`."""
    from anabranch.benches.linearroad import sustained  # starts Spark

    return sustained.main(quick=quick, json_path=json_path)
