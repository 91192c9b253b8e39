"""What the thesis says about each figure and table, in our words, and why our numbers may differ.

The curves themselves are not available to us; prose and tables are.
"""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """Title of an exhibit, what the paper says, why ours differs."""

    title: str
    paper: str
    why: str


CLAIMS = {
    "Example 4.5.1": Claim(
        "Independent is O(n) times worse than A-Greedy",
        "0.49 n + 0.51 evaluations per tuple for Independent, 1.49 for A-Greedy.",
        "They do not.",
    ),
    "Example 4.6.1": Claim(
        "LocalSwaps is O(n) times worse than A-Greedy",
        "50 (n + 1) evaluations per tuple for LocalSwaps, 1 + 200/n for A-Greedy.",
        "The first is for 100 tuples; per tuple the two are (n + 1) / 2 and 1 + 1/n. LocalSwaps is held by an exact "
        "tie: sampling breaks it sooner or later, the sooner the fewer profile tuples it decides on.",
    ),
    "Figure 4.11": Claim(
        "Number of filters, converged",
        "A-Greedy is faster than Independent throughout, and the gap widens with n. It is near the optimum for "
        "small n and falls off for larger n, by its overhead.",
        "The gap levels off: few tuples get beyond the fifth filter. With exactly 50 % for all filters every order "
        "suits Independent; its order is left to chance, which separates the partners more often the more filters "
        "there are.",
    ),
    "Figure 4.12": Claim(
        "Selectivity, converged",
        "The relative gain is best at intermediate selectivities: with low ones the first filter drops nearly all, "
        "with high ones hardly anything is dropped.",
        "The number of filters is not given: 3 and 8. At the ends A-Greedy is behind by its profiling: p = 0.01 "
        "against 0.005, for the same order; with 8 filters of 10 % that is 3 % of the total. There the 80 % rule "
        "leaves no correlation: independent filters of 10 or 90 % agree on 82 %.",
    ),
    "Figure 4.13": Claim(
        "Correlation factor, 3 filters, converged",
        "The relative gain rises with the correlation, and is smaller again when the factor is close to n.",
        "Below 1 at both ends: the same order for both, and A-Greedy profiles twice as many tuples.",
    ),
    "Figure 4.14": Claim(
        "Correlation factor, 8 filters, converged",
        "The relative gain rises with the correlation, and is smaller again when the factor is close to n.",
        "Below 1 at both ends: the same order for both, and A-Greedy profiles twice as many tuples.",
    ),
    "Figure 4.15": Claim(
        "All algorithms by number of filters, converged, p = 0.05",
        "Sweep and LocalSwaps are ahead of A-Greedy, and the gap increases with n.",
        "Evaluations are counted; what the decisions take on top is timed below.",
    ),
    "Figure 4.16": Claim(
        "Where the time of Figure 4.15 goes",
        "Processing takes about the same for Optimal, A-Greedy, Sweep and LocalSwaps; the gap is A-Greedy's overhead.",
        "Independent profiles as much as A-Greedy here, since p is 0.05 for all.",
    ),
    "Figure 4.17": Claim(
        "Filter costs, converged: four filters of cost 1, four of cost c",
        "Sweep and LocalSwaps are ahead of A-Greedy by their lower overhead. Sweep is ahead of LocalSwaps, which "
        "misses the best order for c = 50 and 100.",
        "Which filters are expensive and where they begin is not given; here the first half. LocalSwaps moves them "
        "back one place per window, and has not come to the best order when it is measured, after 700,000 tuples. That "
        "is a matter of time: after 600,000 it is behind A-Greedy as well, after 900,000 it is nearly there. It does "
        "not get stuck: between neighbours of nearly equal rank, which thrashing avoidance leaves alone, chance "
        "decides in the end. With one expensive filter in each pair it is there before.",
    ),
    "Figure 4.18": Claim(
        "Where the time of Figure 4.17 goes",
        "A-Greedy's overhead is much higher than with equal costs, about 25 % for c = 100; that of Sweep and "
        "LocalSwaps stays low.",
        "The share follows from p and the costs, and p is not given: 0.01 leads to less than 25 %, 0.05 to more.",
    ),
    "Table 4.2": Claim(
        "Where A-Greedy's time goes, timed, in %",
        "More than 98 % is processing or creating profile tuples; the latter from 0.88 % (n = 3, p = 0.01) to 13.34 "
        "% (n = 8, p = 0.05).",
        "The share of profile tuples follows from p and n. Window, view and violations are handled once per chunk "
        "in numpy; with equal selectivities chance reorders the last places, which few tuples reach, again and "
        "again, and every correction scans the window and shortens the next chunks.",
    ),
    "Figure 4.16, timed": Claim(
        "Shares of the time, real hash probes, p = 0.05",
        "The gap between A-Greedy and Sweep or LocalSwaps is A-Greedy's overhead.",
        "Small chunks are profiled in smaller calls, whose fixed costs count.",
    ),
    "Figure 4.18, timed": Claim(
        "Shares of the time, real hash probes, n = 8, p as in Table 4.1",
        "A-Greedy about 25 % for c = 100, Sweep and LocalSwaps low.",
        "As for Figure 4.18.",
    ),
    "Figure 4.19": Claim(
        "A-Greedy and Sweep over time",
        "A-Greedy reaches the new greedy order much faster than Sweep.",
        "A-Greedy waits until new profile tuples outweigh the old ones in its window of 1000, Sweep until the place "
        "in question has its stage.",
    ),
    "Figure 4.20": Claim(
        "A-Greedy and LocalSwaps over time",
        "A-Greedy is much faster than LocalSwaps, whose cost changes more smoothly than that of Sweep.",
        "After a swap LocalSwaps waits for a new window of 1000 profile tuples for the neighbouring pairs. The "
        "paper does not say how it does; deciding on 30 of them, LocalSwaps is not slower than "
        "A-Greedy.",
    ),
    "Figure 4.21": Claim(
        "A-Greedy and Independent over time",
        "Independent also adapts quickly, to an order that is worse both before and after the change.",
        "Independent profiles half as many tuples (Table 4.1), so its window takes twice as long to renew.",
    ),
    "Beyond 4.21": Claim(
        "A-Greedy and auto over time",
        "Not in the paper, which leaves open how to adapt the profiling probability.",
        "auto sees drop rates of normal processing jump, empties its window and profiles every dropped tuple for a "
        "moment.",
    ),
    "Figure 4.22": Claim(
        "Rate of change, c = 10",
        "At high rates A-Greedy and Independent clearly outperform Sweep and LocalSwaps; the advantage shrinks with "
        "the rate. A-Greedy is better than Sweep at a period of 100,000, Sweep at 1,000,000.",
        "The selectivities are not given, and the crossing moves with them: the more a stale order costs compared "
        "with profiling, the more a fast policy pays. Of five sets that were tried, pairs of 12, 50, 70 and 85 % "
        "are shown, where it lies as in the paper. LocalSwaps follows later than A-Greedy, but hardly profiles, and in "
        "the total the one makes up for the other; which of them is ahead changes with the selectivities and the "
        "changes that are drawn (0.87 to 1.2). What a swap does to the window is not given, either: with one "
        "swap per window LocalSwaps is at 1.11 times A-Greedy, and needs twice as many tuples to settle as Sweep; "
        "with old tuples counted as far as they were tried it is at 0.89, and takes swaps back. At periods "
        "below 50,000 none of the four follows: a window of 1000 takes longer to renew.",
    ),
    "Figure 4.23": Claim(
        "Filter costs, a change every 100,000 tuples",
        "A-Greedy stays ahead of Sweep although its overhead grows with c; it even gains on it.",
        "Whether A-Greedy gains as c grows depends on how much worse stale orders become, and so on the selectivities.",
    ),
    "Figure 4.24": Claim(
        "Filter costs, a change every 1,000,000 tuples",
        "Given enough time between changes, Sweep gains on A-Greedy as A-Greedy's overhead grows with c.",
        "Few changes: the level depends on which ones are drawn.",
    ),
    "Table 4.3": Claim(
        "Summary of all algorithms",
        "No algorithm is strong in convergence, overhead and speed at once. Sweep is the slowest.",
        "The paper's words, our numbers. Independent's low overhead is its lower p. How Sweep and LocalSwaps "
        "compare in speed depends on the changes, and on what is counted: LocalSwaps takes longer to settle, Sweep "
        "costs more on the way there (Figure 4.22). Deciding about a pair on 500 profile tuples, as Sweep does about a "
        "place, LocalSwaps settles about as fast as Sweep, and finds the best order in Figure 4.17; with old tuples "
        "counted as far as they were tried, 1.7 times faster than Sweep, and finds it as well.",
    ),
}
