"""Signatures of operators without Spark: the engine's compiler, which asks DuckDB for the types of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from anabranch.logical_plan import Query, Scalar
from anabranch.operators.base import END, START, TIME, WEIGHT
from anabranch.operators.exact_sums import BUNDLE
from anabranch.planning.stages import VALID_FROM
from anabranch.spark.continuous.compiler import Compiler
from anabranch.spark.continuous.flows import Sql
from anabranch.spark.continuous.grid import Grid
from anabranch.spark.continuous.programs import CellStep, Input, Program
from anabranch.spark.continuous.views import BEGINS
from cql.local import connection, relation_of, table_of, translated
from cql.streams import Case


class _Views:
    """Tables of DuckDB that stand for views of Spark."""

    session = None

    def name(self, what: str) -> str:
        return f"`v_{what}`"

    def of_source(self, kind: str, name: str, ago: int = 0) -> str:
        return self.name(f"{kind}_{ago}_{name}")

    def ensure(self, view: str, make: Callable[[], pa.Table]) -> None:
        connection.register(view.strip("`"), make())

    bind = ensure

    def drop(self, views: Iterable[str]) -> None:
        pass


class _LocalCompiler(Compiler):
    def __init__(self, case: Case) -> None:
        streams = {each.name: each for each in case.streams}
        relations = {each.name: each for each in case.relations}

        def empty(given: Input) -> pa.Table:
            if given.name in streams:
                return table_of(streams[given.name], [])
            table = relation_of(relations[given.name]).slice(0, 0)
            if given.kind != "changes":
                return table
            return table.append_column(TIME, table[VALID_FROM]).append_column(WEIGHT, table[VALID_FROM])

        def orders(stream: str) -> tuple[str, ...]:
            found = streams[stream]
            return ("_sequence",) if found.sequenced else tuple(name for name, _ in found.columns)

        views: Any = _Views()
        super().__init__(views, "q", Grid.of(case.cuts.cells), orders, empty, False)

    def sum_up(self, flow: Sql, keys: Sequence[str], sums: Mapping[str, str]) -> Sql:
        made, schema = super().sum_up(flow, keys, sums), self.schema(flow)
        kinds = {name: schema.field(name).type for name in (*keys, START, END, WEIGHT)} | dict.fromkeys(
            sums.values(), BUNDLE
        )
        self._schemas[made] = pa.schema([(name, kinds[name]) for name in made.columns if name != TIME])
        return made

    def _gains_by_order(self, flow: Sql, conditions: Sequence[Scalar]) -> bool:
        return False

    def _check_types(self, flow: Sql, scalars: Sequence[Scalar]) -> None:
        pass

    def _schema(self, text: str) -> pa.Schema:
        made = connection.sql(translated(text.replace(f":{BEGINS}", "true")))
        return made.to_arrow_table().schema

    def _bind_empty(self, view: str, schema: pa.Schema) -> None:
        connection.register(view.strip("`"), schema.empty_table())


def operators(case: Case, query: Query) -> dict[int, CellStep]:
    """The operators of a query, by the numbers of their stages."""
    return {step.stage.number: step for step in program(case, query).operators}


def program(case: Case, query: Query) -> Program:
    """What the engine would do in a tick."""
    return _LocalCompiler(case).compile(query)
