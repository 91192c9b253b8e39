"""Content-Learns: finds out, while running, which attribute tells what an operator will do, and routes by it.

One operator after the other is *profiled*: a share of the tuples goes to it first, until there is a sample. If an
attribute separates the tuples that passed from those that were dropped, it becomes the operator's classifier, on trial:
it stays only if tuples are then processed as fast as without it, or faster. Each tuple takes the operators by ascending
selectivity, as expected for its bucket of the operator's classifier, or overall for an operator that has none.

>>> from anabranch.routing.eddy import Eddy
>>> kinds = np.random.default_rng(1).integers(0, 2, 6000)
>>> passes = np.stack([kinds == 1, kinds == 0], axis=1)             # each operator drops one kind of tuples
>>> router = ContentLearns(["discrete", "discrete"], operators=2, seed=1)
>>> Eddy(router).run(passes, [np.arange(6000), kinds]).calls < 1.3 * 6000
True
>>> int(router.classifiers.max()), router.orders([np.array([8, 9]), np.array([0, 1])], rows=2).tolist()
(1, [[0, 1], [1, 0]])

Notes
-----
P -> `profile_probability`; |R| -> `sample_tuples`; d -> `buckets`; alpha -> `alpha`; gamma -> `threshold`;
W[l] -> `overall`; S[l, i] -> `detailed`; CA[l] -> `classifiers`, -1 for none; In, Out -> counted from the complete
sample; l -> `profiled`.

Differs from the paper
----------------------
- A batch is routed at once: rows are grouped by the buckets of the classifiers in use. `fold` keeps S and W exact.
- The sample is kept until it is complete and bucketed then, so that ranges do not move while they are counted; whether
  an attribute is worth a look (section 4.4) is judged by the same sample.
- gamma is not given: without a `threshold` the gain must exceed what chance explains, at a level of `significance`.
- The length of a trial is not given. Its rate is known to a few percent only, and a classifier that changes nothing
  now may be all there is once the next operator is profiled: hence `trial_slack`. Profiled tuples do not count.
- A single operator is pruned, like any whose place is fixed.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anabranch.model.arrays import Floats, Mask
from anabranch.routing.gain_ratio import telling
from anabranch.routing.partitioning import Codes, Column, HashPartition, Partition, RangePartition, unfit
from anabranch.routing.sbr import FIRST_SELECTIVITY, Orders, Seen, fold, urgency

Kind = Literal["discrete", "continuous"]
NONE = -1


@dataclass(frozen=True)
class LearningConfig:
    """How Content-Learns profiles and decides; the defaults are those of Table 2, where it has them.

    Parameters
    ----------
    profile_probability, sample_tuples
        Share of the tuples that go to the profiled operator first, and how many of them to decide on.
    buckets
        Buckets of a partitioning function.
    alpha
        Weight of the past in running selectivities.
    threshold
        Gain ratio that a classifier must exceed; None asks for `significance` instead.
    significance
        Probability of taking an attribute that tells nothing for a classifier.
    trial_tuples
        Tuples that a new classifier is tried on.
    trial_slack
        Share by which the processing rate may fall in a trial, as so few tuples show it only roughly; 0 is the paper's.
    prune, prune_factor
        Leave out attributes that cannot matter, and operators whose rank is so many times above, or below, all others.
    """

    profile_probability: float = 0.06
    sample_tuples: int = 150
    buckets: int = 24
    alpha: float = 0.95
    threshold: float | None = None
    significance: float = 0.02
    trial_tuples: int = 500
    trial_slack: float = 0.05
    prune: bool = True
    prune_factor: float = 10.0


@dataclass(frozen=True)
class Profiled:
    """An operator has been profiled: gain ratio per attribute (NaN if pruned), and the classifier on trial, or -1."""

    at: int
    operator: int
    selectivity: float
    ratios: Floats
    classifier: int


@dataclass(frozen=True)
class TrialEnded:
    """A trial has ended: tuples per unit of cost without and with the classifier, and whether it stays."""

    at: int
    operator: int
    classifier: int
    rate_without: float
    rate_with: float
    kept: bool


@dataclass
class _Rate:
    """Tuples per unit of cost over some stretch."""

    tuples: int = 0
    units: float = 0.0

    def add(self, spent: Floats) -> None:
        self.tuples += len(spent)
        self.units += float(spent.sum())

    @property
    def value(self) -> float:
        return self.tuples / self.units if self.units else 0.0


class ContentLearns:
    """Learns classifiers, and routes by them.

    `orders` and `observe` are called in turns, for one batch after the other.

    Parameters
    ----------
    attributes
        How to partition each attribute: by hash ("discrete") or by range ("continuous").
    operators
        How many there are: filters, or joins with any fan-out.
    costs
        Units of cost per tuple and operator; without them all are taken as equal.
    tell
        Called with every decision.
    """

    name = "content_learns"

    def __init__(
        self,
        attributes: Sequence[Kind],
        operators: int,
        *,
        config: LearningConfig | None = None,
        costs: Floats | None = None,
        seed: int = 0,
        tell: Callable[[Profiled | TrialEnded], None] | None = None,
    ) -> None:
        self.kinds, self.operators, self.costs, self.tell = tuple(attributes), operators, costs, tell
        self.config = config or LearningConfig()
        buckets, self.width = self.config.buckets, self.config.buckets + 1
        self.partitions: list[Partition] = [
            HashPartition(buckets) if kind == "discrete" else RangePartition(buckets) for kind in attributes
        ]
        self.overall: Floats = np.full(operators, FIRST_SELECTIVITY)
        self.detailed: Floats = np.full((operators, self.width), FIRST_SELECTIVITY)
        self.classifiers = np.full(operators, NONE, dtype=np.int64)
        self.profiled, self.on_trial, self.tuples = NONE, False, 0
        self._rng = np.random.default_rng(seed)
        self._last = operators - 1
        self._profile_next()

    def orders(self, columns: Sequence[Column], rows: int) -> Orders:
        """An order of the operators for each row of a batch."""
        self._columns = columns
        self._buckets, first, group = self._grouped(columns, rows)
        detailed = self.detailed[np.arange(self.operators), self._buckets[first]]
        expected = np.where(self.classifiers >= 0, detailed, self.overall)
        found = np.argsort(urgency(expected, self.costs), axis=1, kind="stable")[group]
        self._sampled = self._draw(rows)
        if self._sampled.any():
            found[self._sampled] = _to_front(found[self._sampled], self.profiled)
        return found

    def observe(self, seen: Seen) -> None:
        """Bring the running selectivities up to date, and decide what is due."""
        alpha = self.config.alpha
        self.overall = fold(self.overall, seen.operators, seen.produced, alpha=alpha, times=seen.times)
        tagged = self.classifiers[seen.operators] >= 0
        if tagged.any():
            rows, operators = seen.rows[tagged], seen.operators[tagged]
            times = None if seen.times is None else seen.times[tagged]
            groups = operators * self.width + self._buckets[rows, operators]
            flat = fold(self.detailed.ravel(), groups, seen.produced[tagged], alpha=alpha, times=times)
            self.detailed = flat.reshape(self.detailed.shape)
        self.tuples += len(seen.spent)
        self._rate.add(seen.spent[~self._sampled])
        self._collect(seen)
        self._decide()

    def tuples_until_decision(self) -> float:
        """How many tuples to route before there is something to decide, on average."""
        config = self.config
        if self.on_trial:
            return config.trial_tuples - self._rate.tuples
        if not config.profile_probability:
            return np.inf
        if self.profiled == NONE:
            return config.sample_tuples / config.profile_probability - self._rate.tuples
        return (config.sample_tuples - self._sample_tuples) / config.profile_probability

    def _grouped(self, columns: Sequence[Column], rows: int) -> tuple[Codes, Codes, Codes]:
        """Groups of rows with equal buckets: buckets by row and operator, a row of each group, each row's group."""
        buckets, group = np.zeros((rows, self.operators), dtype=np.int64), np.zeros(rows, dtype=np.int64)
        first = group[:1]
        for attribute in sorted({int(attribute) for attribute in self.classifiers if attribute != NONE}):
            codes = self.partitions[attribute].codes(columns[attribute])
            buckets[:, self.classifiers == attribute] = codes[:, np.newaxis]
            keys = group * self.width + codes
            member = np.full(len(first) * self.width, NONE)
            member[keys] = np.arange(rows)
            used = member >= 0
            first, group = member[used], (used.cumsum() - 1)[keys]
        return buckets, first, group

    def _draw(self, rows: int) -> Mask:
        if self.profiled == NONE or self.on_trial:
            return np.zeros(rows, dtype=np.bool_)
        return self._rng.random(rows) < self.config.profile_probability

    def _collect(self, seen: Seen) -> None:
        if not self._sampled.any():
            return
        chosen = (seen.operators == self.profiled) & self._sampled[seen.rows]
        rows = seen.rows[chosen]
        self._sample.append(([column[rows] for column in self._columns], seen.produced[chosen]))
        self._sample_tuples += len(rows)

    def _decide(self) -> None:
        config = self.config
        if self.profiled == NONE:
            if self._rate.tuples * config.profile_probability >= config.sample_tuples:
                self._profile_next()
        elif self.on_trial:
            if self._rate.tuples >= config.trial_tuples:
                self._judge()
        elif self._sample_tuples >= config.sample_tuples:
            self._classify()

    def _profile_next(self) -> None:
        """Move on to the next operator whose place is not fixed; its classifier, if any, is out of use from now on."""
        self.on_trial, self._rate = False, _Rate()
        self._sample: list[tuple[list[Column], Floats]] = []
        self._sample_tuples = 0
        turn = [(self._last + i) % self.operators for i in range(1, self.operators + 1)]
        candidates = [operator for operator in turn if not self._fixed(operator)]
        self.profiled = candidates[0] if candidates and self.kinds else NONE
        if self.profiled != NONE:
            self._last = self.profiled
            self.classifiers[self.profiled] = NONE

    def _fixed(self, operator: int) -> bool:
        if not self.config.prune:
            return False
        ranks = -urgency(self.overall - 1.0 if self.costs is None else self.overall, self.costs)
        own, others = ranks[operator], np.delete(ranks, operator)
        factor = self.config.prune_factor
        return not len(others) or bool(own > factor * max(others.max(), 0.0) or own * factor < others.min())

    def _classify(self) -> None:
        """Give the profiled operator the classifier that the sample speaks for, on trial."""
        columns = [np.concatenate(parts) for parts in zip(*(values for values, _ in self._sample), strict=True)]
        produced = np.concatenate([produced for _, produced in self._sample])
        ratios, accepted = self._judge_attributes(columns, produced)
        best = int(np.argmax(np.where(accepted, ratios, -1.0))) if accepted.any() else NONE
        if self.tell is not None:
            self.tell(Profiled(self.tuples, self.profiled, float(produced.mean()), ratios, best))
        if best == NONE:
            self._profile_next()
            return
        codes = self.partitions[best].codes(columns[best])
        entered, passed = np.bincount(codes, minlength=self.width), np.bincount(codes, produced, self.width)
        overall = self.overall[self.profiled]
        self.detailed[self.profiled] = np.where(entered > 0, passed / np.maximum(entered, 1), overall)
        self.classifiers[self.profiled] = best
        self.on_trial, self._without, self._rate = True, self._rate, _Rate()

    def _judge_attributes(self, columns: Sequence[Column], produced: Floats) -> tuple[Floats, Mask]:
        """Gain ratio of each attribute, NaN if pruned, and whether it may be a classifier."""
        config = self.config
        ratios, accepted = np.full(len(columns), np.nan), np.zeros(len(columns), dtype=np.bool_)
        reasons = [
            config.prune and unfit(column, buckets=config.buckets, discrete=kind == "discrete")
            for column, kind in zip(columns, self.kinds, strict=True)
        ]
        kept = [j for j, reason in enumerate(reasons) if not reason]
        if kept:
            codes = [self.partitions[j].codes(columns[j]) for j in kept]
            ratios[kept], chosen = telling(codes, produced, self.width, config.significance)
            accepted[kept] = chosen if config.threshold is None else ratios[kept] > config.threshold
        return ratios, accepted

    def _judge(self) -> None:
        """Keep the classifier on trial only if the processing rate is as good with it as without, or better."""
        operator, kept = self.profiled, self._rate.value > (1.0 - self.config.trial_slack) * self._without.value
        if self.tell is not None:
            chosen, rates = int(self.classifiers[operator]), (self._without.value, self._rate.value)
            self.tell(TrialEnded(self.tuples, operator, chosen, *rates, kept))
        if not kept:
            self.classifiers[operator] = NONE
        self._profile_next()


def _to_front(orders: Orders, operator: int) -> Orders:
    others = orders[orders != operator].reshape(len(orders), -1)
    return np.concatenate([np.full((len(orders), 1), operator), others], axis=1)
