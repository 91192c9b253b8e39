"""The factors of a template: `attribute op :parameter`, the same for all its rules.

A rule holds for a row if all factors do. Two one-sided factors on one attribute are one interval.

>>> low, high = Factor("value", Op.AT_LEAST, "low"), Factor("value", Op.LESS, "high")
>>> sensor = Factor("sensor", Op.EQUAL, "sensor")
>>> [in_words(condition) for condition in conditions([low, sensor, high])]
['value >= :low And value < :high', 'sensor = :sensor']

References
----------
Chandrasekaran and Franklin, *PSoup: a system for streaming queries over streaming data*, section 4.2.2: queries are
split into boolean factors `R.a RELOP c`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    """How a row's attribute (left) is compared with a rule's parameter (right)."""

    EQUAL = "="
    IN = "in"
    """The parameter is a list."""
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    PREFIX = "prefix"
    """The row's text starts with the rule's: `Like 'x%'`; `%` and `_` in the rule's text have no meaning."""
    NETWORK = "network"
    """The row's address lies in the rule's network, `10.2.0.0/16`."""
    CONTAINS = "contains"
    """The row's text has the rule's in it: `Like '%x%'`."""
    REGEX = "regex"
    """The rule's regular expression (of RE2) finds something in the row's text: `RLike`."""


LOWER = (Op.GREATER, Op.AT_LEAST)
UPPER = (Op.LESS, Op.AT_MOST)
PATTERNS = (Op.CONTAINS, Op.REGEX)
OF_TEXTS = (Op.PREFIX, Op.NETWORK, *PATTERNS)


@dataclass(frozen=True)
class Factor:
    """`attribute op :parameter`."""

    attribute: str
    op: Op
    parameter: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", Op(self.op))

    def __str__(self) -> str:
        return f"{self.attribute} {self.op} :{self.parameter}"


Condition = tuple[Factor, ...]
"""One factor, or the lower and the upper end of an interval."""


def in_words(factors: Sequence[Factor]) -> str:
    """Factors as a `Where` has them."""
    return " And ".join(map(str, factors))


def conditions(factors: Sequence[Factor], alike: Callable[[Factor, Factor], bool] = lambda *_: True) -> list[Condition]:
    """The factors in their order, with lower and upper ends of one attribute put together.

    Parameters
    ----------
    factors
        Of a template.
    alike
        Whether the parameters of two factors have one type; only then they make an interval.
    """
    found: list[Condition] = []
    for factor in factors:
        other = LOWER if factor.op in UPPER else UPPER if factor.op in LOWER else ()
        for place, (first, *rest) in enumerate(found):
            if not rest and first.op in other and first.attribute == factor.attribute and alike(first, factor):
                found[place] = (first, factor) if factor.op in UPPER else (factor, first)
                break
        else:
            found.append((factor,))
    return found
