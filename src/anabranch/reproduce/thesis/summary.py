"""Table 4.3: the three properties of each algorithm, the paper's words next to our numbers."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.measure import at_least
from anabranch.reproduce.thesis.exhibit import LABELS, Exhibit
from anabranch.reproduce.thesis.running import OURS, THESIS

PAPER = {
    "agreedy": ("4-approximation", "high", "fast"),
    "sweep": ("4-approximation", "low, less work per step", "slowest"),
    "independent": ("misses correlations", "low profiling rate", "fast"),
    "localswaps": ("local optima", "low, less work per step", "slow"),
    OURS: ("-", "-", "-"),
}


HEAD = (
    "algorithm",
    "convergence: paper",
    "cost / optimum, worst n",
    "overhead: paper",
    "profiling, n = 8, p = 0.05",
    "speed: paper",
    "tuples to settle",
)


def summary(exhibits: Iterable[Exhibit]) -> Exhibit:
    """Put together what the other exhibits found."""
    facts = {what: numbers for exhibit in exhibits for what, numbers in exhibit.facts.items()}
    order, profiling, settling = facts["order"], facts["profiling"], facts["settling"]
    rows = [
        (LABELS[name], good, f"{order[name]:.3f}", low, f"{profiling[name]:.1%}", fast, f"{settling[name]:,.0f}")
        for name, (good, low, fast) in PAPER.items()
    ]
    lower = max(profiling["sweep"], profiling["localswaps"])
    others = max(settling[name] for name in THESIS if name != "sweep")
    return Exhibit(
        "Table 4.3",
        "The same trade-off among the four; auto buys speed with bursts of profiling instead of a constant share.",
        [
            at_least("Table 4.3 A-Greedy / Sweep and LocalSwaps, profiling", profiling["agreedy"] / lower, 2.0, "high"),
            at_least(
                "Table 4.3 Independent / A-Greedy, order", order["independent"] / order["agreedy"], 1.03, "misses"
            ),
            at_least("Table 4.3 Sweep / slowest other, tuples to settle", settling["sweep"] / others, 1.0, "slowest"),
        ],
        table=[HEAD, *rows],
    )
