"""The knobs of filter ordering: what they accept, and what is said of the rest."""

from __future__ import annotations

import math
import pickle
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import pytest

from anabranch.config import HINTS, OrderingChanges, OrderingConfig
from anabranch.errors import QueryError


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("seed", -1, "0 or more, not -1"),
        ("seed", None, "a number, not None"),
        ("seed", 1.5, "a whole number, not 1.5"),
        ("seed", math.inf, "a whole number, not inf"),
        ("seed", "x", "a number, not 'x'"),
        ("seed", True, "a number, not True"),
        ("window_tuples", 10.5, "a whole number, not 10.5"),
        ("window_tuples", "1000", "a number, not '1000'"),
        ("window_tuples", 0, "between 1 and 10000000, not 0"),
        ("window_tuples", math.nan, "a whole number, not nan"),
        ("window_seconds", math.nan, "positive, not nan"),
        ("window_seconds", 0, "positive, not 0"),
        ("window_seconds", "1 minute", "a number, not '1 minute'"),
        ("minimum_profiles", 2.5, "a whole number, not 2.5"),
        ("minimum_profiles", 0, "between 1 and 1000, not 0"),
        ("minimum_profiles", [30, 30], "a number, not [30, 30]"),
        ("profile_probability", "0.5", "a number, not '0.5'"),
        ("profile_probability", 1.5, "between 0.0 and 1.0, not 1.5"),
        ("profile_probability", 1j, "a number, not 1j"),
        ("thrash_avoidance", math.nan, "between 0.0 and 1.0, not nan"),
        ("thrash_avoidance", None, "a number, not None"),
        ("cost_aware", "no", "True or False, not 'no'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_at_once(field: str, value: Any, wanted: str) -> None:
    wrong: Any = {field: value}
    with pytest.raises(QueryError) as refused:
        OrderingConfig(**wrong)
    assert str(refused.value) == f"{field} must be {wanted}\n  hint: {HINTS[field]}"
    with pytest.raises(QueryError, match=f"{field} must be "):
        OrderingConfig.for_policy("sweep", **wrong)


def test_numbers_of_numpy_and_whole_floats_are_numbers() -> None:
    given = OrderingConfig(
        profile_probability=float(np.float64(0.5)),
        window_tuples=np.int32(200),  # type: ignore[arg-type]
        window_seconds=np.float32(2.5),  # type: ignore[arg-type]
        thrash_avoidance=1,
        minimum_profiles=20.0,  # type: ignore[arg-type]
        cost_aware=np.True_,  # type: ignore[arg-type]
        seed=np.uint8(7),  # type: ignore[arg-type]
    )
    assert given == OrderingConfig(0.5, 200, 2.5, 1.0, 20, True, 7)
    assert [type(each) for each in (given.window_tuples, given.minimum_profiles, given.seed)] == [int, int, int]
    assert pickle.loads(pickle.dumps(given)) == given


def test_changes_keep_the_other_defaults_of_their_policy() -> None:
    assert OrderingConfig.for_policy("sweep", seed=1) == OrderingConfig(window_tuples=500, minimum_profiles=100, seed=1)
    assert OrderingConfig.for_policy("localswaps", window_tuples=200).minimum_profiles == 100
    assert OrderingConfig.for_policy("independent", thrash_avoidance=0.5).profile_probability == 0.005
    assert OrderingConfig.for_policy("sweep", minimum_profiles=500).minimum_profiles == 500
    assert OrderingConfig.for_policy("auto", seed=3) == OrderingConfig(seed=3)


def test_a_short_window_of_a_policy_needs_no_more_profiles_than_it_holds() -> None:
    assert OrderingConfig.for_policy("sweep", window_tuples=50).minimum_profiles == 50
    with pytest.raises(QueryError, match="minimum_profiles must be between 1 and 500, not 501"):
        OrderingConfig.for_policy("sweep", minimum_profiles=501)


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    wrong: Any = {"windw_tuples": 5}
    with pytest.raises(QueryError, match=r"no field 'windw_tuples'\n  hint: did you mean 'window_tuples'\? The fields"):
        OrderingConfig.for_policy("sweep", **wrong)


def test_every_field_can_be_changed_and_has_a_hint() -> None:
    names = [field.name for field in fields(OrderingConfig)]
    assert list(OrderingChanges.__annotations__) == list(HINTS) == names
    assert get_type_hints(OrderingChanges) == get_type_hints(OrderingConfig)
