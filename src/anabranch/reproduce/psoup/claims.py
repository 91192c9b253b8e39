"""What the paper says about each experiment, in our words, and why our numbers may differ.

The curves themselves are not available to us; prose and tables are. Lines of the text at hand: Table 1 and the
workload 1945-1954, figure 7 1958-1967, figure 8 1969-1971, Table 2 1978-1994, figure 9 2000-2006, the summary 2015,
figure 11 2034-2045.

Misprints: section 5.4.2 writes RELOP2/RELOP3, but in its text Eq/Ineq is the workload with an equality as RELOP3, and
what it says about Ineq/Ineq first is about an equality as RELOP2 (2045). Table 2 is in milliseconds (1986): 0.0465 for
the 11,000 tuples of a third of the window are 4 ns, three cycles of that machine, to find and copy a tuple. Its unit
cannot be right; its ratios can.
"""

from __future__ import annotations

from anabranch.reproduce.thesis.claims import Claim

CLAIMS = {
    "Figure 7": Claim(
        "Response time of selections by window size",
        "All grow with the window, and NoMat is much worse than the others. Equality queries: PSoup-P is two orders of "
        "magnitude slower than PSoup-C, since it reads the whole bitmap. Interval queries: the two are alike, NoMat "
        "and PSoup-C are slower than with equalities, PSoup-P is not.",
        "A word of the bitmap is read in a nanosecond or two and an index is a sorted array, so that fixed costs of a "
        "call (2 to 18 us) hide small windows, and the two orders shrink; counted in steps they are there if a step is "
        "a bit. PSoup-P copies as many tuples as PSoup-C, so it is slower with intervals, too.",
    ),
    "Figure 8": Claim(
        "Response time of joins by window size",
        "NoMat is about two orders of magnitude slower than the others; PSoup-P less than one order slower than "
        "PSoup-C: 29.98 against 8.54 ms with windows of 576 tuples, 3.5 times.",
        "Pairs are copied from arrays; the selectivity of the queries is not given. A hybrid struct that probes a "
        "sorted array costs as much as some hundred pairs that are copied, not as much as thousands. Following a list "
        "is dearer than reading bits here, so that PSoup-C loses where many pairs match.",
    ),
    "Table 2": Claim(
        "Response time by the number of interval predicates, window of 2^15",
        "NoMat / PSoup-P: 8.5, 20.4, 63.5 with 1, 2, 4 predicates; NoMat / PSoup-C: 7.0, 23.4, 236; PSoup-P / PSoup-C: "
        "0.82, 1.14, 3.7. NoMat gets slower with more predicates, both PSoups get faster, and their order changes "
        "between 1 and 2.",
        "The ratios grow likewise, but are smaller: an entry of our index is visited in 2 ns, less than it takes to "
        "copy a tuple, so that running a query anew is not much dearer than copying its answer, and with one predicate "
        "it is cheaper than following a list. For the same reason NoMat saves on copying more than it spends on "
        "more predicates: it grows in steps, not in time. The order of PSoup-P and PSoup-C changes later: see "
        "Crossover.",
    ),
    "Crossover": Claim(
        "The selectivity at which a bitmap and a list cost the same",
        "Between 1 and 2 interval predicates, a third and a ninth of the tuples. Both columns of Table 2 are linear in "
        "the number of results; the lines through their first two rows meet at 16 % and miss the third row by 8 and "
        "47 %.",
        "Where it lies depends on what it costs to follow a list, against reading bits. In arrays instead of linked "
        "lists, complete results are never slower.",
    ),
    "Figure 9": Claim(
        "Data arrival rate by the number of queries, window of 1000",
        "PSoup-P with the predicate index is best: an order of magnitude ahead of PSoup-P without, two ahead of both "
        "PSoup-C. The gain by the index grows with the number of queries, as new factors fall into nodes that are "
        "there. For PSoup-C the index hardly matters.",
        "Queries are tested one by one in Python, so the gain by the index is one over an interpreter, too: compared "
        "with all factors as arrays, the index gains little, since counting down a cell for each factor that holds "
        "costs as much as a comparison. Nodes do not grow, cells do. An element of a list costs about what a "
        "comparison does here, so PSoup-C is one order behind, not two, and the index matters for it as well.",
    ),
    "Section 5.3": Claim(
        "Which one to choose, by invocations per arriving tuple",
        "PSoup-C for high rates of invocation, PSoup-P for high rates of data; NoMat has no maintenance. No numbers.",
        "The paper leaves the choice open. The points where the curves cross are those of this machine.",
    ),
    "Figure 11": Claim(
        "Probing S with composite tuples and with separate hybrid structs",
        "The shared factor is an equality: the composite tuple is twice as fast, as half as many factors probe. The "
        "other one is: the sort-merge join of the composite tuple is faster. Both are inequalities: separate probes "
        "are faster, as sort-merge does not suit inequalities.",
        "A composite tuple is one join of two sorted arrays, separate hybrid structs are calls of Python, one each: "
        "the composite tuple gains far more. With inequalities the matches of a value are still one stretch of a "
        "sorted array, so it stays ahead, in time and in entries visited.",
    ),
}
