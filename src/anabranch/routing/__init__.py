"""Content-based routing: tuples of different content take the operators in different orders, learned while running.

This package has what runs in a worker: what a plan of routes is (`route_plan`), the loop that finds, tries, runs and
gives up routes while rows pass (`routed` and the modules that it names), the classes of values that tell rows apart
(`class_learner`, `value_classes`), and the routers of the paper on Content-Based Routing (`content_learns`, `sbr`,
`content_knows`), which `eddy` runs over known outcomes. The search for routes on the driver is in `mesh`, the policies
that keep one order good are in `ordering`.

>>> ContentKnows.name, ContentLearns.name, SourceBased.name
('content_knows', 'content_learns', 'sbr')
"""

from __future__ import annotations

from anabranch.routing.content_knows import ContentKnows, best_orders
from anabranch.routing.content_learns import ContentLearns, LearningConfig, Profiled, TrialEnded
from anabranch.routing.eddy import Eddy, EddyRun, Router, grouped
from anabranch.routing.gain_ratio import gain_ratio, significant
from anabranch.routing.partitioning import HashPartition, RangePartition
from anabranch.routing.sbr import Seen, SourceBased

__all__ = [
    "ContentKnows",
    "ContentLearns",
    "Eddy",
    "EddyRun",
    "HashPartition",
    "LearningConfig",
    "Profiled",
    "RangePartition",
    "Router",
    "Seen",
    "SourceBased",
    "TrialEnded",
    "best_orders",
    "gain_ratio",
    "grouped",
    "significant",
]
