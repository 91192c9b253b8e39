"""Queries that differ in constants and have state: as one they say what each says alone, whatever becomes of others."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from cql.local import SHORT_LOG
from cql.local_network import Chaos, LocalNetwork, Sharing
from cql.query_sets import said_since
from cql.streams import SECOND, Case, Cuts, Stream
from seeds import drawn

COLUMNS = (("k", "bigint"), ("a", "bigint"), ("c", "string"))
SLIDING = "s [Range 5 Seconds Slide 2 Seconds] As x"
INNER = "Select Istream(x.k, x.a + 1 As n) From s [Now] As x Where x.a > {n}"
TEXTS = (
    "Select x.k, Count(*) As n From s [Range 3 Seconds] As x Where x.a > {n} Group By x.k",
    "Select x.k, Max(x.a) As top, Sum(x.a) t From s [Range 4 Seconds] As x Where x.a <> 9 And x.a < {n} Group By x.k",
    f"Select Istream(x.k, Count(Distinct x.a) As n) From {SLIDING} Where x.a >= {{n}} Group By x.k Having Count(*) > 1",
    f"Select Count(*) As n, Avg(x.a) As mean From {SLIDING} Where x.a In ({{n}}, 2) Group By x.k",
    "Select Distinct x.k From s [Range 3 Seconds] As x Where x.a = {n}",
    "Select Dstream(x.k, x.a) From s [Range 2 Seconds] As x Where x.a Between {n} And 4",
    "Select x.a + x.k As both From s [Rows Unbounded] As x Where x.k = {n}",
    "Select x.c, Min(x.k) As m From s [Range 6 Seconds] As x Where x.c Like '{w}%' And 10 / (x.a + 5) > 0 Group By x.c",
    f"Select y.k, Sum(y.n) As n From ({INNER}) [Range 3 Seconds] As y Group By y.k",
)


def disagreement(seed: int, folder: Path) -> tuple[str | None, int]:
    folder.mkdir()
    rng = random.Random(seed)
    rows, time = [], 0
    for number in range(40):
        time += rng.choice((0, 0, 1, 1, 2)) * SECOND // 2
        values = (rng.randrange(3), rng.choice((None, 0, 1, 2, 3, 4)), rng.choice(("p", "pq", "q", None)))
        rows.append((number, time, *values))
    stream = Stream("s", COLUMNS, tuple(rows))
    case = Case((stream,), (), "", Cuts({"s": (5,) * 8}, rng.choice((1, 2, 4))))
    sharings: tuple[Sharing, ...] = ("on", "on", "random")
    log = SHORT_LOG if seed % 2 else 64
    network = LocalNetwork(case, folder, Chaos(rng, rng.choice(sharings)), few_codes=seed % 5 == 0, longest_log=log)
    texts = rng.sample(TEXTS, 2)
    waiting = [rng.choice(texts).format(n=rng.randrange(5), w=rng.choice("pq")) for _ in range(10)]
    paused: set[str] = set()
    running: set[str] = set()
    for tick in range(8):
        for _ in range(len(waiting) if tick == 7 else rng.choice((0, 1, 6))):
            if waiting:
                name = f"q{len(waiting)}"
                network.register(name, waiting.pop())
                running.add(name)
        for name in sorted(paused):
            if rng.random() < 0.5:
                network.resume(name)
                paused.discard(name)
        for name in sorted(running - paused):
            if rng.random() < 0.1:
                network.drop(name)
                running.discard(name)
            elif rng.random() < 0.2:
                network.pause(name)
                paused.add(name)
        if rng.random() < 0.3:
            network.restart()
        network.arrive({"s": rows[5 * tick : 5 * tick + 5]})
    network.end()
    for name, query in network.queries.items():
        want = said_since(replace(case, query=query.case.query), query.since, query.position)
        if query.answer != want:
            missing, extra = want - query.answer, query.answer - want
            return f"seed {seed}: {name} {query.case.query}\nmissing {missing}\nextra {extra}", network.folded
    return None, network.folded


def _agree(seeds: list[int], folder: Path) -> None:
    found = [disagreement(seed, folder / str(place)) for place, seed in enumerate(seeds)]
    differences = [each for each, _ in found if each is not None]
    assert not differences, f"{len(differences)} of {len(found)} differ, the first:\n{differences[0]}"
    assert sum(folded for _, folded in found) > len(found), "some are folded"


def test_folded_sets_agree_with_the_definition_on_those_of_the_day(tmp_path: Path) -> None:
    _agree(list(drawn(12)), tmp_path)


@pytest.mark.full(reason="some hundred sets take a minute")
def test_folded_sets_agree_with_the_definition(tmp_path: Path) -> None:
    _agree(list(range(300)), tmp_path)
