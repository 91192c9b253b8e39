"""Taps of one layer share slots: what is computed of one tap's rows is not computed of the others'."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from anabranch.expressions import Scalar
from anabranch.operators.base import FOREVER
from anabranch.spark.continuous.cell_task import NODE
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.flows import Select, View
from anabranch.spark.continuous.tap_outputs import TapOutput

LAYER = View("layer_1", "layer 1")


def test_a_condition_that_may_fail_sees_values_of_its_own_tap_alone() -> None:
    items = tuple((name, Scalar.reading(name)) for name in ("sid", "seen"))
    conditions = (Scalar.parsed("seen <= sid + 4"), Scalar.parsed("seen > 2"))
    wanted = ExchangeInput(Select(View("v", "v"), items, conditions), Scalar.long(0), ())
    tap = TapOutput(LAYER, 5, (("sid", "_slot0_0"), ("seen", "_slot0_1")))
    own, computed, compared = tap.instead(wanted).select.conditions
    layer = pa.table({NODE: [5, 5, 6], "_slot0_0": [1, 1, FOREVER], "_slot0_1": [5, 6, 1]})
    with duckdb.connect() as db:
        db.register("layer_1", layer)
        # each by itself, of every row
        found = [db.sql(f"Select {each.sql} From layer_1").fetchall() for each in (own, computed, compared)]
    assert found == [[(True,), (True,), (False,)], [(True,), (False,), (None,)], [(True,), (True,), (False,)]]
