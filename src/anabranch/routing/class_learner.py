"""Finding tuple classes: the attribute, or pair of attributes, whose classes deserve orders of their own.

The learner keeps sampled rows: their attributes, and which filters drop them. From these it proposes classes with a
route each. Candidates are ranked by how much the attribute tells about the filters, in bits and weighted by what the
filters cost; for the best few it finds routes on one half of the sample and pays for them on the other, row by row,
beside the single order. A proposal needs a saving that chance does not explain.

>>> import pyarrow as pa
>>> rng = np.random.default_rng(1)
>>> north = rng.random(400) < 0.5
>>> drops = np.column_stack([north ^ (rng.random(400) < 0.05), ~north ^ (rng.random(400) < 0.05)])
>>> learner = ClassLearner(2)
>>> learner.add({"zone": pa.array(np.where(north, "north", "south")), "noise": pa.array(rng.random(400))}, drops)
>>> found = learner.propose(np.array([1e-5, 1e-5]))
>>> found.classes.attributes, sorted(found.orders)
(('zone',), [(0, 1), (0, 1), (1, 0)])

Notes
-----
R -> the sample; In and Out -> `entered` and `passed` in `_information`; CA -> the attributes of the winning candidate;
the threshold gamma -> the bits that chance alone is expected to give, subtracted from every gain.

Differs from the paper
----------------------
- All filters are profiled on the same rows, so joint statistics are known: the order of a class is the greedy one for
  its rows, not a sort by single selectivities.
- Pairs of attributes are candidates too.
- Sample size and threshold follow from the significance of the saving; there is nothing to tune.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, sections 3-4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.greedy import greedy_order, row_costs
from anabranch.ordering.precedence import Precedence
from anabranch.routing.gain_ratio import information_gain, significant
from anabranch.routing.held_out import halves
from anabranch.routing.sampled_rows import SampledRows
from anabranch.routing.value_classes import (
    Codes,
    Split,
    ValueClasses,
    all_classes,
    class_count,
    classes_of,
    coarse,
    pairs,
    splits,
)
from anabranch.thresholds import PROPOSAL_DEVIATIONS, PROPOSAL_SAVING, SECOND_ATTRIBUTE_SAVING

SMALLEST_SAMPLE = 60
FIRST_LOOK_ROWS = 120
LARGEST_SAMPLE = 800
LONGEST_WAIT = 240
FINALISTS = 3
SIGNIFICANCE = 0.02
SMALLEST_CELL = 4
USUAL_ROWS = 1.0
MOST_ROUTES = 8


@dataclass(frozen=True)
class Proposal:
    """Value classes and the order of every route (route 0 is for everything unknown), and what they promise.

    `saving` is the share of the single order's cost that the routes save on rows they were not learned from.
    """

    classes: ValueClasses
    orders: tuple[Order, ...]
    saving: float


class ClassLearner:
    """Collects sampled rows and proposes routes.

    Parameters
    ----------
    filters
        Number of filters.
    precedence
        Orders that are allowed.
    """

    def __init__(self, filters: int, precedence: Precedence | None = None) -> None:
        self._filters = filters
        self._precedence = precedence or Precedence.none(filters)
        self.forget()

    def __len__(self) -> int:
        return self._rows

    def add(self, columns: AttributeArrays, drops: BoolMatrix) -> None:
        """Take in sampled rows with all filters tried on them; the oldest make room."""
        if not len(drops):
            return
        self._parts.append(SampledRows(columns, drops))
        self._rows += len(drops)
        self._new += len(drops)
        self._untaken += len(drops)
        while self._rows - len(self._parts[0]) >= LARGEST_SAMPLE:
            self._rows -= len(self._parts.popleft())

    def due(self) -> bool:
        """Whether enough is new since the last look at the sample; looks become rarer, up to a point."""
        return self._new >= self._wait

    def forget(self) -> None:
        """Start anew, with data that has changed."""
        self._parts: deque[SampledRows] = deque()
        self._rows, self._new, self._untaken, self._wait = 0, 0, 0, FIRST_LOOK_ROWS

    def sample(self) -> SampledRows:
        """The sampled rows."""
        return SampledRows.joined(self._parts) if self._parts else SampledRows.empty(self._filters)

    def take_sample(self) -> SampledRows:
        """The sampled rows that were added since the last call, as far as they are still held."""
        fresh, self._untaken = self.sample().last(self._untaken), 0
        return fresh

    def propose(self, costs: Floats) -> Proposal | None:
        """The routes that save most, if any saves clearly."""
        self._new, self._wait = 0, min(2 * self._wait, LONGEST_WAIT)
        if self._rows < SMALLEST_SAMPLE or not np.isfinite(costs).all():
            return None
        sample = self.sample()
        columns, drops = sample.attributes, sample.drops
        found = [s for name, array in columns.items() for s in splits(name, array)]
        candidates = [*((s,) for s in found), *pairs([coarse(s) for s in found])]
        best: tuple[float, tuple[Split, ...]] | None = None
        for candidate in _finalists(candidates, columns, drops, costs):
            saving = self._saving(candidate, columns, drops, costs)
            needed = PROPOSAL_SAVING if best is None else best[0] + SECOND_ATTRIBUTE_SAVING * (len(candidate) - 1)
            if saving > needed:
                best = saving, candidate
        if best is None:
            return None
        where = classes_of(best[1], columns)
        classes, orders = self._routes(best[1], where, drops, costs)
        taken = {orders[route] for route in np.unique(classes.route_of[where])}
        return Proposal(classes, orders, best[0]) if len(taken) > 1 else None

    def _saving(self, splits: tuple[Split, ...], columns: AttributeArrays, drops: BoolMatrix, costs: Floats) -> float:
        """Share of the single order's cost saved on held-out rows; 0 unless it is clear."""
        where = classes_of(splits, columns)
        saved, paid = [], 0.0
        for learn, check in halves(len(drops)):
            classes, orders = self._routes(splits, where[learn], drops[learn], costs)
            single = row_costs(orders[0], drops[check], costs)
            routed = np.zeros(len(single))
            routes = classes.route_of[where[check]]
            for route in np.unique(routes):
                chosen = routes == route
                routed[chosen] = row_costs(orders[route], drops[check][chosen], costs)
            saved.append(single - routed)
            paid += float(single.sum())
        gain = np.concatenate(saved)
        noise = float(gain.std()) / np.sqrt(len(gain))
        clear = gain.mean() > PROPOSAL_DEVIATIONS * noise and noise > 0
        return float(gain.sum()) / paid if clear and paid else 0.0

    def _routes(
        self, splits: tuple[Split, ...], where: Codes, drops: BoolMatrix, costs: Floats
    ) -> tuple[ValueClasses, tuple[Order, ...]]:
        """Route 0 for everything, and for every class the order among the best ones of all classes that suits it most.

        Of small classes that is as uncertain as their rows are few: a usual row is counted with those of each class.
        """
        orders = [self._best(drops, costs)]
        groups = [(c, drops[where == c]) for c in np.unique(where)]
        groups = [(int(c), rows) for c, rows in groups if len(rows) >= SMALLEST_CELL]
        for _, rows in sorted(groups, key=lambda g: -len(g[1])):
            order = self._best(rows, costs)
            if order not in orders[1:] and len(orders) < MOST_ROUTES:
                orders.append(order)
        classes = class_count(splits)
        route_of = np.zeros(classes, dtype=np.int64)
        if groups:
            paid = np.stack([np.bincount(where, row_costs(o, drops, costs), classes) for o in orders[1:]])
            usual = paid.sum(axis=1, keepdims=True) / len(drops)
            seen = np.unique(where)
            route_of[seen] = 1 + np.argmin(paid + USUAL_ROWS * usual, axis=0)[seen]
        return _compact(splits, route_of, orders)

    def _best(self, drops: BoolMatrix, costs: Floats) -> Order:
        return greedy_order(drops[drops.any(axis=1)], costs, self._precedence)


