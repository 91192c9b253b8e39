"""What the paper says about each experiment, in our words, and why our numbers may differ.

The curves themselves are not available to us; prose and tables are.
"""

from __future__ import annotations

from anabranch.reproduce.thesis.claims import Claim

CLAIMS = {
    "Table 1": Claim(
        "Gain ratio of attribute A for three operators",
        "0.33, 0.63 and 0.37: the second operator dominates.",
        "The paper's equations 2 to 5 do not give its numbers, whatever the base of the logarithm. Ours follow them.",
    ),
    "Figure 3": Claim(
        "Varying skew, 2 joins",
        "The larger the skew, the more Content-Learns is ahead of SBR, above all when A < B.",
        "Time is ours: measured CPU time of routing and learning, in Python, plus 20 us per operator call.",
    ),
    "Figure 4": Claim(
        "Varying skew, 6 joins",
        "As in figure 3. Across 2, 4, 6 and 8 joins: up to 67.8 % fewer routing calls (8 joins, largest skew), 26.9 % "
        "on average where A < B, 10.2 % where A > B.",
        "The values of A are not given: averages depend on how many of them are close to B. With many joins and A > B "
        "the classes hardly differ: a sample of 150 tuples rarely shows it, and it would not save much.",
    ),
    "Figure 5": Claim(
        "Random selectivities: breakdown of routing calls by the classifier that they used",
        "The wrong classifier in 6.4 % of 16 million routing calls.",
        "The threshold gamma is not given: ours follows from the size of the sample. Constants, sequences and keys are "
        "pruned, as section 4.4 proposes; the figure without pruning is shown, too.",
    ),
    "Figure 6": Claim(
        "Random selectivities: improvement over SBR",
        "The more operators, the more there is to gain.",
        "Part of the gain is not content: Content-Learns always takes the operator with the least expected "
        "selectivity, SBR draws it. The last column shows what that alone gives.",
    ),
    "Figure 7": Claim(
        "Varying aggregate selectivity, 6 joins",
        "Improvement for aggregate selectivities of 5 to 35 %.",
        "How selectivities are drawn for a given aggregate is not said: ours are uniform, raised to a common power in "
        "each class.",
    ),
    "Figure 8": Claim(
        "Query Q1 over three days: selectivity, best classifier, gain ratio",
        "The sensor is nearly always the best classifier, sometimes the hour, mostly at dawn and dusk; none at night, "
        "when no tuple passes.",
        "The Berkeley trace is not at hand: 54 sensors are generated, with daylight, windows and lamps. The attribute "
        "that a predicate tests is no candidate: it decides the outcome.",
    ),
    "Query Q2": Claim(
        "50 random queries with four range predicates over the sensors",
        "8 % fewer routing calls, 18 % fewer until a tuple is dropped, 5 % less time. Selectivities are close to 0 or "
        "100 % during 57.2 % of the time.",
        "Generated sensors; and a real trace of a single room, with no sensors to tell apart, whose readings hardly "
        "change from minute to minute: running selectivities know all there is to know. There taking the least "
        "selectivity first gains a little, and learning by content costs some of it.",
    ),
    "Figure 9": Claim(
        "Q2 with growing operator costs",
        "The gain in time grows with the cost of operators, up to the gain in routing calls.",
        "Routing and learning are measured, operators are accounted for at their cost. Ours are Python, so that cheap "
        "operators do not repay them.",
    ),
    "Figure 10": Claim(
        "Routing and learning overhead per routed tuple",
        "Both policies alike, a few microseconds: 4 to 5 % of the execution time.",
        "Python and batches: the overhead per tuple falls with the size of a batch. In Python, learning takes about "
        "five times as long as SBR's statistics, so the two are not alike.",
    ),
    "Worst case": Claim(
        "One operator: nothing to gain",
        "0.8 % more execution time than SBR.",
        "20 us per operator call stand for the rest of the execution. As section 4.4 suggests, we prune an operator "
        "whose place is fixed, and the only one is.",
    ),
}
