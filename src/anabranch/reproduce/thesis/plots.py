"""Draws the charts of an exhibit, side by side, into one PNG."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anabranch.errors import MissingExtra
from anabranch.reproduce.thesis.exhibit import LABELS, Chart, Exhibit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which anyone can tell apart.
COLOURS = dict(zip(LABELS.values(), ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
LAYERS = ("#475569", "#D55E00", "#E69F00", "#56B4E9")
MARKERS = dict(zip(LABELS.values(), "xos^Dv", strict=True))
OTHERS = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7", "#E69F00")
PAPER_COLOUR = "#B91C1C"


def draw(exhibit: Exhibit, title: str, folder: Path) -> Path | None:
    """Write the picture of an exhibit, if it has charts, and return its path."""
    if not exhibit.charts:
        return None
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", needed_for="the figures of a reproduction") from None
    widths = [max(5.2, 0.36 * len(chart.x)) if chart.kind == "columns" else _width(chart) for chart in exhibit.charts]
    figure = Figure(figsize=(sum(widths), 4.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(exhibit.charts), squeeze=False, width_ratios=widths)[0]
    for place, chart in zip(axes, exhibit.charts, strict=True):
        _draw(chart, place)
    figure.suptitle(f"{exhibit.name}: {title}", fontsize=11)
    path = folder / f"{exhibit.slug}.png"
    figure.savefig(path)
    return path


def _width(chart: Chart) -> float:
    return 9.0 if chart.kind == "timeline" else 5.2


def _draw(chart: Chart, place: Axes) -> None:
    if chart.kind == "columns":
        _columns(chart, place)
    else:
        _lines(chart, place)
        if chart.log_x:
            place.set_xscale("log")
            place.set_xticks([float(x) for x in chart.x], [f"{float(x):,.0f}" for x in chart.x], fontsize=8)
            place.set_xticks([], minor=True)
        elif chart.kind == "timeline":
            place.xaxis.set_major_formatter("{x:,.0f}")
        _marks(chart, place)
        place.grid(alpha=0.25)
    place.set_xlabel(chart.x_label)
    place.set_ylabel(chart.y_label)
    place.spines[["top", "right"]].set_visible(False)
    place.legend(fontsize=8, frameon=False, ncols=4 if chart.kind == "columns" else 1)


def _lines(chart: Chart, place: Axes) -> None:
    x = np.array(chart.x, dtype=np.float64)
    for number, series in enumerate(chart.series):
        colour, values = COLOURS.get(series.label, OTHERS[number % len(OTHERS)]), np.array(series.values)
        if chart.kind == "timeline":
            place.plot(x, values, color=colour, linewidth=1.0, label=series.label)
        else:
            errors = np.zeros(len(x)) if series.errors is None else np.array(series.errors)
            place.errorbar(
                x,
                values,
                errors,
                color=colour,
                marker=MARKERS.get(series.label, "o"),
                markersize=5,
                capsize=2,
                label=series.label,
            )


def _marks(chart: Chart, place: Axes) -> None:
    named: set[str] = set()
    for mark in chart.marks:
        label = None if mark.label in named else mark.label
        named.add(mark.label)
        if mark.y is None:
            place.axvline(mark.x, color=PAPER_COLOUR, linestyle="--", linewidth=1.0)
            place.annotate(
                mark.label,
                (mark.x, 1.01),
                xycoords=("data", "axes fraction"),
                color=PAPER_COLOUR,
                fontsize=8,
                ha="center",
                va="bottom",
            )
        else:
            place.plot(
                [mark.x],
                [mark.y],
                "+",
                color=PAPER_COLOUR,
                markersize=13,
                markeredgewidth=1.8,
                label=label,
                linestyle="none",
            )


def _columns(chart: Chart, place: Axes) -> None:
    """Stacked columns named `group|member`, with a gap between the groups."""
    names = [str(name).split("|") for name in chart.x]
    x, at, ticks = [], 0.0, []
    for group, members in groupby(names, key=lambda name: name[0]):
        count = len(list(members))
        x += [at + i for i in range(count)]
        ticks.append((at + (count - 1) / 2, group))
        at += count + 0.7
    base = np.zeros(len(x))
    for series, colour in zip(chart.series, LAYERS, strict=False):
        place.bar(x, series.values, bottom=base, width=0.8, color=colour, label=series.label)
        base += np.array(series.values)
    place.set_xticks(x, [name[1] for name in names], rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    place.set_ylim(0, base.max() * 1.3)
    for middle, group in ticks:
        place.annotate(group, (middle, base.max() * 1.04), ha="center", fontsize=8)
