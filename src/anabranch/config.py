"""Every knob of the adaptive loop, named, with its unit and the default of the thesis (Table 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, Unpack

import numpy as np

from anabranch.errors import QueryError, suggest

MOST_TUPLES = 10_000_000
HINTS = {
    "profile_probability": "0.01 profiles one dropped tuple of a hundred, 0 none",
    "window_tuples": "how many profile tuples the window keeps, 1000 for instance",
    "window_seconds": "after how many seconds a profile tuple expires, or None",
    "thrash_avoidance": "1 moves a filter for any gain, less for a larger one only",
    "minimum_profiles": "how many profile tuples the first decision needs, at most window_tuples",
    "cost_aware": "use cost_aware=True for orders of sbr and content-learns that weigh costs",
    "seed": "any whole number from 0 on; the same one draws the same samples",
}


class OrderingChanges(TypedDict, total=False):
    """Fields of `OrderingConfig`, any of them."""

    profile_probability: float
    window_tuples: int
    window_seconds: float | None
    thrash_avoidance: float
    minimum_profiles: int
    cost_aware: bool
    seed: int


OF_POLICIES: dict[str, OrderingChanges] = {
    "sweep": {"window_tuples": 500, "minimum_profiles": 100},
    "localswaps": {"minimum_profiles": 100},
    "independent": {"profile_probability": 0.005},
    "content-learns": {"profile_probability": 0.06, "minimum_profiles": 150},
}
"""Defaults that are not those of A-Greedy.

The window of Sweep is shorter, Independent needs fewer profiles (Table 4.1). Sweep and LocalSwaps begin again with few
tuples after every move, and 30 would let chance move filters. Those of Content-Learns are in Table 2 of its paper.
"""


@dataclass(frozen=True)
class OrderingConfig:
    """How filter ordering profiles and decides.

    `OrderingConfig(...)` starts from the defaults of A-Greedy whatever the policy is, and `OrderingConfig.for_policy`
    from those of the policy.

    Parameters
    ----------
    profile_probability
        Share of dropped tuples that are profiled (the drop-profiling probability p). The policy `auto` chooses it
        itself while it runs; only 0 is taken at its word.
    window_tuples
        Profile tuples kept in the profile window.
    window_seconds
        Age at which a profile tuple expires; `None` keeps the window tuple-based only.
    thrash_avoidance
        alpha of equation 4.4: a filter moves forward only if its rank beats the incumbent's by this factor.
    minimum_profiles
        Profile tuples needed before the first decision; by default as many as fit into a window of less than 30.
    cost_aware
        Whether `sbr` and `content-learns` weigh what a filter costs.
    seed
        Seed of the sampling of dropped tuples.

    >>> of_thesis = OrderingConfig.for_policy("agreedy")
    >>> of_thesis.profile_probability, of_thesis.window_tuples, of_thesis.thrash_avoidance
    (0.01, 1000, 0.9)
    >>> OrderingConfig.for_policy("sweep").window_tuples, OrderingConfig.for_policy("independent").profile_probability
    (500, 0.005)
    >>> OrderingConfig(window_tuples=20).minimum_profiles
    20
    """

    profile_probability: float = 0.01
    window_tuples: int = 1000
    window_seconds: float | None = None
    thrash_avoidance: float = 0.9
    minimum_profiles: int = 30
    cost_aware: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _within("profile_probability", self.profile_probability, 0.0, 1.0)
        _within("thrash_avoidance", self.thrash_avoidance, 0.0, 1.0)
        _positive_or_none("window_seconds", self.window_seconds)
        _truth("cost_aware", self.cost_aware)
        for name in ("window_tuples", "minimum_profiles", "seed"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        _within("window_tuples", self.window_tuples, 1, MOST_TUPLES)
        if self.minimum_profiles == OrderingConfig.minimum_profiles:
            object.__setattr__(self, "minimum_profiles", min(self.minimum_profiles, self.window_tuples))
        _within("minimum_profiles", self.minimum_profiles, 1, self.window_tuples)
        if self.seed < 0:
            raise _refused("seed", "0 or more", self.seed)

    @classmethod
    def for_policy(cls, policy: str, **changes: Unpack[OrderingChanges]) -> OrderingConfig:
        """The defaults of a policy, and fields that are to differ from them.

        >>> mine = OrderingConfig.for_policy("sweep", seed=1)
        >>> mine.seed, mine.window_tuples, mine.minimum_profiles
        (1, 500, 100)
        >>> OrderingConfig.for_policy("sweep", window_tuples=50).minimum_profiles
        50
        """
        known = [field.name for field in fields(cls)]
        for name in changes:
            if name not in known:
                raise QueryError(f"OrderingConfig has no field {name!r}", hint=suggest(name, known, "fields"))
        usual = cls(**OF_POLICIES.get(policy, {}))
        window = _whole("window_tuples", changes.get("window_tuples", usual.window_tuples))
        changes.setdefault("minimum_profiles", max(1, min(usual.minimum_profiles, window)))
        return replace(usual, **changes)


def _within(name: str, value: Any, low: float, high: float) -> None:
    if not low <= _number(name, value) <= high:
        raise _refused(name, f"between {low} and {high}", value)


def _positive_or_none(name: str, value: Any) -> None:
    if value is not None and not _number(name, value) > 0:
        raise _refused(name, "positive", value)


def _truth(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise _refused(name, "True or False", value)


def _number(name: str, value: Any) -> Any:
    """A number of Python or numpy, as it is; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _refused(name, "a number", value)
    return value


def _whole(name: str, value: Any) -> int:
    """A whole number, which may have come as 500.0 or from numpy."""
    if _number(name, value) % 1 != 0:
        raise _refused(name, "a whole number", value)
    return int(value)


def _refused(name: str, wanted: str, value: object) -> QueryError:
    return QueryError(f"{name} must be {wanted}, not {value!r}", hint=HINTS[name])
