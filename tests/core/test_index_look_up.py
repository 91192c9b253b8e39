"""An index that is changed by differences finds what a new one finds; patterns find at least what they mean."""

from __future__ import annotations

import random
import re
from collections import Counter

import pyarrow as pa
import pytest

from anabranch.operators.base import EVER, FOREVER, START
from anabranch.planning.index_look_up import IndexLookUp, TableChange
from anabranch.planning.probes import Probe
from anabranch.planning.stages import VALID_FROM, VALID_TO
from anabranch.rules.factors import Op
from anabranch.rules.pattern_bounds import at_least, like_bounds

PROBES = (Probe("v", Op.GREATER, ("low",)), Probe("t", Op.IN, ("one", "two"), "list"))


def rules(rng: random.Random, count: int, time: int, until: int = FOREVER) -> pa.Table:
    found = [
        {"key": rng.randrange(30), "low": rng.randrange(6), "one": rng.choice("abc"), "two": rng.choice("abc")}
        for _ in range(count)
    ]
    kinds = [("key", pa.int64()), ("low", pa.int64()), ("one", pa.string()), ("two", pa.string())]
    table = pa.Table.from_pylist(found, pa.schema(kinds))
    table = table.append_column(VALID_FROM, pa.array([time] * count, pa.int64()))
    return table.append_column(VALID_TO, pa.array([until] * count, pa.int64()))


def rows(rng: random.Random) -> pa.Table:
    found = [{"v": rng.randrange(8), "t": rng.choice("abcd"), START: rng.randrange(40)} for _ in range(60)]
    return pa.Table.from_pylist(found, pa.schema([("v", pa.int64()), ("t", pa.string()), (START, pa.int64())]))


@pytest.mark.parametrize("seed", range(20))
def test_differences_say_what_a_new_index_says(seed: int) -> None:
    rng = random.Random(seed)
    base = changed = IndexLookUp.over(rules(rng, 20, EVER), (), PROBES)
    total: TableChange | None = None
    for time in range(5, 35, 5):
        numbers = changed.index.numbers
        there = [n for n in numbers.tolist() if changed.table[VALID_TO][n].as_py() == FOREVER]
        gone = changed.table.take(pa.array(rng.sample(there, min(len(there), rng.randrange(4))), pa.int64()))
        went = gone.set_column(4, VALID_FROM, pa.array([time] * len(gone), pa.int64()))
        change = changed.difference(rules(rng, rng.randrange(4), time), went)
        assert change is not None
        total = change if total is None else total.then(change)
        after, at_once = changed.changed(change), base.changed(total)
        assert after is not None
        assert at_once is not None
        changed = after
        anew = IndexLookUp.over(changed.table.take(changed.index.numbers), (), PROBES)
        some = rows(rng)
        want = Counter(map(repr, anew.found(some).to_pylist()))
        assert Counter(map(repr, changed.found(some).to_pylist())) == want
        assert Counter(map(repr, at_once.found(some).to_pylist())) == want


def test_a_pattern_of_another_kind_asks_for_a_new_index() -> None:
    probes = (Probe("t", Op.REGEX, ("p",), "like"),)
    made = IndexLookUp.over(pa.table({"p": ["a%", "b%"]}), (), probes)
    assert made.changed(TableChange(pa.table({"p": ["c%"]}))) is not None
    assert made.changed(TableChange(pa.table({"p": ["%c%"]}))) is None


def test_a_row_that_was_never_there_asks_for_a_new_index() -> None:
    rng = random.Random(1)
    made = IndexLookUp.over(rules(rng, 5, EVER), (), PROBES)
    other = rules(rng, 1, 7).set_column(0, "key", pa.array([99], pa.int64()))
    assert made.difference(rules(rng, 0, 7), other) is None


@pytest.mark.parametrize(
    ("patterns", "op"),
    [(["a%", "%"], Op.PREFIX), (["%a%", None], Op.CONTAINS), (["a%", "%b"], Op.REGEX), (["a\\%%"], Op.REGEX)],
)
def test_the_kind_of_search_for_like(patterns: list[str | None], op: Op) -> None:
    assert like_bounds(pa.array(patterns))[0] is op


@pytest.mark.parametrize("pattern", ["a+b?", "^x[0-9]{2,3}$", "(?:a|b)c", r"\d\.\w", "[^a-f]z", "a.c"])
def test_expressions_that_mean_the_same(pattern: str) -> None:
    rng = random.Random(0)
    bound = at_least(pattern).replace(r"\z", r"\Z").replace(r"\x{85}\x{2028}\x{2029}", "")
    for _ in range(300):
        text = "".join(rng.choice("abcxyz019.") for _ in range(rng.randrange(6)))
        assert bool(re.search(pattern, text)) == bool(re.search(bound, text)), text


@pytest.mark.parametrize("pattern", ["(?i)a", "a(?=b)", r"(a)\1", r"\p{L}", "[a-z&&[^b]]", "a++", r"\Qa\E", "("])
def test_expressions_of_java_that_are_left_to_spark(pattern: str) -> None:
    assert at_least(pattern) == ""