def _finalists(
    candidates: Sequence[tuple[Split, ...]], columns: AttributeArrays, drops: BoolMatrix, costs: Floats
) -> list[tuple[Split, ...]]:
    """The few single attributes, then the few pairs, that tell most about the filters; none that may by chance."""
    bits = _information(all_classes(candidates, columns), drops, costs) if candidates else np.zeros(0)
    ranked = [candidates[i] for i in np.argsort(-bits, kind="stable") if bits[i] > 0]
    return [c for width in (1, 2) for c in [r for r in ranked if len(r) == width][:FINALISTS]]


def _information(where: Sequence[Codes], drops: BoolMatrix, costs: Floats) -> Floats:
    """Bits that the classes of each candidate tell about the filters, beyond what chance is expected to tell.

    Bits are weighted by the filters' costs; a filter counts where chance does not explain the difference.
    """
    stacked = np.stack(where)
    classes = int(stacked.max()) + 1
    stacked += classes * np.arange(len(where))[:, None]
    shape, size = (len(where), 1, classes), len(where) * classes
    entered = np.bincount(stacked.ravel(), minlength=size).reshape(shape)
    kept = [np.bincount(stacked[:, ~drops[:, f]].ravel(), minlength=size) for f in range(drops.shape[1])]
    passed = np.stack(kept).reshape(drops.shape[1], len(where), classes).swapaxes(0, 1)
    entered = np.broadcast_to(entered, passed.shape)
    chance = (np.count_nonzero(entered, axis=-1) - 1) / (2 * len(drops) * np.log(2))
    clear = significant(entered, passed, SIGNIFICANCE / passed[..., 0].size)
    bits: Floats = (np.maximum(0.0, information_gain(entered, passed) - chance) * clear) @ costs
    return bits


def _compact(splits: tuple[Split, ...], route_of: Codes, orders: list[Order]) -> tuple[ValueClasses, tuple[Order, ...]]:
    """Drop routes that no class takes; route 0 stays."""
    used = [0, *(int(r) for r in np.unique(route_of) if r > 0)]
    renumbered = np.searchsorted(np.array(used), route_of).astype(np.int64)
    return ValueClasses(splits, renumbered), tuple(orders[r] for r in used)
