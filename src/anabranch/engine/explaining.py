"""How a query is run, in words: which conditions find rows of a table by an index, and which are tested."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anabranch.cql.templates import VALUE
from anabranch.expressions import Scalar
from anabranch.logical_plan import Filter, Join, Plan, Scan, walk
from anabranch.planning.probes import probes_of
from anabranch.planning.rules import rewrite
from anabranch.spark.continuous.programs import LookUpStep

_NUMBERED = re.compile(rf"`?\b(?:{VALUE})?(\w+?)_\d+\b`?")
_VALID = re.compile(r"_start >= :_valid_from And _start < :_valid_to")


def look_up_in_words(plan: Plan, step: LookUpStep, described: str) -> str:
    """What finds the rows of a table, what is tested besides, and how the index is made, if it is."""
    tested, per_rule = _besides(_of_joins(plan), step)
    found = [*(f"{left} = :{right}" for left, right in step.pairs), *map(str, step.probes)]
    lines = [f"look-up in {', '.join(step.relations)} by an index: {' And '.join(found)}"]
    lines += [f"  {line}" for line in described.splitlines()]
    lines += [f"  tested on what is found: {' And '.join(tested)}"] if tested else []
    lines += [f"  evaluated per rule: {' And '.join(per_rule)}"] if per_rule else []
    return _shown("\n".join(lines))


def pair_by_pair(plan: Plan) -> list[str]:
    """What is tested on every pair of a row and a row of a relation that changes, where no index helps."""
    if not any(isinstance(node, Scan) and node.kind == "relation" and node.changing for node in walk(plan)):
        return []
    found = [each.sql for each in _of_joins(plan) if len(each.columns) > 1]
    return [_shown(f"evaluated per rule: {' And '.join(found)}")] if found else []


def _of_joins(plan: Plan) -> list[Scalar]:
    joins = (node for node in walk(rewrite(plan)) if isinstance(node, Filter) and isinstance(node.input, Join))
    return [each for node in joins for each in node.conditions]


def _besides(conditions: Sequence[Scalar], step: LookUpStep) -> tuple[list[str], list[str]]:
    """The conditions of a join that are tested on candidates, and those that help to find none."""
    flow, table = step.schema.names, step.schema.names
    tested, per_rule = [], []
    for condition in conditions:
        found, rest = probes_of([condition], flow, table)
        if set(found) & set(step.probes):
            tested += [each.sql for each in rest]
        elif set(condition.columns) & set(step.schema.names) and len(condition.columns) > 1:
            per_rule.append(condition.sql)
    return tested, per_rule


def _shown(text: str) -> str:
    """Without the numbers that make the names of columns unique.

    >>> _shown("`v_1` + 1 > `_value_of_limit_12` And _start >= :_valid_from And _start < :_valid_to")
    'v + 1 > limit And it is valid then'
    """
    text = re.sub(r"_and_(like|rlike|list)\b", "", text)
    return _NUMBERED.sub(r"\1", _VALID.sub("it is valid then", text))
