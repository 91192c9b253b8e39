"""Which cases of a test belong to which tier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def tiers(cases: Iterable[Any], fast: int, reason: str = "more of the same kind") -> list[Any]:
    """The cases of a parameter: the first ones in every tier, the others in the full one.

    >>> [len(case.marks) for case in tiers("abc", fast=2)]
    [0, 0, 1]
    """
    left_out = [pytest.mark.full(reason=reason)]
    return [pytest.param(case, marks=left_out if place >= fast else []) for place, case in enumerate(cases)]


def examples(times: float) -> settings:
    """So many times as many examples of Hypothesis as the tier has of most properties."""
    return settings(max_examples=round(times * settings().max_examples))
