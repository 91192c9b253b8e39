"""Joins that put rows on disk: kills, full disks and damaged files while they do, and keys that are none."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch import storage
from anabranch.benches import constraints as streams
from anabranch.constraints.config import Mode
from anabranch.errors import DataError, ResourceError
from anabranch.operators import constrained_join, key_duplicates
from anabranch.operators.base import Tick
from anabranch.operators.constrained_join import ConstrainedJoin
from anabranch.operators.join import MultiJoin

KEYS = tuple((number, (name,)) for number, name in enumerate("cbo"))
JOINED = (tuple(enumerate("cbo")),)
Answer = list[tuple[int, ...]]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained_join, "LEAST_GOING", 32)
    monkeypatch.setattr(constrained_join, "LEAST_NEWS", 64)


@pytest.fixture(scope="module")
def ticks() -> streams.Tables:
    return streams._network(10, 30, 0.2)


def made(mode: Mode = "exact") -> ConstrainedJoin:
    return ConstrainedJoin(3, JOINED, (), "auto", mode, KEYS)


def advanced(join: MultiJoin, ticks: streams.Tables, number: int) -> Answer:
    found = join.advance(ticks[number], Tick(number * streams.SECOND, (number + 1) * streams.SECOND))
    return sorted(zip(*(found[name].to_pylist() for name in ("c", "b", "o", "_start", "_end")), strict=True))


@pytest.fixture(scope="module")
def truth(ticks: streams.Tables) -> list[Answer]:
    whole = MultiJoin(3, JOINED)
    found = [advanced(whole, ticks, number) for number in range(len(ticks))]
    assert sum(map(len, found)) > 30
    return found


class After:
    """Fails at the n-th writing of rows."""

    def __init__(self, error: Exception, count: int) -> None:
        self.error, self.left = error, count

    def __call__(self, operation: str, path: Path) -> None:
        if operation == "write":
            self.left -= 1
            if self.left < 0:
                raise self.error


class Killed(Exception):
    """The process ends here."""


def failing(ticks: streams.Tables, error: Exception) -> Iterator[tuple[list[pa.Table], int]]:
    """Snapshots before ticks that then fail at each of their writings, in turn."""
    join = made()
    for number in range(len(ticks)):
        state, count = join.snapshot(), 0
        while number in (8, 15, 22):
            again = made()
            again.restore(state)
            try:
                with storage.watching(After(error, count)):
                    advanced(again, ticks, number)
                break
            except (Killed, ResourceError):
                yield state, number
            count += 1
        advanced(join, ticks, number)


def test_a_kill_while_rows_go_to_disk_loses_nothing(ticks: streams.Tables, truth: list[Answer]) -> None:
    kills = 0
    for state, number in failing(ticks, Killed()):
        started = made()
        started.restore(state)
        for then in range(number, min(number + 4, len(ticks))):
            assert advanced(started, ticks, then) == truth[then]
        kills += 1
    assert kills >= 3


def test_a_full_disk_is_told_and_the_tick_can_be_taken_again(ticks: streams.Tables, truth: list[Answer]) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    state, number = next(failing(ticks, full))
    join = made()
    join.restore(state)
    with (
        storage.watching(After(full, 0)),
        pytest.raises(ResourceError, match="No space left on device") as told,
    ):
        advanced(join, ticks, number)
    assert "TMPDIR" in str(told.value)
    again = made()
    again.restore(state)
    assert advanced(again, ticks, number) == truth[number]


def test_a_damaged_file_is_told_and_other_joins_go_on(ticks: streams.Tables, truth: list[Answer]) -> None:
    damaged, other = made(), made()
    for number in range(20):
        advanced(damaged, ticks, number)
        assert advanced(other, ticks, number) == truth[number]
    for cold in damaged._aside:
        for segment in cold._segments:
            os.pwrite(segment._file._number, os.urandom(segment._file.bytes), 0)
    packets = damaged._aside[1]._segments[0]
    with pytest.raises(ResourceError, match="are damaged"):
        packets.table()
    with pytest.raises(ResourceError, match="are damaged"):
        damaged.snapshot()
    for number in range(20, len(ticks)):
        assert advanced(other, ticks, number) == truth[number]


@pytest.mark.parametrize("compiled", [True, False])
def test_the_network_query_keeps_what_it_needs(
    compiled: bool, ticks: streams.Tables, truth: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        for module in ("window_store", "code_filter"):
            monkeypatch.setattr(f"anabranch.joins.{module}.compiles", lambda: False)
    exact, discard = made(), made("discard")
    found = [advanced(exact, ticks, number) for number in range(len(ticks))]
    assert found == truth
    kept = [advanced(discard, ticks, number) for number in range(len(ticks))]
    assert all(set(some) <= set(every) for some, every in zip(kept, truth, strict=True))
    assert exact.held_rows < sum(map(len, (table for tick in ticks[-10:] for table in tick))) / 4


def test_rows_within_a_tick_may_come_in_any_order(ticks: streams.Tables, truth: list[Answer]) -> None:
    rng, join = np.random.default_rng(3), made()
    mixed = [[table.take(pa.array(rng.permutation(len(table)))) for table in tick] for tick in ticks]
    assert [advanced(join, mixed, number) for number in range(len(ticks))] == truth


def test_two_rows_with_a_declared_key_are_told_though_one_is_on_disk(ticks: streams.Tables) -> None:
    join = made()
    for number in range(14):
        advanced(join, ticks, number)
    again = ticks[12][0].slice(0, 1).to_pylist()[0]
    at = 14 * streams.SECOND
    later = pa.table({name: [value] for name, value in {**again, "_start": at, "_end": at + 10**7}.items()})
    with pytest.raises(DataError, match=r"0 \(c\) was declared a key, but two rows have the same value") as told:
        join.advance([later, *(table.slice(0, 0) for table in ticks[13][1:])], Tick(at, at + streams.SECOND))
    assert str((again["c"], again["size_c"])) in str(told.value)


def test_two_rows_with_a_declared_key_are_told_when_a_partner_needs_both(ticks: streams.Tables) -> None:
    join = made()
    for number in range(14):
        advanced(join, ticks, number)
    again = ticks[8][0].slice(0, 1)["c"]
    new = ticks[14][0]
    codes = pa.concat_arrays(
        [new["c"].slice(0, 1).combine_chunks(), again.combine_chunks(), new["c"].slice(2).combine_chunks()]
    )
    assert len(codes) > 3 * key_duplicates.SAMPLED_AT_ONCE  # so that the second row is not looked for on disk
    advanced(join, [*ticks[:14], [new.set_column(0, "c", codes), *ticks[14][1:]]], 14)
    at = 15 * streams.SECOND
    partner = ticks[15][1].slice(0, 1).set_column(0, "b", again).set_column(2, "_start", pa.array([at]))
    with pytest.raises(DataError, match=r"0 \(c\) was declared a key"):
        join.advance(
            [
                ticks[15][0],
                partner,
                ticks[15][2].set_column(
                    0, "o", pa.concat_arrays([again.combine_chunks(), ticks[15][2]["o"].slice(1).combine_chunks()])
                ),
            ],
            Tick(at, at + streams.SECOND),
        )
