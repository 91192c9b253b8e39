"""Internal consistency: the sum of all balances is 0 at every instant, however transfers are cut into batches."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from cql.bank import ACCOUNTS, BALANCES, TOTALS, sums, transfers
from cql.comparing import bound, expected
from cql.local import LocalEngine
from cql.streams import SECOND, Case, Cuts
from seeds import drawn

ROWS = 60


def cut(count: int, rng: random.Random) -> Cuts:
    """Some batches, and some cells."""
    edges = [0, *sorted(rng.randint(0, count) for _ in range(rng.randint(0, 6))), count]
    return Cuts({"transfers": tuple(high - low for low, high in pairwise(edges))}, rng.randint(1, 4))


@pytest.mark.parametrize("name", BALANCES)
@pytest.mark.parametrize("seed", drawn(2))
def test_the_sum_of_all_balances_is_always_0(name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    stream = transfers(ROWS, rng, skew=rng.choice((0, SECOND)))
    case = Case((stream,), (), BALANCES[name], cut(ROWS, rng))
    answer = LocalEngine(case, bound(case), tmp_path, switches=rng).answer()
    changes = [(row[1], row[2], row[3]) for row in answer.elements()]
    assert len(sums(changes)) > ROWS // 4, "they change often"
    assert set(sums(changes).values()) == {0}
    held = {account for account, _, _, weight in answer if weight > 0}
    assert held == set(range(ACCOUNTS))


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("seed", drawn(2))
def test_a_query_that_sums_them_up_never_says_anything_else(name: str, seed: int) -> None:
    rng = random.Random(seed)
    case = Case((transfers(ROWS, rng),), (), TOTALS[name], cut(ROWS, rng))
    answer = LocalEngine(case, bound(case)).answer()
    assert answer == expected(case)
    assert {row[0] for row in answer if row[-1] > 0} == {0}
