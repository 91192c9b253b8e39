"""Files of blocks: what was written for a query is found again, whoever else is in the file."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch import storage
from anabranch.engine import answer_tasks
from anabranch.engine.answer_blocks import Answered, BlockFile, BlockWriter, answered, read_index
from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask, SplitAnswerTask
from anabranch.engine.layout import UNCONFIRMED, filed, prefix_of
from anabranch.errors import ResourceError
from anabranch.model.names import OP, TS
from anabranch.operators.base import TIME, WEIGHT

PREFIX = prefix_of(7, "abc")


def output(rng: random.Random, count: int) -> pa.Table:
    """Rows of an operator: a key, a number, a time and a weight."""
    keys = [rng.choice("abcd") for _ in range(count)]
    numbers, times = ([rng.randrange(100) for _ in range(count)] for _ in range(2))
    weights = [rng.choice([1, -1]) for _ in range(count)]
    return pa.table({"k": keys, "n": numbers, TIME: pa.array(times, pa.int64()), WEIGHT: pa.array(weights, pa.int64())})


def folder(tmp_path: Path) -> AnswerFolder:
    storage.make_folder((tmp_path / "answers" / filed(PREFIX)).parent)
    return AnswerFolder(str(tmp_path), filed(PREFIX))


def read(path: Path, query: int) -> list[dict[str, object]]:
    with BlockFile(path) as file:
        return [row for entry in file.of(query) for row in file.read(entry).to_pylist()]


def test_large_blocks_are_compressed_and_small_ones_read_alike(tmp_path: Path) -> None:
    small, large = (pa.table({"n": [7] * rows, TS: pa.array([5] * rows, pa.timestamp("us"))}) for rows in (9, 9_000))
    writer = BlockWriter(tmp_path / "some.blocks")
    for query, table in ((1, small), (2, large), (3, small)):
        writer.add([query], table)
    writer.close()
    with BlockFile(tmp_path / "some.blocks") as file:
        assert [file.read(entry) for entry in file.index] == [small, large, small]
        assert file.of(2)["bytes"][0] < large.nbytes / 10


@pytest.mark.parametrize("buffered", [0, 32_000_000])
def test_the_rows_of_many_queries_in_one_file_are_found_by_query(
    buffered: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_tasks, "BUFFERED_BYTES", buffered)
    rng, writer, want = random.Random(3), folder(tmp_path).begin(), defaultdict[int, list[object]](list)
    plain = {number: AnswerTask(number, (("n", "value"),), changes=True) for number in range(1, 300)}
    split = SplitAnswerTask("k", (("a", 500), ("b", 501), ("b", 502), ("e", 503)), (("n", "x"),), changes=False)
    for _ in range(4):
        for number, task in plain.items():
            writer.write([task], table := output(rng, rng.randrange(3)))
            want[number] += table["n"].to_pylist()
        writer.write([split], table := output(rng, 20))
        for key, number in split.queries:
            want[number] += [row["n"] for row in table.to_pylist() if row["k"] == key]
    (path,) = writer.close()
    written = tmp_path / (path + UNCONFIRMED)
    assert [each.name for each in written.parent.iterdir()] == [written.name], "one file"
    for number in (*plain, 500, 501, 502, 503, 504):
        name = "x" if number >= 500 else "value"
        assert [row[name] for row in read(written, number)] == want[number], number
    assert {number: each.rows for number, each in answered([read_index(written)]).items()} == {
        number: len(rows) for number, rows in want.items() if rows
    }


def test_equal_answers_have_one_block(tmp_path: Path) -> None:
    table = output(random.Random(5), 500)
    sizes = []
    for count in (1, 40):
        writer = folder(tmp_path).begin()
        writer.write([AnswerTask(number, (("k", f"k{number}"),), changes=True) for number in range(count)], table)
        (path,) = writer.close()
        sizes.append((tmp_path / (path + UNCONFIRMED)).stat().st_size)
        assert all(len(read(tmp_path / (path + UNCONFIRMED), number)) == 500 for number in range(count))
    assert sizes[1] < sizes[0] + 40 * 64


def test_what_a_file_says_about_times(tmp_path: Path) -> None:
    stamp = pa.timestamp("us", "UTC")
    writer = BlockWriter(tmp_path / "a.blocks")
    writer.add([1], pa.table({"n": [1, 2, 3], TS: pa.array([5, None, 9], stamp), OP: ["+", "+", "-"]}))
    writer.add([2], pa.table({"n": [1], TS: pa.array([None], stamp)}))
    writer.close()
    index = read_index(tmp_path / "a.blocks")
    assert answered([index, index[:1]]) == {1: Answered(6, 2, 5, 9), 2: Answered(1, 1, None, None)}


def test_a_task_that_has_nothing_to_say_makes_no_file(tmp_path: Path) -> None:
    writer = folder(tmp_path).begin()
    writer.write([AnswerTask(1, (("k", "k"),), changes=False)], output(random.Random(1), 0))
    assert writer.close() == ()
    assert not storage.files(tmp_path)


@pytest.mark.parametrize("left", [0, 5, 40])
def test_a_file_that_is_not_whole_is_refused_in_words(left: int, tmp_path: Path) -> None:
    writer = BlockWriter(tmp_path / "a.blocks")
    writer.add([1], pa.table({"n": [1], TS: pa.array([1], pa.timestamp("us", "UTC"))}))
    writer.close()
    (tmp_path / "a.blocks").write_bytes((tmp_path / "a.blocks").read_bytes()[:left])
    with pytest.raises(ResourceError, match=r"is not a whole file of answers\n  hint: bring"):
        BlockFile(tmp_path / "a.blocks")
