"""What the Arrow executor asks of a pipeline, whichever policy is behind it.

`RoutedPipeline` serves most policies; `ContentLearnsPipeline` and `FabricPipeline` run the papers' own algorithms.
"""

from __future__ import annotations

from typing import Protocol

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.base import Reoptimizer
from anabranch.ordering.pipeline import Evaluate, Outcome, Tally
from anabranch.routing.route_plan import NewRoutes, RoutePlan, RouteState
from anabranch.routing.sampled_rows import SampledRows


class ChunkPipeline(Protocol):
    """Runs chunks of rows through all filters, learns from them, and hands over what it counted."""

    @property
    def version(self) -> int:
        """Of the plan: grows when the driver tunes it."""

    @property
    def rows_done(self) -> int:
        """Rows so far."""

    @property
    def reoptimizer(self) -> Reoptimizer:
        """The policy that holds the order for all rows."""

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use, with their present orders."""

    @property
    def on_trial(self) -> RoutePlan | None:
        """The routes that are tried out."""

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""

    def process(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Run one chunk; `columns` holds the attributes of its rows."""

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Send the next rows by another plan, or by one order."""

    def new_routes(self) -> NewRoutes:
        """The ways that rows take now, and why, as a decision."""

    def costs(self) -> Floats:
        """Seconds per row and filter."""

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call."""

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over rows and seconds of every way that rows took since the last call."""

    def take_profiles(self) -> BoolMatrix:
        """Hand over the full profile tuples since the last call."""

    def take_sample(self) -> SampledRows:
        """Hand over the rows sampled since the last call."""

    def take_given_up(self) -> RoutePlan | None:
        """Hand over the routes that were found useless since the last call."""
