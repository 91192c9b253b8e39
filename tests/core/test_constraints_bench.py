"""What `anabranch bench constraints` measures is so whatever the machine does."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from anabranch.benches import constraints
from anabranch.operators.constrained_join import ConstrainedJoin
from anabranch.operators.join import MultiJoin

NO_SPARK = cast(SparkSession, None)


def test_a_violation_is_noticed_in_its_batch_and_loses_nothing() -> None:
    found = {bar.bar: bar for bar in constraints.violation(NO_SPARK, Path(), quick=True)}
    assert found["violation: batches until safe"].value == 1
    assert found["violation: results lost, exact"].value == 0
    assert found["violation: results that needed a row from disk"].value > 0


def test_the_network_query_needs_few_of_its_rows() -> None:
    ticks = constraints._network(20, 40, 0.5)
    keys = tuple((number, (name,)) for number, name in enumerate("cbo"))
    whole = constraints._ran(MultiJoin(3, constraints._joined("cbo")), ticks)
    exact = constraints._ran(ConstrainedJoin(3, constraints._joined("cbo"), (), "auto", "exact", keys), ticks)
    assert (exact.results, exact.sum) == (whole.results, whole.sum)
    assert whole.results > 100
    assert exact.typical < whole.typical / 4
