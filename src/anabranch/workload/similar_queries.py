"""Queries that are equal, and queries that differ in constants of their conditions only.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> text = "Select dst, size From packets [Range 1 Minute] Where dst = '{}' And size > 40"
>>> queries = [bind(text.format(host), catalog, f"to_{host}") for host in "abc"]
>>> [found] = constant_queries(Workload(queries))
>>> print(found.change)
one query over a relation rules (query, c1) with 3 rows: packets.dst = rules.c1 And packets.size > 40

Notes
-----
Queries that differ in constants are one query over a table of constants, as the groups of NiagaraCQ are (J. Chen, D.
DeWitt, F. Tian, Y. Wang, *NiagaraCQ*, SIGMOD 2000).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from anabranch.logical_plan import Aggregate, Filter, Member, Plan, Query, Scalar, SetOperation, ToStream, walk
from anabranch.planning.rules import rewrite
from anabranch.workload.findings import Finding, Workload, listed
from anabranch.workload.plan_identity import EXACT, Identity
from anabranch.workload.plan_operators import operators
from anabranch.workload.query_features import ColumnNames

FEWEST_RULES = 3
"""Two queries are as easily read as a relation of two rules."""
_ANY_CONSTANTS = Identity(constants=False)


def equal_queries(workload: Workload) -> list[Finding]:
    """A finding for each set of queries with the same answer, but for the names of columns."""
    return [_equal(queries, workload) for queries in _alike(workload.sharing, EXACT) if len(queries) > 1]


def constant_queries(workload: Workload) -> list[Finding]:
    """A finding for each set of queries that could be one query over a relation of constants."""
    foldable = [query for query in workload.sharing if _foldable(query.plan)]
    found = []
    for queries in _alike(foldable, _ANY_CONSTANTS):
        different = [same[0] for same in _alike(queries, EXACT)]
        if len(different) >= FEWEST_RULES:
            found.append(_constants(different))
    return found


def _alike(queries: Sequence[Query], identity: Identity) -> list[list[Query]]:
    found: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        found[identity.of(rewrite(query.plan))].append(query)
    return list(found.values())


def _equal(queries: Sequence[Query], workload: Workload) -> Finding:
    first, *others = (query.name for query in queries)
    rows = workload.costs[first].rows if first in workload.costs else 0
    so_far = f", {rows:,} rows so far" if rows else ""
    return Finding(
        "equal queries",
        (first, *others),
        f"{listed([first, *others])} have the same answer",
        f"it is written {len(queries)} times instead of once{so_far}",
        f"read {first} instead, and {'; '.join(f'Drop Query {name}' for name in others)}",
    )


def _foldable(plan: Plan) -> bool:
    """Whether a rule can be joined to the rows and grouped by; a group of no keys has a row also without rows."""
    relation = plan.input if isinstance(plan, ToStream) else plan
    return not any(
        isinstance(node, Member | SetOperation | ToStream) or (isinstance(node, Aggregate) and not node.keys)
        for node in walk(relation)
    )


def _constants(queries: Sequence[Query]) -> Finding:
    written = [[value for each in _conditions(query) for value in each.constants] for query in queries]
    places = [place for place, values in enumerate(zip(*written, strict=True)) if len(set(values)) > 1]
    columns = [f"c{number}" for number, _ in enumerate(places, start=1)]
    names, count = [query.name for query in queries], len(queries)
    grouped = any(isinstance(node, Aggregate) for node in walk(queries[0].plan))
    held = f" and {count * len(operators(queries[0]))} operators" if operators(queries[0]) else ""
    return Finding(
        "constants",
        tuple(names),
        f"{listed(names)} differ in {len(places)} constant{'s' if len(places) > 1 else ''} only",
        f"{count} answers{held} instead of 1, and each row is tested {count} times",
        f"one query over a relation rules ({', '.join(['query', *columns])}) with {count} rows: "
        + " And ".join(_with_rules(queries[0], dict(zip(places, columns, strict=True))))
        + ("; Group By rules.query, too" if grouped else ""),
    )


def _with_rules(query: Query, columns: dict[int, str]) -> list[str]:
    """The conditions with columns of the relation for the constants that differ."""
    names, place = ColumnNames(query.plan).shown, iter(range(1_000_000))

    def rule(constant: str) -> str:
        column = columns.get(next(place))
        return constant if column is None else f"rules.{column}"

    return [each.shown(names, rule) for each in _conditions(query)]


def _conditions(query: Query) -> list[Scalar]:
    """The conditions in an order that does not depend on constants that differ."""
    plan, found = rewrite(query.plan), []
    for node in walk(plan):
        if isinstance(node, Filter):
            names = _ANY_CONSTANTS.known(node.input)[1]
            keys = [(_ANY_CONSTANTS.condition(each, names), EXACT.condition(each, names)) for each in node.conditions]
            found += [each for _, each in sorted(zip(keys, node.conditions, strict=True), key=lambda pair: pair[0])]
    return found
