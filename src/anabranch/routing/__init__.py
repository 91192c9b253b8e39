"""Content-based routing: tuples of different content take the operators in different orders, learned while running.

>>> ContentKnows.name, ContentLearns.name, SourceBased.name
('content_knows', 'content_learns', 'sbr')
"""

from __future__ import annotations

from anabranch.routing.content_knows import ContentKnows, best_orders
from anabranch.routing.content_learns import ContentLearns, Judged, LearningConfig, Profiled
from anabranch.routing.eddy import Eddy, Router, Tally, grouped
from anabranch.routing.gain_ratio import gain_ratio, significant
from anabranch.routing.partitioning import HashPartition, RangePartition
from anabranch.routing.sbr import Seen, SourceBased

__all__ = [
    "ContentKnows",
    "ContentLearns",
    "Eddy",
    "HashPartition",
    "Judged",
    "LearningConfig",
    "Profiled",
    "RangePartition",
    "Router",
    "Seen",
    "SourceBased",
    "Tally",
    "best_orders",
    "gain_ratio",
    "grouped",
    "significant",
]
