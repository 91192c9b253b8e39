"""Expressions as trees: the text that Spark reads, what is asked of them, and their normal form."""

from __future__ import annotations

import pytest

from anabranch.cql import Catalog, bind
from anabranch.expressions import Scalar, all_of, in_any_order
from anabranch.logical_plan import scalars

CATALOG = Catalog(streams={"s": ("a", "b", "t", "m", "st", "arr")})


def bound(condition: str) -> Scalar:
    return next(iter(scalars(bind(f"Select a From s Where {condition}", CATALOG, "q").plan)))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a = 'it\\'s'", "`a` = 'it\\'s'"),
        ("a > -5 And b < 1.50", "`a` > -5"),
        ("cast(a As Decimal(12, 2)) > 1.5", "CAST(`a` AS DECIMAL(12, 2)) > 1.5"),
        ("t > Interval 1 Day + t", "`t` > INTERVAL '1' DAY + `t`"),
        ("t > Timestamp '2020-01-01 00:00:00'", "`t` > CAST('2020-01-01 00:00:00' AS TIMESTAMP)"),
        ("st.f.g = 3", "`st`.`f`.`g` = 3"),
        ("m['k'] = 1", "`m`['k'] = 1"),
        ("exists(arr, x -> x > a)", "exists(`arr`, x -> x > `a`)"),
        ("StartsWith(t, 'x')", "startswith(`t`, 'x')"),
    ],
)
def test_text_is_what_was_written(written: str, text: str) -> None:
    found = bound(written)
    assert found.renamed({name: name.split("_")[0] for name in found.columns}).sql == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1 And b = 2", "2 = b And 1 < a"),
        ("a In (1, 2, 3)", "a In (3, 2, 1, 1)"),
        ("(a > 1 Or b = 2) And t Is Not Null", "t Is Not Null And (b = 2 Or a > 1)"),
        ("a + b > 3", "3 < b + a"),
        ("upper(t) = 'X'", "'X' = UPPER(t)"),
        ("(a) > (1)", "a > 1"),
    ],
)
def test_the_order_of_what_has_none_makes_no_difference(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("b <> 0 And 1 / b > 3", "1 / b > 3 And b <> 0"),
        ("a - b > 3", "b - a > 3"),
        ("a = 'x'", "a = 'X'"),
        ("a > 1", "a > 1.0"),
        ("a > 1", "b > 1"),
        ("a Like 'x%'", "a Like 'x_'"),
        ("st.f = 1", "st.g = 1"),
        ("m['k'] = 1", "m['K'] = 1"),
        ("cast(a As Int) = 1", "cast(a As Bigint) = 1"),
    ],
)
def test_what_is_different_stays_so(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def normal(condition: str) -> tuple[str, ...]:
    found = tuple(scalars(bind(f"Select 1 As one From s Where {condition}", CATALOG, "q").plan))[:-1]
    names = {name: name.split("_")[0] for each in found for name in each.columns}
    return in_any_order(found, names)


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("a > 1", False),
        ("a In (1, -2) Or Not b Between 1 And 2", False),
        ("t Like 'x%'", False),
        ("t Like 'x\\\\'", True),
        ("Case When a > 1 Then b Else a End > 3", False),
        ("a + 1 > 3", True),
        ("-a > 3", True),
        ("cast(t As Int) > 3", True),
        ("upper(t) = 'X'", True),
        ("m['x'] = 3", True),
    ],
)
def test_comparisons_cannot_fail(condition: str, fails: bool) -> None:
    assert bound(condition).may_fail is fails


def test_columns_are_replaced_by_expressions_that_keep_together() -> None:
    scalar = Scalar.parsed("`a` * 2 + xxhash64(`a`, `b`) + `a`.`a`")
    made = scalar.substituted({"a": Scalar.parsed("`x` + 1"), "b": Scalar.reading("y")})
    assert made.sql == "(`x` + 1) * 2 + xxhash64((`x` + 1), `y`) + (`x` + 1).`a`"
    assert scalar.columns == ("a", "b")
    assert made.columns == ("x", "y")


def test_expressions_can_be_compared_and_are_not_changed_in_place() -> None:
    scalar = Scalar.parsed("`a` > 1")
    renamed = scalar.renamed({"a": "b"})
    assert (scalar, hash(scalar)) == (Scalar.parsed("`a` > 1"), hash(Scalar.parsed("`a` > 1")))
    assert renamed == Scalar.parsed("`b` > 1")
    assert len({scalar, renamed, Scalar.parsed("`a` > 1")}) == 2
    assert all_of((scalar, renamed)).sql == "(`a` > 1) AND (`b` > 1)"
