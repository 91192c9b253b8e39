"""A plan under new column names, so that it can stand in another query, or twice in one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from anabranch.cql.context import Names
from anabranch.model.continuous import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Scalar,
    Scan,
    SetOperation,
    ToStream,
    Window,
    walk,
)
from anabranch.model.names import quoted

NUMBER = re.compile(r"_\d+$")


def renamed(plan: Plan, names: Names) -> Plan:
    """The same plan with fresh names for all columns."""
    columns = dict.fromkeys(name for node in walk(plan) for name in node.columns)
    return _rename(plan, {name: names.fresh(NUMBER.sub("", name)) for name in columns})


def _rename(plan: Plan, new: Mapping[str, str]) -> Plan:
    match plan:
        case Scan():
            return replace(plan, renamed=tuple((name, new[unique]) for name, unique in plan.renamed))
        case Window():
            return replace(plan, input=_rename(plan.input, new), partition=tuple(new[each] for each in plan.partition))
        case Filter():
            return Filter(_rename(plan.input, new), tuple(_scalar(each, new) for each in plan.conditions))
        case Project():
            items = tuple((new[name], _scalar(each, new)) for name, each in plan.items)
            return Project(_rename(plan.input, new), items)
        case Aggregate():
            return _aggregate(plan, new)
        case Distinct() | ToStream():
            return replace(plan, input=_rename(plan.input, new))
        case Member():
            pairs = tuple((new[one], new[other]) for one, other in plan.pairs)
            return replace(plan, input=_rename(plan.input, new), other=_rename(plan.other, new), pairs=pairs)
        case Join():
            keys = tuple(tuple((number, new[name]) for number, name in key) for key in plan.keys)
            return Join(tuple(_rename(each, new) for each in plan.inputs), keys)
        case SetOperation():
            return replace(plan, inputs=tuple(_rename(each, new) for each in plan.inputs))
        case _:
            assert_never(plan)


def _aggregate(plan: Aggregate, new: Mapping[str, str]) -> Aggregate:
    aggregations = tuple(
        replace(each, name=new[each.name], argument=None if each.argument is None else new[each.argument])
        for each in plan.aggregations
    )
    return Aggregate(_rename(plan.input, new), tuple(new[each] for each in plan.keys), aggregations)


def _scalar(expression: Scalar, new: Mapping[str, str]) -> Scalar:
    """The expression with quoted names replaced, but for struct fields, which follow a dot."""
    parts, last, previous = [], 0, None
    for token in Spark().tokenize(expression.sql):
        if token.token_type == TokenType.IDENTIFIER and previous != TokenType.DOT and token.text in new:
            parts += [expression.sql[last : token.start], quoted(new[token.text])]
            last = token.end + 1
        previous = token.token_type
    text = "".join((*parts, expression.sql[last:]))
    return replace(expression, sql=text, columns=tuple(new[each] for each in expression.columns))
