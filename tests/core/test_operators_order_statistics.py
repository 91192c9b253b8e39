from __future__ import annotations

from collections import Counter
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.order_statistics import Bag
from anabranch.operators.steps import Steps

NAN = float("nan")


@pytest.mark.parametrize("groups", [1, 7])
@pytest.mark.parametrize("distinct", [3, 40, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_every_target_at_every_step(groups: int, distinct: int, seed: int) -> None:
    random = np.random.default_rng([groups, distinct, seed])
    bag, counts = Bag(pa.int64()), [Counter[int]() for _ in range(groups)]
    for tick in range(5):
        events: list[tuple[int, int, int, int]] = []
        after = [counter.copy() for counter in counts]
        for place in range(int(random.integers(0, 150))):
            slot, value = int(random.integers(groups)), int(random.integers(distinct))
            weight = int(random.integers(1, 4)) if random.random() < 0.5 else -after[slot][value]
            after[slot][value] += weight
            events.append((slot, value, weight, place // 3))
        slots, values, weights, times = np.array(events, np.int64).reshape(-1, 4).T
        steps = Steps.of(slots, times)
        change = bag.add(pa.array(values[steps.order]), weights[steps.order], steps)
        shown = [bag_at(counts, events, *step) for step in of_steps(steps)]
        for share in (0.0, 0.3, 1.0):
            sizes = np.array([len(each) for each in shown], np.int64)
            targets = np.minimum(np.maximum(np.ceil(share * sizes).astype(np.int64), 1), sizes)
            found = change.at(targets).to_array(np.arange(len(shown))).to_pylist()
            assert found == [each[n - 1] if each else None for each, n in zip(shown, targets.tolist(), strict=True)]
        present = steps.running(change.presence(), np.array([len(+counts[s]) for s in steps.slots.tolist()], np.int64))
        assert present.tolist() == [len(set(each)) for each in shown]
        counts = [+counter for counter in after]
        assert len(bag) == sum(map(len, counts))
        if tick == 2:
            copy = Bag(pa.int64())
            copy.restore(bag.snapshot())
            bag = copy


def of_steps(steps: Steps) -> list[tuple[int, int]]:
    return list(zip(steps.slots[steps.owner].tolist(), steps.times.tolist(), strict=True))


def bag_at(counts: list[Counter[int]], events: list[tuple[int, int, int, int]], slot: int, at: int) -> list[int]:
    bag = counts[slot].copy()
    for owner, value, weight, instant in events:
        if owner == slot and instant <= at:
            bag[value] += weight
    return sorted((+bag).elements())


KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "doubles": (pa.float64(), [-float("inf"), -1e300, -5e-324, 0.0, 5e-324, 1.0, float("inf"), NAN]),
    "floats": (pa.float32(), [-1.5, 0.0, 2.5, NAN]),
    "small ints": (pa.int8(), [-128, 0, 127]),
    "bools": (pa.bool_(), [False, True]),
    "dates": (pa.date32(), [date(1901, 1, 1), date(1970, 1, 1), date(2100, 1, 1)]),
    "times of day": (pa.time64("us"), [time(0), time(12, 30), time(23, 59)]),
    "durations": (pa.duration("us"), [timedelta(-1), timedelta(0), timedelta(5)]),
    "decimals": (pa.decimal128(18, 3), [Decimal("-999.125"), Decimal("0.000"), Decimal("0.001")]),
    "long decimals": (pa.decimal128(38, 0), [Decimal(-(10**30)), Decimal(-1), Decimal(0), Decimal(10**30)]),
    "strings": (pa.string(), ["", "Z", "a", "aa", "é", "\uffff", "😀"]),
    "large strings": (pa.large_string(), ["", "a", "b"]),
    "binaries": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"a", b"\xff"]),
    "dictionaries": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_types_keep_their_order_and_their_values(name: str) -> None:
    kind, ordered = KINDS[name]
    bag, steps = Bag(kind), Steps.of(np.zeros(1, np.int64), np.zeros(1, np.int64))
    for place in np.random.default_rng(0).permutation(len(ordered)).tolist():
        bag.add(pa.array([ordered[place]], kind), np.array([2]), steps)
    copy = Bag(kind)
    copy.restore(bag.snapshot())
    change = copy.add(pa.array([None], kind), np.array([1]), steps)
    ranks = range(1, len(ordered) + 1)
    found = [change.at(np.array([0, 2 * rank])).to_array(np.array([1])).to_pylist()[0] for rank in ranks]
    assert [repr(value) for value in found] == [repr(value) for value in ordered]


def test_minus_zero_is_zero_and_all_nan_are_one() -> None:
    bag, steps = Bag(pa.float64()), Steps.of(np.zeros(4, np.int64), np.arange(4))
    other_nan = np.array([0x7FF8000000000001], np.int64).view(np.float64)[0]
    change = bag.add(pa.array([0.0, -0.0, NAN, other_nan], from_pandas=False), np.ones(4, np.int64), steps)
    assert change.presence().tolist() == [1, 0, 1, 0]
    assert len(bag) == 2


def test_ranks_of_values_that_have_gone_are_forgotten() -> None:
    bag = Bag(pa.string())
    for tick in range(20):
        texts = pa.array([f"{tick}-{i}" for i in range(500)])
        for weight in (1, -1):
            steps = Steps.of(np.zeros(500, np.int64), np.zeros(500, np.int64))
            bag.add(texts, np.full(500, weight), steps)
    assert len(bag) == 0
    assert bag.nbytes < 40_000
