"""Every knob of the mesh, named, with its unit; the two sets of defaults that the paper prints are class methods.

>>> MeshConfig.table_1().search, MeshConfig.table_1().training_tuples
('ii', 10)
>>> MeshConfig.table_3().search, MeshConfig.table_3().start, MeshConfig.table_3().training_tuples
('sa', 'content', 100)

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, tables 1, 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anabranch.errors import QueryError, suggest
from anabranch.thresholds import MESH_DEVIATIONS, MESH_SAVING

SEARCHES = ("opt", "ii", "sa")
STARTS = ("route", "content", "random", "extreme-1", "extreme-n")
ROUTE_SEARCHES = ("greedy", "rank", "exact")
EXECUTORS = ("routes", "fabric")
AT_LEAST_1 = (
    "sample_tuples",
    "training_tuples",
    "iterations",
    "neighbours",
    "max_depth",
    "max_leaves",
    "window_tuples",
)


@dataclass(frozen=True)
class MeshConfig:
    """How a mesh is searched for, and when it is worth having.

    Parameters
    ----------
    search
        ``opt`` (exact, few training tuples), ``ii`` (iterative improvement) or ``sa`` (simulated annealing).
    start
        Start solution: ``route`` or ``content`` driven, ``random`` pick, ``extreme-1`` or ``extreme-n`` routes.
    route_search
        The best order for a subset: ``greedy`` (that of A-Greedy), ``rank`` (filters taken as independent) or ``exact``
        (dynamic programming over sets of filters).
    sample_tuples, training_tuples
        |S| and |T|: tuples sampled, and the most that are left after condensing.
    iterations
        The stop condition k: local optimizations of ``ii``, or a thousand moves each of ``sa``.
    plateau
        Stop after so many iterations without improvement; `None` never does.
    seconds
        Stop after so many seconds on the clock that the search is given; `None` is no limit.
    memory_subsets
        Stop once the routes of so many subsets are memoised; `None` is no limit.
    neighbours
        Neighbours tried, at most, before a configuration counts as a local minimum.
    random_picks
        x: random configurations that ``random`` chooses among.
    temperature, cooling
        tau at the start, as a share of the start's cost, and rho, the factor per move.
    content_distance
        Training tuples nearer than this share of the attributes' ranges are alike for ``content``.
    classification_seconds
        Seconds to test one tuple at one node of the tree.
    overhead_seconds
        OVH: seconds per tuple that each route costs.
    route_gain
        Share of the single order's cost that each route has to save on top, so that the search does not chase chance.
    minimum_gain, clear_deviations
        A mesh is kept if, on rows that it was not learned from, it saves this share of the single order's cost, and
        the saving is so many standard errors above zero.
    max_depth, max_leaves
        Limits of the tree.
    window_tuples
        W_TC: tuples classified together, by the fabric.
    executor
        What runs the routes of a filter's Python predicates: ``routes``, an adaptive pipeline for each, or ``fabric``,
        the Self-Routing Fabric of the paper.
    route_tolerance
        Neighbours on a route of the fabric are alternatives, and drawn by lottery, if changing places adds or saves at
        most this share of the route's cost; 0 keeps nearly every route certain.
    seed
        Seed of the search and of the lottery.
    """

    search: str = "ii"
    start: str = "route"
    route_search: str = "greedy"
    sample_tuples: int = 1000
    training_tuples: int = 12
    iterations: int = 3
    plateau: int | None = None
    seconds: float | None = None
    memory_subsets: int | None = None
    neighbours: int = 600
    random_picks: int = 10
    temperature: float = 0.05
    cooling: float = 0.995
    content_distance: float = 0.2
    classification_seconds: float = 2e-8
    overhead_seconds: float = 1e-8
    route_gain: float = 0.01
    minimum_gain: float = MESH_SAVING
    clear_deviations: float = MESH_DEVIATIONS
    max_depth: int = 3
    max_leaves: int = 8
    window_tuples: int = 1000
    executor: Literal["routes", "fabric"] = "routes"
    route_tolerance: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        _one_of("search", self.search, SEARCHES)
        _one_of("start", self.start, STARTS)
        _one_of("route_search", self.route_search, ROUTE_SEARCHES)
        _one_of("executor", self.executor, EXECUTORS)
        for name in AT_LEAST_1:
            if getattr(self, name) < 1:
                raise QueryError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.cooling < 1:
            raise QueryError(f"cooling must be between 0 and 1, not {self.cooling}")
        for name in ("route_tolerance", "seed"):
            if getattr(self, name) < 0:
                raise QueryError(f"{name} must be 0 or more, not {getattr(self, name)}")

    @classmethod
    def table_1(cls) -> MeshConfig:
        """Table 1: iterative improvement from the route-driven start, three times, over ten training tuples."""
        return cls(search="ii", start="route", sample_tuples=1000, training_tuples=10, iterations=3)

    @classmethod
    def table_3(cls) -> MeshConfig:
        """Table 3: simulated annealing from the content-driven start, over a hundred training tuples."""
        return cls(search="sa", start="content", sample_tuples=1000, training_tuples=100, iterations=3)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise QueryError(f"unknown {name} {value!r}", hint=suggest(value, known, "choices"))
