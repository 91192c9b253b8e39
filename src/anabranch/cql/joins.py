"""An inner join of plans as one n-ary join: equalities between them become keys, conditions on one plan filter it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.cql.expressions import computed, scalar
from anabranch.cql.scopes import Scope
from anabranch.logical_plan import Filter, Join, Plan

Keys = tuple[tuple[tuple[int, str], ...], ...]


@dataclass(frozen=True)
class Part:
    """What is joined: a plan with the columns of one source, or of several that are joined already."""

    sources: frozenset[int]
    plan: Plan


@dataclass(frozen=True)
class Split:
    """Parts of a join, and what becomes of the conditions between them.

    Parameters
    ----------
    plans
        The parts as filtered by conditions of their own, with columns for computed keys.
    keys
        As a join has them.
    filters
        The conditions of each part's own.
    above
        All other conditions.
    """

    plans: tuple[Plan, ...]
    keys: Keys
    filters: tuple[tuple[exp.Expr, ...], ...]
    above: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Term:
    """One side of an equality: an expression over one part, and the equality."""

    number: int
    sql: str
    expression: exp.Expr
    equality: exp.Expr

    @property
    def plain(self) -> bool:
        """Whether it is a column as such."""
        return isinstance(self.expression, exp.Column)


def inner_join(
    parts: Sequence[Part], conditions: Sequence[exp.Expr], scope: Scope, leading: tuple[int, ...] = ()
) -> Plan:
    """The join of all parts under bound conditions."""
    found = split(parts, conditions, scope)
    plan: Plan = found.plans[0] if len(parts) == 1 else Join(found.plans, found.keys, leading)
    return filtered(plan, found.above, scope)


def split(parts: Sequence[Part], conditions: Sequence[exp.Expr], scope: Scope) -> Split:
    """What is a key, what filters a part, and what is left."""
    filters: list[list[exp.Expr]] = [[] for _ in parts]
    above, classes = [], list[list[Term]]()
    for each in conditions:
        sides = _sides(each, parts, scope)
        inputs = _inputs(each, parts, scope)
        if sides:
            _connect(classes, *sides)
        elif len(inputs) == 1:
            filters[inputs[0]].append(each)
        else:
            above.append(each)
    keys = [_one_per_part(terms, filters) for terms in classes]
    plans = [filtered(part.plan, own, scope) for part, own in zip(parts, filters, strict=True)]
    names = _computed_keys(plans, keys, scope)
    return Split(tuple(plans), names, tuple(map(tuple, filters)), tuple(above))


def filtered(plan: Plan, conditions: Sequence[exp.Expr], scope: Scope) -> Plan:
    """A filter above a plan, if there are conditions; each can be joined with others by And as it stands."""
    if not conditions:
        return plan
    closed = [exp.paren(each) if isinstance(each, exp.Connector) else each for each in conditions]
    return Filter(plan, tuple(scalar(each, scope.context, condition=True) for each in closed))


def _inputs(bound: exp.Expr, parts: Sequence[Part], scope: Scope) -> list[int]:
    """Numbers of the parts that an expression reads."""
    sources = scope.inputs(bound)
    return [number for number, part in enumerate(parts) if part.sources & sources]


def _sides(condition: exp.Expr, parts: Sequence[Part], scope: Scope) -> tuple[Term, Term] | None:
    if not isinstance(condition, exp.EQ):
        return None
    terms = []
    for side in (condition.this.unnest(), condition.expression.unnest()):
        inputs = _inputs(side, parts, scope)
        if len(inputs) != 1:
            return None
        terms.append(Term(inputs[0], scalar(side, scope.context).sql, side, condition))
    return (terms[0], terms[1]) if terms[0].number != terms[1].number else None


def _connect(classes: list[list[Term]], one: Term, other: Term) -> None:
    """Put two terms into one class, with all that either is equal to."""
    touched = [terms for terms in classes if any(_same(each, one) or _same(each, other) for each in terms)]
    together: list[Term] = []
    for term in [*(each for terms in touched for each in terms), one, other]:
        if not any(_same(term, each) for each in together):
            together.append(term)
    if touched:
        touched[0][:] = together
        classes[:] = [terms for terms in classes if not any(terms is each for each in touched[1:])]
    else:
        classes.append(together)


def _same(one: Term, other: Term) -> bool:
    return one.number == other.number and one.sql == other.sql


def _one_per_part(terms: Sequence[Term], filters: list[list[exp.Expr]]) -> list[Term]:
    """One term of each part; further ones of the same part are compared there."""
    kept: dict[int, Term] = {}
    for term in sorted(terms, key=lambda each: (each.number, not each.plain)):
        first = kept.setdefault(term.number, term)
        if first is not term:
            sides = [
                exp.paren(t.expression.copy(), copy=False) if not t.plain else t.expression.copy()
                for t in (first, term)
            ]
            filters[term.number].append(exp.EQ(this=sides[0], expression=sides[1]))
    return list(kept.values())


def _computed_keys(plans: list[Plan], keys: Sequence[Sequence[Term]], scope: Scope) -> Keys:
    """Columns of the keys; a side that is not a plain column is computed below the join."""
    names: dict[tuple[int, str], str] = {}
    for number in range(len(plans)):
        terms = list({each.sql: each for terms in keys for each in terms if each.number == number}.values())
        plans[number], found = computed(plans[number], [each.expression for each in terms], scope.context)
        for term, name in zip(terms, found, strict=True):
            names[number, term.sql] = name
            scope.context.note("key", name, term.equality)
    return tuple(tuple((each.number, names[each.number, each.sql]) for each in terms) for terms in keys)
