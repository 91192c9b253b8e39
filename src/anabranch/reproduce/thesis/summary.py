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


def summary(exhibits: Iterable[Exhibit]) -> Exhibit:
    """Put together what the other exhibits found."""
    facts = {what: numbers for exhibit in exhibits for what, numbers in exhibit.facts.items()}
    order, profiling, settling = facts["order"], facts["profiling"], facts["settling"]
    head = ["algorithm", "convergence: paper", "cost / optimum", "overhead: paper", "profiling, n = 8, p = 0.05", "speed: paper", "tuples to settle"]  # fmt: skip
    rows = [
        [
            LABELS[name],
            words[0],
            f"{order[name]:.3f}",
            words[1],
            f"{profiling[name]:.1%}",
            words[2],
            f"{settling[name]:,.0f}",
        ]
        for name, words in PAPER.items()
    ]
    others = max(settling[name] for name in THESIS if name != "sweep")
    low = max(profiling["sweep"], profiling["localswaps"])
    return Exhibit(
        "Table 4.3",
        "Summary of all algorithms",
        "No algorithm is strong in convergence, overhead and speed at once.",
        "The same three-way trade-off among the four; auto buys speed with bursts of profiling instead of a constant share.",
        "The paper's words, our numbers. Independent's low overhead is its lower p; at the same p it profiles as much as A-Greedy.",
        [
            at_least(
                "Table 4.3 A-Greedy's profiling share / that of Sweep, LocalSwaps",
                profiling["agreedy"] / low,
                2.0,
                "high",
            ),
            at_least(
                "Table 4.3 Independent's order / A-Greedy's",
                order["independent"] / order["agreedy"],
                1.03,
                "misses correlations",
            ),
            at_least(
                "Table 4.3 Sweep / slowest of the other three, tuples to settle",
                settling["sweep"] / others,
                1.0,
                "slowest",
            ),
        ],
        table=[head, *rows],
    )
