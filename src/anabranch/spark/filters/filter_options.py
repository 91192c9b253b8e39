"""Checks what a user says about a filter, before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError, suggest
from anabranch.mesh.config import MeshConfig
from anabranch.routing import policies


def require_known(options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that a filter does not have."""
    for name in options:
        hint = suggest(name, known, "options")
        if name == "pinned":
            hint = 'policy="fixed" keeps the written order; pinned=True is an option of a single predicate'
        raise QueryError(f"a filter has no option {name!r}", hint=hint)


def require_options(policy: Any, config: Any, on_error: Any) -> None:
    """Refuse what a policy, a configuration, or `on_error` cannot be."""
    if policy not in policies.NAMES:
        raise QueryError(f"unknown policy {policy!r}", hint=suggest(str(policy), policies.NAMES, "policies"))
    if isinstance(config, MeshConfig) and policy != "mesh":
        raise QueryError(
            f"config is a MeshConfig, and the policy is {policy!r}",
            hint=f'use policy="mesh", or config=ab.OrderingConfig.for_policy("{policy}", ...)',
        )
    if config is not None and not isinstance(config, OrderingConfig | MeshConfig):
        raise QueryError(f"config is a {type(config).__name__}", hint="use ab.OrderingConfig.for_policy(policy, ...)")
    if on_error not in ("raise", "quarantine"):
        raise QueryError(f"on_error is {on_error!r}", hint='use on_error="raise" or on_error="quarantine"')


def pinned_order(policy: str, order: Any, names: Sequence[str]) -> tuple[str, ...] | None:
    """An order of predicates by their names, for the policy that keeps one.

    >>> pinned_order("fixed", ["b", "a"], ["a", "b", "c"])
    ('b', 'a')
    """
    if order is None:
        return None
    if isinstance(order, str) or policy != "fixed":
        raise QueryError("an order is pinned as a list of names", hint='use policy="fixed", order=["first", "second"]')
    given = tuple(order)
    for name in given:
        if name not in names:
            raise QueryError(f"there is no predicate {name!r}", hint=suggest(str(name), names, "predicates"))
    if len(set(given)) < len(given):
        raise QueryError("an order names every predicate once", hint="leave out what comes twice")
    return given
