"""The outcome of binding a part of a query."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from anabranch.model.continuous import Plan


@dataclass(frozen=True)
class Relation:
    """A plan with the names that its columns have for the user.

    Parameters
    ----------
    plan
        Its first columns are the output; columns that correlate it with an outer query follow.
    output
        Names of the output.
    correlated
        Expressions of the outer query, and the column of the plan that must be equal to each.
    """

    plan: Plan
    output: tuple[str, ...]
    correlated: tuple[tuple[exp.Expr, str], ...] = ()
