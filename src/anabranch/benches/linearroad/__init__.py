"""Linear Road, reduced: cars on expressways report where they are, and pay tolls where the road is full.

The queries are those that the thesis measures (*CurCarSeg*, *AccSeg*, *CarExitStr*, *NegTollStr*), with the tolls of
the benchmark. `validate` answers them by driving through the reports one instant after the other, with
dictionaries; it knows neither CQL nor our engine.

Notes
-----
A car reports every 30 seconds. A segment is a mile of one direction of one expressway, and `sid` names it among all
of them: ``128 * (2 * xway + dir)`` plus the miles from where that direction begins. So the segments ahead of a car
have the next higher numbers, and the last segment of a road has no follower.

Differs from the benchmark: there are no balances and no travel times; the volume of a segment is the number of cars
whose last report, at most 30 seconds old, came from there (not the cars of the last minute); one stopped car makes an
accident, as in the thesis; tolls are those of the instant, not of the last full minute.

References
----------
S. Babu: Adaptive query processing in data stream management systems (thesis, 2005), section 6.11, figure 6.19.
A. Arasu, S. Babu, J. Widom: The CQL continuous query language, VLDB Journal 15 (2006).
A. Arasu and others: Linear Road, a stream data management benchmark, VLDB 2004.
"""

from anabranch.benches.linearroad.answers import Row, relation_at, validate
from anabranch.benches.linearroad.queries import QUERIES, Rules, queries
from anabranch.linear_road_traffic import generate

__all__ = ["QUERIES", "Row", "Rules", "generate", "queries", "relation_at", "validate"]
