"""What policies decide, as records. Filters are numbers, and texts name them as in `ordering.why`."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.arrays import Order


@dataclass(frozen=True)
class Decision:
    """One decision; an executor that knows the names of the filters makes an event of it."""


@dataclass(frozen=True)
class NewOrder(Decision):
    """Another order, for all rows or on the route of this name."""

    before: Order
    after: Order
    why: str
    route: str = ""


@dataclass(frozen=True)
class NewEffort(Decision):
    """The policy profiles another share of the dropped tuples, of all rows or on the route of this name."""

    mode: str
    profile_probability: float
    why: str
    route: str = ""
