"""Routes as a river: rows come in at the left, part into arms as wide as their share, and join again at the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anabranch.filter_report import RouteReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 0.12
BEND = 40
LONGEST_TEST = 60
LONGEST_NAME = 28
LONGEST_ORDER = 100


def draw_river(axes: Axes, routes: Sequence[RouteReport], colours: Mapping[str, str]) -> None:
    """Draw the arms; a predicate on an arm is a stroke in its colour, with its name."""
    total = 1 + GAP * (len(routes) - 1)
    steps = max((len(r.order) for r in routes), default=1)
    source = (total - 1) / 2
    low = 0.0
    for route in routes:
        _draw_arm(axes, route, source, low, steps, colours)
        source += route.share
        low += route.share + GAP
    axes.set_xlim(0, steps + 2)
    axes.set_ylim(total + GAP, -GAP)
    axes.set_axis_off()


def _draw_arm(
    axes: Axes, route: RouteReport, source: float, low: float, steps: int, colours: Mapping[str, str]
) -> None:
    bend = (1 - np.cos(np.linspace(0, np.pi, BEND))) / 2
    ramp = np.linspace(0, 1, BEND)
    x = np.concatenate([ramp, [steps + 1], steps + 1 + ramp])
    top = np.concatenate([source + bend * (low - source), [low], low + bend * (source - low)])
    axes.fill_between(x, top, top + route.share, color="#9CC3E4", alpha=0.75, linewidth=0)
    for place, name in enumerate(route.order, start=1):
        axes.vlines(place + 0.25, low, low + route.share, color=colours.get(name, "#475569"), linewidth=3)
        text = shortened(name, min(LONGEST_NAME, LONGEST_ORDER // steps))
        axes.text(place + 0.32, low + route.share / 2, text, va="center", fontsize=8)
    tests = " or ".join(route.tests) or "all rows"
    label = f"{route.share:.0%}  {tests if len(tests) <= LONGEST_TEST else tests[:LONGEST_TEST] + '…'}"
    axes.text(1.0, low - GAP * 0.15, label, va="bottom", fontsize=8, fontweight="bold")


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Leave out the middle of a long name: expressions often differ in their ends.

    >>> shortened("payload rlike 'attack'", 14)
    "payloa…attack'"
    """
    half = longest // 2
    return name if len(name) <= longest else f"{name[: half - 1].rstrip()}…{name[-half:].lstrip()}"
