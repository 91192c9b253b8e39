"""The checkpoint that the bench of invocations makes: its reader says what its ticks have counted."""

from __future__ import annotations

from pathlib import Path

import anabranch as ab
from anabranch.benches.invocation import BUSY, KEYS, BenchCheckpoint, invocations


def test_the_checkpoint_of_the_bench_is_read_as_it_was_counted(tmp_path: Path) -> None:
    made = BenchCheckpoint(tmp_path / "state", 5)
    made.run(KEYS + 7)
    table = ab.open(made.folder).query(BUSY).current()
    assert dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True)) == made.counts
    assert sum(made.counts.values()) == KEYS + 7
    assert len(invocations(made)) > 0
