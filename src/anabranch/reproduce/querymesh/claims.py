"""What the paper says about each experiment, in our words, and why our numbers may differ.

The curves themselves are not available to us; prose and tables are.
"""

from __future__ import annotations

from anabranch.reproduce.thesis.claims import Claim

CLAIMS = {
    "Figure 10a": Claim(
        "Average output rate",
        "Skewed data: the mesh has a 44 % higher rate than the single plan, 27 % and 18 % higher than the Eddy without "
        "and with batches. Uniform data: 2.2 % behind the single plan, 39 % and 24 % ahead of the Eddy.",
        "Operator calls only, and joins are operators with random selectivities per partition, which the paper does "
        "not give: see Partitions. Without time, batches do not help an Eddy, and on uniform data it is behind by its "
        "profiling only. On skewed data it is behind while it learns: on long streams by much less. Our optimizer "
        "keeps a mesh only if it pays on rows that it was not learned from: one route on uniform data, and nothing "
        "lost. The sample comes from an earlier run, as there, and is not paid for.",
    ),
    "Figure 10b": Claim(
        "Average execution time per tuple",
        "As the output rate.",
        "Operators take 20 us per call, overheads are measured, in Python. An Eddy that handles tuples one by one pays "
        "several times the operators' time for it, so that it is further behind than in Java.",
    ),
    "Figure 10c": Claim(
        "Share of the execution time that is overhead",
        "Mesh: 2-3 % at most, classification less than 2 %. Eddy: nearly 20 % without batches, and batches do not help "
        "much.",
        "Whole windows are classified and routed as arrays, so both the mesh and the Eddy in batches gain by them. Our "
        "Eddy chooses the whole order as a tuple arrives: there is no way back to the router after each operator, "
        "which the paper blames for most of the overhead. The Eddy's share without batches depends on the cost of a "
        "call; the last row says with which one it would be 20 %.",
    ),
    "Figure 11a": Claim(
        "Results over an hour, synthetic data",
        "The mesh produces many more than the single plan and the Eddy, all the time.",
        "The hour is the time that the mesh takes for our streams, in operator calls; overheads are left out, which is "
        "to the Eddy's advantage. Queues are not modelled.",
    ),
    "Figure 11b": Claim(
        "Results, real data",
        "As on synthetic data, though not by as much.",
        "Not reproduced: neither data set is at hand, so there are no claims here. Our sensors are generated and the "
        "real trace is of a single room; readings depend on the hour more than on content, and change from day to day. "
        "A mesh learned on the first day does not follow, an Eddy that keeps learning does.",
    ),
    "Partitions": Claim(
        "What the gain over the single plan depends on",
        "44 %, with three partitions whose best orders differ; their selectivities are not given.",
        "The more the best orders of the partitions differ, the more there is to gain. Random selectivities give less "
        "than the paper's gain, partitions with one telling join each give more.",
    ),
    "Figure 12": Claim(
        "Effect of the size of the training set on the search",
        "The larger the training set, the longer the search, for SA-QM and II-QM.",
        "Our searches remember routes, and the number of moves is limited, so that time does not explode. More "
        "training tuples do not give better meshes here: each stands for ten rows then, whose best order is chance. "
        "The curve of calls is for configurations as they are searched; the optimizer divides the tree's leaves once "
        "more.",
    ),
    "Figure 13": Claim(
        "Effect of the start solution",
        "Route-driven is best: 6 % over extreme-N, 10 % over content-driven, 12 % over random, 19 % over extreme-1.",
        "Ten training tuples are few enough for a search to reach the same mesh from everywhere, so the starts are "
        "compared as they are, too. Condensing groups rows by what joins do with them, so that a route for each "
        "training tuple is as good as route-driven. With annealing over 100 training tuples, route-driven is no better "
        "than the others: the best order of ten rows is chance.",
    ),
}
