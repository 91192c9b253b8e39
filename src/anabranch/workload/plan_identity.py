"""Plans as texts in which columns are called after what they are: equal for plans that do the same.

Names of columns and the order of conditions make no difference. Numbers of windows, and constants in conditions, can be
left out: then plans are equal that differ in these alone.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> text = "Select dst, Count(*) As {} From packets [Range {} Minutes] Where size > {} Group By dst"
>>> one, other = (bind(text.format(*given), catalog, "q").plan for given in (("n", 8, 5), ("m", 10, 5)))
>>> EXACT.of(one) == EXACT.of(other), Identity(windows=False).of(one) == Identity(windows=False).of(other)
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from anabranch.expressions import in_any_order
from anabranch.logical_plan import (
    Aggregate,
    Aggregation,
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
    WindowSpec,
)

Known = tuple[str, Mapping[str, str]]
"""What a plan is, and what its columns are."""


@dataclass(frozen=True)
class Identity:
    """What is told apart.

    Parameters
    ----------
    windows
        Windows of other lengths.
    constants
        Conditions with other constants.
    """

    windows: bool = True
    constants: bool = True

    def of(self, plan: Plan) -> str:
        """The plan with its columns, in their order."""
        text, names = self.known(plan)
        return f"{text}({_listed(plan.columns, names)})"

    def known(self, plan: Plan) -> Known:
        """The plan, and its columns each by itself: a projection is what its columns are."""
        match plan:
            case Scan():
                return f"{plan.kind} {plan.name}", {name: f"<{plan.name}.{there}>" for there, name in plan.renamed}
            case Window():
                text, names = self.known(plan.input)
                return f"{text}[{self._spec(plan)} by {_listed(plan.partition, names)}]", names
            case Filter():
                text, names = self.known(plan.input)
                return f"{text} where {{{'; '.join(self._conditions(plan, names))}}}", names
            case Project():
                text, names = self.known(plan.input)
                return text, {name: _substituted(scalar, names) for name, scalar in plan.items}
            case Aggregate():
                return self._aggregate(plan)
            case Distinct():
                return f"distinct {self.of(plan.input)}", self.known(plan.input)[1]
            case ToStream():
                return f"{plan.kind} {self.of(plan.input)}", _numbered(plan)
            case SetOperation():
                every = "all" if plan.all else "distinct"
                return f"{plan.kind} {every} ({', '.join(map(self.of, plan.inputs))})", _numbered(plan)
            case Join():
                return self._join(plan)
            case Member():
                return self._member(plan)
            case _:
                assert_never(plan)

    def condition(self, condition: Scalar, names: Mapping[str, str]) -> str:
        """A condition over columns that are known."""
        return condition.normal(names) if self.constants else condition.shown(names, placeholder)

    def _conditions(self, plan: Filter, names: Mapping[str, str]) -> Iterable[str]:
        if self.constants:
            return in_any_order(plan.conditions, names)
        return sorted(self.condition(each, names) for each in plan.conditions)

    def _spec(self, window: WindowSpec) -> str:
        if self.windows or window.span == 0:
            return " ".join(map(str, window.limits))
        return " ".join("-" if each is None else "?" for each in window.limits)

    def _aggregate(self, plan: Aggregate) -> Known:
        text, names = self.known(plan.input)
        made = {each.name: _aggregation(each, names) for each in plan.aggregations}
        found = {name: names[name] for name in plan.keys} | made
        return f"groups {text} by ({_listed(plan.keys, names)}): {', '.join(made.values())}", found

    def _join(self, plan: Join) -> Known:
        known = [self.known(each) for each in plan.inputs]
        names = {name: f"{at}:{its[name]}" for at, (_, its) in enumerate(known) for name in plan.inputs[at].columns}
        keys = sorted(" = ".join(names[name] for _, name in key) for key in plan.keys)
        return f"join ({', '.join(map(self.of, plan.inputs))}) on {'; '.join(keys)}", names

    def _member(self, plan: Member) -> Known:
        (_, names), (_, others) = self.known(plan.input), self.known(plan.other)
        pairs = "; ".join(sorted(f"{names[one]} = {others[other]}" for one, other in plan.pairs))
        word = "without" if plan.negated else "with"
        return f"{self.of(plan.input)} {word} {self.known(plan.other)[0]} on {pairs}", names


EXACT = Identity()


def placeholder(_: str) -> str:
    """Any constant."""
    return "?"


def _aggregation(each: Aggregation, names: Mapping[str, str]) -> str:
    argument = "*" if each.argument is None else names[each.argument]
    return f"{each.function}({'distinct ' if each.distinct else ''}{argument}, {each.parameter})"


def _substituted(scalar: Scalar, names: Mapping[str, str]) -> str:
    return names[scalar.column] if scalar.column else scalar.normal(names)


def _numbered(plan: Plan) -> dict[str, str]:
    return {name: f"#{place}" for place, name in enumerate(plan.columns)}


def _listed(columns: Iterable[str], names: Mapping[str, str]) -> str:
    return ", ".join(names[name] for name in columns)
