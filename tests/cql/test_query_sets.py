"""Random sets of queries over shared streams: each says what the definition says, whatever it shares, and with whom.

Queries are registered, paused and dropped between ticks, some of them are equal or almost, and all memory is lost now
and then. Sharing is on, off or random; orders of joins and what is held in memory are random at every chunk.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import pytest

from cql.local_network import Chaos, LocalNetwork
from cql.query_sets import LARGEST, disagreement_of_set, said_since
from cql.streams import SECOND, Case, Cuts, Stream
from seeds import drawn

SETS = 4000 if os.environ.get("ANABRANCH_SOAK") else 400
DRAWN_SETS = 16
DRAWN_LARGEST = 6
"""Queries of a set of the day: what two of them share is seen in small sets, too, in a third of the time."""
CHUNK = 5


def _agree(found: Sequence[tuple[str | None, int]]) -> None:
    differences = [each for each, _ in found if each is not None]
    assert not differences, f"{len(differences)} of {len(found)} sets differ, the first of them:\n{differences[0]}"
    assert sum(shared for _, shared in found) > len(found) // 4, "some share"


def test_sets_of_queries_agree_with_the_definition_on_the_sets_of_the_day() -> None:
    _agree([disagreement_of_set(number, DRAWN_LARGEST) for number in drawn(DRAWN_SETS)])


@pytest.mark.full(reason="some hundred sets of up to 30 queries take minutes")
@pytest.mark.timeout(10 * SETS)
def test_sets_of_queries_agree_with_the_definition() -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        _agree(list(pool.map(disagreement_of_set, range(SETS), repeat(LARGEST), chunksize=CHUNK)))


def test_a_query_goes_on_with_what_it_shared_when_the_other_one_is_dropped(tmp_path: Path) -> None:
    rows = tuple((n, n * SECOND, n % 3, n % 5) for n in range(12))
    stream = Stream("s", (("k", "bigint"), ("a", "bigint")), rows)
    case = Case((stream,), (), "", Cuts({"s": (3,) * 4}, 2))
    first = "Select x.k, Count(*) As n From s [Range 3 Seconds] As x Where x.a > 0 Group By x.k Having Count(*) > 0"
    other = (
        "Select z.k As key, Count(*) As m From s [Range 3 Seconds] As z Where z.a > 0 Group By z.k Having Count(*) > 0"
    )
    network = LocalNetwork(case, tmp_path, Chaos(random.Random(1), "on", evictions=0.5))
    network.register("first", first)
    network.register("other", other)
    for tick in range(4):
        if tick == 2:
            network.drop("first")
        network.arrive({"s": rows[3 * tick : 3 * tick + 3]})
    network.end()
    assert network.shared
    query = network.queries["other"]
    assert query.answer == said_since(replace(case, query=other), query.since, query.position)
