"""What a reproduction shows of one figure or table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from anabranch.measure import Bar
from anabranch.reproduce.thesis.running import Measured

LABELS = {
    "optimal": "Optimal",
    "agreedy": "A-Greedy",
    "independent": "Independent",
    "sweep": "Sweep",
    "localswaps": "LocalSwaps",
    "auto": "auto (ours)",
}

STUDENT_VALUES = (4, 5, 6, 8, 10, 15, 20, 30, 60)
STUDENT_QUANTILES = (3.18, 2.78, 2.57, 2.36, 2.26, 2.14, 2.09, 2.05, 2.00)


@dataclass(frozen=True)
class Series:
    """One line, or one layer of stacked columns; `errors` are half the widths of the 95 % confidence intervals."""

    label: str
    values: Sequence[float]
    errors: Sequence[float] | None = None


@dataclass(frozen=True)
class Mark:
    """Something the paper says, drawn into the chart: a cross at (x, y), or a vertical line if there is no y."""

    label: str
    x: float
    y: float | None = None


@dataclass(frozen=True)
class Chart:
    """What to draw. The x of stacked columns are their names."""

    x_label: str
    y_label: str
    x: Sequence[float] | Sequence[str]
    series: Sequence[Series]
    kind: Literal["lines", "timeline", "columns"] = "lines"
    log_x: bool = False
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Exhibit:
    """One figure or table of a paper, re-created: what we found, the claims as bars, and how to show it.

    `facts` are numbers per policy that the summary needs.
    """

    name: str
    ours: str
    bars: Sequence[Bar] = ()
    charts: Sequence[Chart] = ()
    table: Sequence[Sequence[str]] = ()
    facts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The stem of its files.

        >>> Exhibit("Figure 4.16, timed", "").slug
        'figure-4.16-timed'
        """
        return self.name.lower().replace(" ", "-").replace(",", "")


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of a mean; 0 for less than four values, which say too little.

    >>> round(interval([1.0, 2.0, 3.0, 4.0]), 2), interval([1.0, 9.0])
    (2.05, 0.0)
    """
    if len(values) < 4:
        return 0.0
    quantile = float(np.interp(len(values), STUDENT_VALUES, STUDENT_QUANTILES))
    return quantile * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


def rate_chart(x_label: str, x: Sequence[float], found: Sequence[Measured], *, log_x: bool = False) -> Chart:
    """Tuples per 1000 units of cost, policy by policy, where they were measured."""
    series = []
    for name, label in LABELS.items():
        rates = [[1000 / spent.total for spent in measured.get(name, [])] for measured in found]
        if any(rates):
            values = [float(np.mean(each)) if each else float("nan") for each in rates]
            series.append(Series(label, values, [interval(each) for each in rates]))
    return Chart(x_label, "tuples per 1000 units of cost", x, series, log_x=log_x)
