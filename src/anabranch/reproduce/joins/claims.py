"""What the thesis says about each figure and table of chapter 5, in our words, and why our numbers may differ.

The curves themselves are not available to us; prose and tables are.
"""

from __future__ import annotations

from anabranch.reproduce.thesis.claims import Claim

BATCHES = (
    "Times: rows come in batches, and a probe is part of a compiled loop over many rows; looking a cache up takes "
    "several calls per batch, which probably outweigh the steps that it saves while probes are as cheap as these."
)

CLAIMS = {
    "Figures 5.11 and 5.12": Claim(
        "Hit probability",
        "The gain grows with hits. The cache is better even at multiplicity 1, since each row comes again when it "
        "leaves its window.",
        "At multiplicity 1 probes are a tie: 12 per value with and without. What the thesis gains there is that "
        "probing a cache is cheaper than probing a window and building a tuple. Ours does not see rows again when they "
        f"leave, so that nothing hits at multiplicity 1, and an entry is made in vain. {BATCHES}",
    ),
    "Figures 5.13 and 5.14": Claim(
        "Join selectivity",
        "The cache is better over the whole range, least where selectivities are close to 1.",
        "Probes are fewer over the whole range. With updates at half a probe the gain is gone at four partners, and so "
        "it is in our steps: a combination that is kept costs as much as it saves. The thesis does not give the "
        f"cost of an update. {BATCHES}",
    ),
    "Figures 5.15 and 5.16": Claim(
        "Updates and look-ups",
        "The gain falls with updates, and the cache is still better where they are more than look-ups.",
        "Ours pays about two probes and two steps for an update, since a row that comes is joined with the rest of the "
        f"segment before other rows see it; it breaks even near one update per look-up. {BATCHES}",
    ),
    "Figures 5.17 and 5.18": Claim(
        "Number of joins",
        "Caches win for all n; the join of 7 uses 6 of 15 candidates.",
        "Which streams have each value five times is not given; here the last ones. With three streams the only "
        "candidate saves nothing. In ours partners are listed once per window, so that a long pipeline costs less "
        f"from the start. {BATCHES}",
    ),
    "Figures 5.19 and 5.20": Claim(
        "Join cost",
        "Without an index on S.B the gain grows with the size of S, up to 90 %.",
        "Ours has an index on every key. What has to be looked through here are rows with a key that are compared with "
        "rows of another window.",
    ),
    "Figure 5.21": Claim(
        "M, X, P and G at the points of Table 5.2",
        "X, P and G almost always outperform M. X clearly outperforms P at D1, D2 and D3; G is almost always as good "
        "as X, and clearly better at D2, D3, D4 and D7.",
        "How values are distributed is not given, and decides which three-way results are worth keeping: ours have "
        "values that all streams know and values that two know. At D7 no row has a partner, and every plan needs one "
        "probe per row: there is nothing to be better at. In ours M takes the fewest steps at nearly all points, as it "
        "does not probe again for every tuple on the way; caches see that and stay away. X keeps more than it saves, "
        "but makes fewer calls per batch, and is quicker for that.",
    ),
    "Figure 5.22": Claim(
        "A burst of R",
        "Adaptive caching is nearly equal to the static plan with the cache for T before the burst, and gets to the "
        "cache for R quickly when R comes 20 times as fast.",
        "The burst begins after fewer rows of S than in the thesis. A row is one step of time. Choices are made after "
        "some chunks of rows, not after 10,000 rows. In the burst the cache for R saves next to nothing in ours: "
        "adaptive caching does as well without it.",
    ),
    "Figure 5.23": Claim(
        "Memory",
        "M does not change with memory; P and G get better smoothly; X needs 25.6 KB, the best X 32 KB.",
        "32 / 25.6 is 5/4: a left-deep tree keeps pairs and triples, a bushy one two kinds of pairs. A "
        "combination takes a reference per row and two ends of an interval in ours; windows of D8 hold 1,000 rows "
        "here. Ours is shown with the caches that the paper's way chooses: by itself it would use none at D8.",
    ),
}
