"""State folders: no count is lost, whatever becomes of the program, of the folder, and of other filters on it."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.ordering.pipeline import Tally
from anabranch.spark.filters.ledger import Ledger, open_ledger
from anabranch.spark.filters.task_record import TaskKey, TaskRecord
from spark.state_folders import awaited, rows_on_disk


def even(id: int) -> bool:
    return id % 2 == 0


def filter_on(folder: Path, **options: Any) -> ab.Filter:
    return ab.Filter(ab.predicate(even, "id", name="even"), state=folder, **options)


# Filters that share a folder


def test_filters_on_one_folder_count_apart_in_one_plan(rows: DataFrame, tmp_path: Path) -> None:
    one, other = filter_on(tmp_path / "state"), filter_on(tmp_path / "more" / ".." / "state", policy="fixed")
    one.apply(rows).unionAll(other.apply(rows)).coalesce(1).count()
    assert one.report().rows == other.report().rows == 2 * rows.count()
    assert one.events() == other.events()
    del one
    other.apply(rows).count()
    assert filter_on(tmp_path / "state").report().rows == rows_on_disk(tmp_path / "state") == 3 * rows.count()


def test_filters_on_one_folder_add_up_their_samples_of_native_predicates(rows: DataFrame, tmp_path: Path) -> None:
    def new_filter() -> ab.Filter:
        return ab.Filter(ab.predicate(F.col("b") < 0.5, name="small"), F.col("text").rlike("7$"), state=tmp_path)

    def seen_after(f: ab.Filter, batch: int) -> int:
        f.foreach_batch(lambda df, _: df.write.format("noop").mode("overwrite").save())(rows, batch)
        return f.report().predicates[0].seen or 0

    one, other = new_filter(), new_filter()
    seen = [seen_after(f, batch) for batch, f in enumerate((one, other, one, other))]
    assert seen == sorted(seen)
    assert one.report().predicates == other.report().predicates


def test_a_filter_of_other_predicates_is_refused_at_once(rows: DataFrame, tmp_path: Path) -> None:
    def another() -> ab.Filter:
        return ab.Filter(ab.predicate(even, "id", name="another"), state=tmp_path)

    another()
    counting = filter_on(tmp_path)
    counting.apply(rows).count()
    with pytest.raises(QueryError) as caught:
        another()
    assert str(caught.value) == (
        f"{tmp_path}/filter.json is the state of a filter with other predicates: even\n"
        "  hint: choose another path, or delete this file to start anew"
    )
    assert rows_on_disk(tmp_path) == counting.report().rows == rows.count()


# The ledger by itself


def record(rows: int, stage: int = 0) -> TaskRecord:
    tally = Tally.empty(1)
    tally.rows = rows
    return TaskRecord(TaskKey("", "r", stage, 0), (0,), tally)


def total(ledger: Ledger) -> int:
    return sum(entry.tally.rows for entry in ledger.totals().values())


def test_a_state_that_was_deleted_starts_anew(tmp_path: Path) -> None:
    old = open_ledger(("p",), tmp_path)
    old.enter([record(10)])
    old.save()
    shutil.rmtree(tmp_path)
    new = open_ledger(("q",), tmp_path)
    assert new is not old
    new.enter([record(3)])
    new.save()
    old.enter([record(5, stage=1)])
    old.save()
    assert (total(old), total(new), rows_on_disk(tmp_path)) == (15, 3, 3)


def test_a_state_that_another_program_has_written_meanwhile_is_read(tmp_path: Path) -> None:
    known = open_ledger(("p",), tmp_path)
    known.save()
    elsewhere = Ledger(("p",), tmp_path)
    elsewhere.enter([record(10)])
    elsewhere.save()
    assert total(open_ledger(("p",), tmp_path)) == 10


def test_two_programs_on_one_folder_are_reported(tmp_path: Path) -> None:
    one, other = Ledger(("p",), tmp_path), Ledger(("p",), tmp_path)
    one.save()
    with pytest.warns(UserWarning, match="Another program has written to the state file"):
        other.save()
    with warnings.catch_warnings(action="error"):
        other.save()


@pytest.mark.parametrize("damage", ["folded", "events", "learned"])
def test_a_state_that_lacks_something_is_refused(tmp_path: Path, damage: str) -> None:
    Ledger(("p",), tmp_path).save()
    state = json.loads((tmp_path / "filter.json").read_text())
    del state[damage]
    (tmp_path / "filter.json").write_text(json.dumps(state))
    with pytest.raises(QueryError, match="is damaged"):
        Ledger(("p",), tmp_path)


@pytest.mark.parametrize("state", [5, ""])
def test_a_state_that_is_no_folder_is_refused(state: Any) -> None:
    with pytest.raises(QueryError, match="state is"):
        open_ledger(("p",), state)


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    ledger = Ledger(("p",), folder)
    folder.rmdir()
    folder.touch()
    message = f"The state file {folder}/filter.json cannot be written: File exists. Counts are kept in memory"
    with pytest.warns(UserWarning, match=re.escape(message)):
        ledger.save()
    with warnings.catch_warnings(action="error"):
        ledger.enter([record(10)])
        ledger.save()
    folder.unlink()
    assert awaited(lambda: rows_on_disk(folder) == 10)
