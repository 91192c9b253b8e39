"""Random joins, placed at random, whose orders and caches change at any chunk: the definition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.planning.placement import Placement
from chaos import chaotic_joins
from cql.comparing import bound, expected
from cql.join_cases import SHAPES, JoinAuthor, random_join
from cql.local import LocalEngine
from cql.placing import random_place
from cql.streams import Relation
from seeds import drawn

CASES = 25
MANY_CASES = 1000
CELLS = (1, 2, 3, 4, 4, 6, 8)


def difference(number: int, folder: Path, counted: Counter[str]) -> str | None:
    """What is said otherwise about the join of a seed, if plans change at any moment."""
    case, rng = random_join(number), random.Random(number)
    case = replace(case, cuts=replace(case.cuts, cells=rng.choice(CELLS)))
    log = folder / str(number) if number % 2 else None
    if log is not None:
        log.mkdir()
    with chaotic_joins(rng) as chaos:
        engine = LocalEngine(
            case,
            bound(case),
            log,
            few_codes=number % 3 == 0,
            restart_every=rng.choice((1, 2, 3)),
            chaos=chaos,
            place=random_place(rng),
        )
        got = engine.answer()
    placements = engine.placements.values()
    counted.update(spread=sum(bool(each.hot) for each in placements), cubes=sum(_is_cube(each) for each in placements))
    counted.update(cached=chaos.cached, chosen=chaos.chosen, reordered=chaos.reordered)
    want = expected(case)
    counted["rows"] += sum(want.values())
    return None if got == want else f"seed {number}: {case}\nmissing {want - got}\nextra {got - want}"


def _is_cube(placement: Placement) -> bool:
    return sum(size > 1 for size in placement.sizes) > 1


def agree(numbers: range, folder: Path) -> Counter[str]:
    counted: Counter[str] = Counter()
    found = [each for number in numbers if (each := difference(number, folder, counted)) is not None]
    assert not found, f"{len(found)} of {len(numbers)} joins differ, the first of them:\n{found[0]}"
    return counted


def test_joins_of_the_day_are_the_definition_whatever_their_plans(tmp_path: Path) -> None:
    counted = agree(drawn(CASES), tmp_path)
    assert counted["rows"] > CASES
    assert counted["reordered"] > 0
    assert counted["spread"] > 0
    assert counted["cubes"] > 0


@pytest.mark.full(reason="a thousand joins take minutes")
@pytest.mark.timeout(1800)
def test_joins_are_the_definition_whatever_their_plans(tmp_path: Path) -> None:
    counted = agree(range(MANY_CASES), tmp_path)
    assert counted["cached"] > MANY_CASES // 4
    assert counted["reordered"] > MANY_CASES // 4


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_drawn(shape: str) -> None:
    assert shape in {_shape(seed) for seed in range(100)}


def _shape(seed: int) -> str:
    class Drawn(JoinAuthor):
        def join_text(self, shape: str, count: int, relations: Sequence[Relation] = ()) -> str:
            shapes.append(shape)
            return super().join_text(shape, count, relations)

    shapes: list[str] = []
    Drawn(random.Random(seed).randrange).join_case()
    return shapes[0]
