"""Rows on disk: what is found, what merges, and what a full disk or a damaged file says."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch import storage
from anabranch.errors import ResourceError
from anabranch.operators import cold_rows
from anabranch.operators.cold_rows import ColdRows
from anabranch.operators.constrained_join import ConstrainedJoin

KEY = (0,)


def table(codes: Sequence[int], end: int = 100) -> pa.Table:
    return pa.table({"n": pa.array(codes, pa.int64()), "t": [f"row {n}" for n in codes], "_end": [end] * len(codes)})


def filled(*parts: Sequence[int]) -> ColdRows:
    cold = ColdRows((KEY,))
    for codes in parts:
        cold.add(table(codes), {KEY: np.array(codes, np.int64)})
    return cold


def found_in(cold: ColdRows, codes: Sequence[int]) -> list[int]:
    found = cold.find(KEY, np.array(codes))
    return sorted(found["n"].to_pylist()) if found is not None else []


@pytest.mark.parametrize("seed", range(5))
def test_all_rows_with_a_code_are_found_wherever_they_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_rows, "ROWS_IN_BLOCK", 3)
    rng = np.random.default_rng(seed)
    parts = [rng.integers(-20, 20, int(rng.integers(1, 60))).tolist() for _ in range(9)]
    cold, every = filled(*parts), sorted(n for part in parts for n in part)
    assert len(cold) == len(every)
    for wanted in (rng.integers(-25, 25, 6), np.arange(-30, 30)):
        found = cold.find(KEY, wanted)
        assert sorted(found["n"].to_pylist() if found else []) == [n for n in every if n in wanted]
        assert found is None or found["t"].to_pylist() == [f"row {n}" for n in found["n"].to_pylist()]
    assert sorted(n for part in cold.tables() for n in part["n"].to_pylist()) == every


def test_segments_become_few_and_go_with_their_last_row() -> None:
    cold = filled(*([n] for n in range(64)))
    assert len(cold._segments) <= 3 * cold_rows.MERGED_AT_ONCE
    cold.expire(99)
    assert len(cold) == 64
    cold.expire(100)
    assert (len(cold), cold.nbytes, cold.file_bytes) == (0, 0, 0)


def test_rows_that_are_over_go_when_segments_merge() -> None:
    cold = ColdRows((KEY,))
    for number in range(cold_rows.MERGED_AT_ONCE):
        cold.add(
            pa.concat_tables([table([number], end=5), table([number + 50])]), {KEY: np.array([number, number + 50])}
        )
        cold.expire(5)
    left = sorted(n for part in cold.tables() for n in part["n"].to_pylist())
    assert left == list(range(50, 50 + cold_rows.MERGED_AT_ONCE))
    assert found_in(cold, [1, 51]) == [51]


def test_a_damaged_file_is_told() -> None:
    cold = filled(range(1000))
    (segment,) = cold._segments
    os.pwrite(segment._file._number, b"\xff" * 64, segment._blocks[0].offset + 200)
    with pytest.raises(ResourceError, match="are damaged"):
        cold.find(KEY, np.array([5]))


def test_a_full_disk_is_told_and_nothing_is_lost() -> None:
    def full(operation: str, path: Path) -> None:
        if operation == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cold = filled([1, 2])
    with storage.watching(full), pytest.raises(ResourceError, match=r"cannot be written in .*No space left on device"):
        cold.add(table([3]), {KEY: np.array([3])})
    assert len(cold) == 2
    assert found_in(cold, [1, 2, 3]) == [1, 2]


def test_joins_say_why_they_look_for_no_constraints() -> None:
    assert ConstrainedJoin(2, (), (), "auto", "exact").idle == "some inputs have no column in common"
    assert ConstrainedJoin(2, (((0, "a"), (1, "b")),), (), "auto", "exact").idle == ""
