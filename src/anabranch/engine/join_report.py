"""What the joins of a query have done, for people and programs.

>>> probes = (ProbeLine("b", 100, 60, 2e-6, 1.5), ProbeLine("c", 40, 0, 1e-6, 2.0))
>>> print(JoinReport("auto", [PipelineReport("a", ("b", "c"), 100, 60, probes, "the order as written")]))
joins: auto
rows of a probe b -> c: 100 seen, 60 dropped (the order as written)
  b: 60 % of 100 dropped, 2 us each, 1.5 partners
  c: 0 % of 40 dropped, 1 us each, 2 partners
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.joins.adaptive_caches import CacheUse
from anabranch.joins.join_trace import JoinTrace, Values
from anabranch.joins.plan_costs import plan_costs
from anabranch.joins.probe_report import ProbeReport
from anabranch.model.names import without_number


@dataclass(frozen=True)
class ProbeLine:
    """One window that rows of an input probe.

    Parameters
    ----------
    window
        Its name.
    seen, dropped
        Rows that probed it, and those that found no partner.
    cost
        Seconds per row.
    fan_out
        Partners of a row, or combination, that has come that far.
    """

    window: str
    seen: int
    dropped: int
    cost: float
    fan_out: float

    def __str__(self) -> str:
        share = self.dropped / self.seen if self.seen else 0.0
        return (
            f"{self.window}: {share * 100:.3g} % of {self.seen:,} dropped, "
            f"{self.cost * 1e6:.3g} us each, {self.fan_out:.3g} partners"
        )


@dataclass(frozen=True)
class PlanLine:
    """Seconds of probing per row, estimated.

    Parameters
    ----------
    now, written, best
        In the present order, in that of the inputs as they are written, and in the best one that does not change.
    best_order
        Which that is.
    """

    now: float
    written: float
    best: float
    best_order: tuple[str, ...]

    def __str__(self) -> str:
        best = f"{self.best * 1e6:.3g} us at best ({' -> '.join(self.best_order)})"
        return f"probing a row takes {self.now * 1e6:.3g} us, {self.written * 1e6:.3g} us as written, {best}"


@dataclass(frozen=True)
class PipelineReport:
    """How rows of one input look for partners.

    Parameters
    ----------
    input
        Its name.
    order
        The other inputs, in the order in which they are probed now.
    seen, dropped
        New rows so far, and those of them that lack a partner in some window.
    probes
        One line per window, in that order.
    reason
        Why it is this order.
    costs
        What probing a row would take in other orders, estimated from the rows that were profiled last; None where
        none were.
    """

    input: str
    order: tuple[str, ...]
    seen: int
    dropped: int
    probes: tuple[ProbeLine, ...]
    reason: str
    costs: PlanLine | None = None

    @classmethod
    def of(cls, probes: ProbeReport, names: Sequence[str], reason: str) -> PipelineReport:
        """With the names of the inputs."""
        lines = []
        for other in probes.order:
            counts = probes.windows[other]
            cost, fan_out = counts.seconds / max(counts.calls, 1), counts.found / max(counts.listed, 1)
            lines.append(ProbeLine(names[other], counts.seen, counts.dropped, cost, fan_out))
        order = tuple(names[other] for other in probes.order)
        dropped, costs = sum(each.dropped for each in lines), plan_costs(probes)
        told = None
        if costs is not None:
            told = PlanLine(costs.now, costs.written, costs.best, tuple(names[n] for n in costs.best_order))
        return cls(names[probes.input], order, probes.rows, dropped, tuple(lines), reason, told)

    def __str__(self) -> str:
        head = f"rows of {self.input} probe {' -> '.join(self.order)}: {self.seen:,} seen, {self.dropped:,} dropped"
        told = [f"  {self.costs}"] if self.costs else []
        return "\n".join([f"{head} ({self.reason})", *(f"  {each}" for each in self.probes), *told])


@dataclass(frozen=True)
class CacheLine:
    """What is kept for rows of one input.

    Parameters
    ----------
    input
        Whose rows look it up.
    windows
        What is joined in it.
    probes, hits
        Look-ups, and those that found what they looked for.
    entries, nbytes
        Its size now.
    saved
        The share of steps that it saves: probes, partners listed and comparisons.
    """

    input: str
    windows: tuple[str, ...]
    probes: int
    hits: int
    entries: int
    nbytes: int
    saved: float

    @classmethod
    def of(cls, name: str, use: CacheUse, names: Sequence[str]) -> CacheLine:
        """With the names of the inputs."""
        windows = tuple(names[each] for each in use.windows)
        saved = 1 - use.taken / use.plain if use.plain else 0.0
        return cls(name, windows, use.probes, max(0, use.probes - use.misses), use.entries, use.nbytes, saved)

    def __str__(self) -> str:
        return (
            f"kept for rows of {self.input}: {' with '.join(self.windows)}, {self.hits:,} of {self.probes:,} look-ups "
            f"hit, {self.entries:,} keys in {self.nbytes / 1e6:.3g} MB, saves {self.saved * 100:.3g} % of its steps"
        )


@dataclass(frozen=True)
class ConstraintLines:
    """What a join has found out about its inputs, with their names."""

    found: ConstraintReport
    names: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.found.lines(self.names))


@dataclass(frozen=True)
class MetWindow:
    """The partners that a row met in one window.

    Parameters
    ----------
    window
        Its name.
    partners
        How many rows of it the row met, itself or along the path that leads there.
    shown
        The first of them: names of columns and values as texts.
    """

    window: str
    partners: int
    shown: tuple[Values, ...]


@dataclass(frozen=True)
class JoinedRow:
    """What a row met in a join: `ContinuousQuery.joined_rows`.

    Parameters
    ----------
    input
        Whose row.
    time
        The first instant at which it counts, in microseconds.
    values
        Names of its columns and values as texts.
    met
        Windows in the order in which they were probed, up to the first without a partner.
    results
        Combinations that it made with rows that had come before it.
    """

    input: str
    time: int
    values: Values
    met: tuple[MetWindow, ...]
    results: int

    @classmethod
    def of(cls, trace: JoinTrace, names: Sequence[str]) -> JoinedRow:
        """With the names of the inputs, and columns without the numbers that queries give them."""
        met = tuple(MetWindow(names[each.input], each.partners, tuple(map(_plain, each.shown))) for each in trace.met)
        return cls(names[trace.input], trace.time, _plain(trace.values), met, trace.results)

    @property
    def missed(self) -> str | None:
        """The window in which it found no partner, if there was one."""
        return next((each.window for each in self.met if not each.partners), None)


def _plain(values: Values) -> Values:
    return tuple((without_number(name), value) for name, value in values)


@dataclass(frozen=True)
class JoinReport:
    """All joins of a query.

    Parameters
    ----------
    plan
        As given to `Engine.query`.
    pipelines
        One per input of a join; none before the first rows, and none where joins are trees of joins of two.
    caches
        Partial results that are kept between rows now, because that pays.
    constraints
        What joins have found out about their inputs, where they look for it, and how many rows that saves.
    """

    plan: str
    pipelines: list[PipelineReport]
    caches: list[CacheLine] = field(default_factory=list)
    constraints: list[ConstraintLines] = field(default_factory=list)

    def lines(self) -> list[str]:
        """As text; nothing where nothing was joined."""
        if not self.pipelines:
            return []
        return [f"joins: {self.plan}", *map(str, self.pipelines), *map(str, self.caches), *map(str, self.constraints)]

    def __str__(self) -> str:
        return "\n".join(self.lines())
