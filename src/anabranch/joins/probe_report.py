"""What the probe pipeline of an input has done: counts by window, decisions, and what others can learn from it.

>>> one = ProbeReport(0, (2, 1), 100, {1: ProbeCounts(40, 10), 2: ProbeCounts(100, 60)})
>>> both = one.merged(one)
>>> both.rows, both.windows[2].dropped, both.order
(200, 120, (2, 1))
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from anabranch.joins.adaptive_caches import AdaptiveCaches, CacheUse
from anabranch.joins.cache_states import CacheChange
from anabranch.joins.probe_pipeline import ProbePipeline
from anabranch.ordering.base import Seed
from anabranch.ordering.decisions import NewOrder

MOST_PROFILES = 200


@dataclass(frozen=True)
class ProbeCounts:
    """Probes of one window.

    Parameters
    ----------
    seen, dropped
        Rows that probed it in normal processing, and those that found no partner.
    calls, seconds
        Rows that probed it, with those that were only profiled, and how long that took.
    listed, found
        For how many rows, or combinations on the way, all partners were listed, and how many there were.
    """

    seen: int = 0
    dropped: int = 0
    calls: int = 0
    seconds: float = 0.0
    listed: int = 0
    found: int = 0

    def __add__(self, other: ProbeCounts) -> ProbeCounts:
        return ProbeCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class ProbeReport:
    """The pipeline of one input; inputs are numbers.

    Parameters
    ----------
    input
        Whose rows probe.
    order
        The other inputs, as they are probed now.
    rows
        New rows so far.
    windows
        Counts by the input that was probed.
    changes
        New orders since the last report, with the reasons in words, in which an input is `{number}`.
    seed
        What a new worker begins with.
    caches
        What caches have done for its rows, those in use now.
    cache_changes
        Caches that came and went since the last report.
    passed
        Of the rows that probed windows themselves, those that found partners in all.
    paths
        Pairs of inputs of which the first one leads to the second.
    """

    input: int
    order: tuple[int, ...]
    rows: int
    windows: dict[int, ProbeCounts]
    changes: tuple[NewOrder, ...] = ()
    seed: Seed | None = None
    caches: tuple[CacheUse, ...] = ()
    cache_changes: tuple[CacheChange, ...] = ()
    passed: int = 0
    paths: frozenset[tuple[int, int]] = frozenset()

    def merged(self, later: ProbeReport, *, elsewhere: bool = False) -> ProbeReport:
        """With what came after it, or in another cell."""
        windows = {each: counts + later.windows[each] for each, counts in self.windows.items()}
        changes, seed = self.changes + later.changes, later.seed or self.seed
        known = {each.windows: each for each in self.caches}
        found = {each.windows: each.after(known.get(each.windows), elsewhere=elsewhere) for each in later.caches}
        caches = tuple(((known | found) if elsewhere else found).values())
        came = self.cache_changes + later.cache_changes
        rows, passed = self.rows + later.rows, self.passed + later.passed
        report = ProbeReport(self.input, later.order, rows, windows, changes, seed, caches, came)
        return replace(report, passed=passed, paths=later.paths)


def take_report(pipeline: ProbePipeline, caches: AdaptiveCaches | None = None) -> ProbeReport:
    """What a pipeline has done since the last time that it was asked."""
    tree, filters = pipeline.tree, pipeline.filters
    tally, policy = filters.take_tally(), filters.reoptimizer
    windows = {}
    for f, other in enumerate(tree.others):
        fan_out = pipeline.take_fan_out(other)
        seen, passed = int(tally.seen[f]), int(tally.passed[f])
        counts = (seen, seen - passed, int(tally.calls[f]), float(tally.seconds[f]))
        windows[other] = ProbeCounts(*counts, fan_out.asked, fan_out.found)
    names = [f"{{{other}}}" for other in tree.others]
    changes = [
        NewOrder(_inputs(tree.others, each.before), _inputs(tree.others, each.after), each.why.format(*names))
        for each in pipeline.take_decisions()
        if isinstance(each, NewOrder)
    ]
    seed = Seed(policy.order, policy.profiles()[-MOST_PROFILES:], filters.times.per_tuple())
    rows, uses, came = tally.rows, [], []
    if caches is not None:
        rows += caches.take_cached_rows(tree.root)
        uses, came = caches.take_use(tree.root), caches.take_changes(tree.root)
    report = ProbeReport(tree.root, pipeline.order, rows, windows, tuple(changes), seed, tuple(uses), tuple(came))
    dropped = sum(each.dropped for each in windows.values())
    paths = frozenset((tree.others[one], tree.others[other]) for one, other in tree.precedence.edges)
    return replace(report, passed=tally.rows - dropped, paths=paths)


def _inputs(others: list[int], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(others[f] for f in order)
