"""Answers of the engine on Spark and of the oracle, as bags of (row..., microseconds, +1 or -1)."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame
from sqlglot import exp

from anabranch.model.names import quoted
from cql.oracle import Oracle, normalised
from cql.streams import Row


def answered(df: DataFrame) -> Counter[Row]:
    """What a query has said."""
    names = [name for name in df.columns if name not in ("_ts", "_op")]
    weight = "if(_op = '+', 1, -1)" if "_op" in df.columns else "1"
    shown = df.selectExpr(*map(quoted, names), "unix_micros(_ts)", weight)
    return Counter(normalised(row) for row in shown.collect())


def expected(oracle: Oracle, ast: exp.Expr) -> Counter[Row]:
    """What it has to say."""
    if oracle.is_stream(ast):
        return Counter({(*row, 1): n for row, n in oracle.answer(ast).items()})
    return oracle.changes(ast)


def before(answer: Counter[Row], until: int) -> Counter[Row]:
    """What happens before a time."""
    return Counter({row: count for row, count in answer.items() if row[-2] < until})
