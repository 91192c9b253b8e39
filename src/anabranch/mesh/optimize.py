"""The optimizer: from sampled rows to a mesh, or to the single order if a mesh would not pay.

Condense the sample, search the lattice, induce a tree from the chosen configuration. A tree is never as sharp as the
configuration, so its leaves are divided among routes once more, exactly, and the mesh is priced for what the tree does
with the rows. Whether it pays is judged on rows that it was not learned from.

>>> rng = np.random.default_rng(1)
>>> north = rng.random(300) < 0.5
>>> passing = np.where(north[:, np.newaxis], (0.05, 0.95, 0.9), (0.95, 0.05, 0.9))
>>> zones = np.where(north, "north", "south").astype(object)
>>> mesh = optimize(Sample({"zone": zones}, rng.random((300, 3)) >= passing, np.full(3, 1e-5)))
>>> sorted((path, mesh.routes[route][0]) for route, path in mesh.tree.paths())
[(("zone in ('north')",), 0), (("zone not in ('north')",), 1)]
>>> round(mesh.gain, 1)
0.3

Notes
-----
QM = (R, C) -> `Mesh`: R -> `routes`, C -> `tree`; f_rq -> `shares`; cost(QM) -> `cost`.

Differs from the paper
----------------------
- The classifier is induced once, for the chosen configuration, not for every one that the search passes.
- The paper's mesh for uniform data has two routes now and then, by chance of the sample. Here each half of the sample
  judges a mesh learned from the other half, and without a clear gain there is one route and no classifier.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel, best_order, mesh_cost
from anabranch.mesh.ii_qm import ii_qm
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.opt_qm import MOST_TUPLES, opt_qm
from anabranch.mesh.sa_qm import sa_qm
from anabranch.mesh.solution import Solution
from anabranch.mesh.stopping import Clock
from anabranch.mesh.training import Sample, TrainingSet, condense
from anabranch.model.arrays import Counts, Floats, Order
from anabranch.ordering import Precedence, expected_cost, row_costs
from anabranch.routing.held_out import halves

FEWEST_ROWS = 30
LEAF_SHARE = 0.02


def optimize(
    sample: Sample,
    config: MeshConfig | None = None,
    precedence: Precedence | None = None,
    seed: int = 0,
    clock: Clock | None = None,
) -> Mesh:
    """Find the mesh for a sample; the same sample and seed give the same mesh, unless the clock ends the search."""
    config = config or MeshConfig()
    task = _Task(config, precedence or Precedence.none(sample.drops.shape[1]), seed, clock)
    single = task.single(sample)
    if len(sample) < FEWEST_ROWS or not sample.columns or len(single) < 2:
        return task.priced(sample, _Plan(DecisionTree(), (single,)), single)
    plan = task.learn(sample)
    saving = task.held_out_saving(sample) if len(plan.routes) > 1 else 0.0
    if not saving:
        plan = _Plan(DecisionTree(), (single,))
    return replace(task.priced(sample, plan, single), saving=saving)


@dataclass(frozen=True)
class _Plan:
    tree: DecisionTree
    routes: tuple[Order, ...]


@dataclass(frozen=True)
class _Task:
    config: MeshConfig
    precedence: Precedence
    seed: int
    clock: Clock | None

    def single(self, sample: Sample) -> Order:
        return best_order(sample.drops, sample.costs, self.precedence, self.config.route_search)

    def learn(self, sample: Sample) -> _Plan:
        """A tree and its routes, the most frequent first."""
        training = condense(sample, self.config.training_tuples, self.seed)
        chosen = self._search(CostModel(training, self.config, self.precedence))
        tree = DecisionTree.learn(
            sample.columns,
            training.labels(chosen.partition),
            max_depth=self.config.max_depth,
            max_leaves=self.config.max_leaves,
            leaf_rows=max(1, int(LEAF_SHARE * len(sample))),
            seed=self.seed,
        ).leaf_tree()
        return self._divided(sample, tree)

    def _search(self, model: CostModel) -> Solution:
        if self.config.search == "opt":
            return opt_qm(model)
        search = sa_qm if self.config.search == "sa" else ii_qm
        return search(model, seed=self.seed, clock=self.clock)

    def _divided(self, sample: Sample, tree: DecisionTree) -> _Plan:
        """The leaves as training tuples of a second search; leaves with the same order share a route."""
        leaves = TrainingSet.of_groups(sample, tree.assign(sample.columns, len(sample)))
        model = CostModel(leaves, self.config, self.precedence)
        found = opt_qm(model) if len(leaves) <= MOST_TUPLES else ii_qm(model, seed=self.seed, clock=self.clock)
        shares: dict[Order, float] = {}
        for subset in found.partition:
            order = model.route(subset).order
            shares[order] = shares.get(order, 0.0) + leaves.density(subset)
        routes = tuple(sorted(shares, key=lambda order: (-shares[order], order)))
        labels = {leaf: routes.index(model.route(s).order) for s in found.partition for leaf in s}
        return _Plan(tree.relabelled(labels), routes)

    def held_out_saving(self, sample: Sample) -> float:
        """Share of the cost that the filters of meshes of half the sample save on the other half.

        It is 0 unless that is enough beside what the tree and the further routes cost, and not by chance.
        """
        alone, routed, around = np.zeros(len(sample)), np.zeros(len(sample)), np.zeros(len(sample))
        for known, unseen in halves(len(sample)):
            learning, judging = sample.take(known), sample.take(unseen)
            plan = self.learn(learning)
            alone[unseen] = row_costs(self.single(learning), judging.drops, sample.costs)
            routed[unseen] = _paid(plan, judging)
            around[unseen] = self._around(plan, judging)
        saved = alone - routed - around
        gain, error = float(saved.mean()), float(saved.std()) / np.sqrt(len(saved))
        enough = gain >= self.config.minimum_gain * float(alone.mean()) and gain >= self.config.clear_deviations * error
        return 1 - float(routed.sum() / alone.sum()) if enough and gain > 0 else 0.0

    def _around(self, plan: _Plan, sample: Sample) -> Floats:
        """Seconds of each row beside its filters: its path through the tree, and the overhead of the further routes."""
        paths = self.config.classification_seconds * _depths(plan.tree, sample)
        return paths + self.config.overhead_seconds * (len(plan.routes) - 1)

    def priced(self, sample: Sample, plan: _Plan, single: Order) -> Mesh:
        """The mesh with the shares and the cost that its tree has on the sample."""
        labels, depths = plan.tree.assign(sample.columns, len(sample)), _depths(plan.tree, sample)
        held = [labels == number for number in range(len(plan.routes))]
        shares = tuple(float(here.mean()) if len(here) else 1.0 / len(held) for here in held)
        cost = mesh_cost(
            shares,
            [
                expected_cost(order, sample.drops[here], sample.costs)
                for order, here in zip(plan.routes, held, strict=True)
            ],
            [float(depths[here].mean()) if here.any() else 0.0 for here in held],
            classification_seconds=self.config.classification_seconds,
            overhead_seconds=self.config.overhead_seconds,
        )
        alone = expected_cost(single, sample.drops, sample.costs) + self.config.overhead_seconds
        return Mesh(plan.tree, plan.routes, shares, cost, single, alone)


def _paid(plan: _Plan, sample: Sample) -> Floats:
    """Seconds that the filters take for each row on its route."""
    routes, paid = plan.tree.assign(sample.columns, len(sample)), np.zeros(len(sample))
    for number, order in enumerate(plan.routes):
        here = routes == number
        paid[here] = row_costs(order, sample.drops[here], sample.costs)
    return paid


def _depths(tree: DecisionTree, sample: Sample) -> Floats:
    """Tests that each row passes."""
    by_leaf = np.array([float(tests) for _, tests in tree.depths()])
    leaves: Counts = tree.leaf_tree().assign(sample.columns, len(sample))
    return by_leaf[leaves]
