"""Random queries over random streams: the engine says what the definition says, at every instant, however rows come."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from cql.comparing import difference

CASES = 50_000 if os.environ.get("ANABRANCH_SOAK") else 2000
CHUNK = 25


@pytest.mark.timeout(CASES)
def test_the_engine_agrees_with_the_definition() -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        found = [each for each in pool.map(difference, range(CASES), chunksize=CHUNK) if each is not None]
    assert not found, f"{len(found)} of {CASES} cases differ, the first of them:\n{found[0]}"
