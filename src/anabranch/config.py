"""Every knob of the adaptive loop, named, with its unit and the default of the thesis (Table 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anabranch.errors import QueryError


@dataclass(frozen=True)
class OrderingConfig:
    """How filter ordering profiles and decides.

    Parameters
    ----------
    profile_probability
        Share of dropped tuples that are profiled (the drop-profiling probability p).
    window_tuples
        Profile tuples kept in the profile window.
    window_seconds
        Age at which a profile tuple expires; `None` keeps the window tuple-based only.
    thrash_avoidance
        alpha of equation 4.4: a filter moves forward only if its rank beats the incumbent's by this factor.
    minimum_profiles
        Profile tuples needed before the first decision; by default as many as fit into a window of less than 30.
    cost_aware
        Whether the draws of `sbr` weigh what a filter costs.
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
        _within("window_tuples", self.window_tuples, 1, 10_000_000)
        if self.minimum_profiles == OrderingConfig.minimum_profiles:
            object.__setattr__(self, "minimum_profiles", min(self.minimum_profiles, self.window_tuples))
        _within("minimum_profiles", self.minimum_profiles, 1, self.window_tuples)
        if self.window_seconds is not None and self.window_seconds <= 0:
            raise QueryError(f"window_seconds must be positive, not {self.window_seconds}")

    @classmethod
    def for_policy(cls, policy: str) -> OrderingConfig:
        """Table 4.1: the window of Sweep is shorter, Independent needs fewer profiles.

        Sweep and LocalSwaps begin again with few tuples after every move, and 30 would let chance move filters.
        """
        changes: dict[str, dict[str, float]] = {
            "sweep": {"window_tuples": 500, "minimum_profiles": 100},
            "localswaps": {"minimum_profiles": 100},
            "independent": {"profile_probability": 0.005},
        }
        return replace(cls(), **changes.get(policy, {}))  # type: ignore[arg-type]


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise QueryError(f"{name} must be between {low} and {high}, not {value}")
