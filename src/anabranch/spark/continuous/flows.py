"""Flows of rows as SQL: unions of selects, each over one source, in terms of the columns that the source has.

Filters and projections are folded into the select below them. Flows that read the same source can then be told apart
by their conditions and columns alone, and travel together in one exchange.

>>> rows = Sql.over("calls", {"host_1": "`host`", "v_2": "`load`"})
>>> busy = rows.where([Scalar("`v_2` > 3", ("v_2",))]).select([("twice_3", Scalar("`v_2` * 2", ("v_2",)))])
>>> busy.text
'SELECT `load` * 2 AS `twice_3` FROM calls AS flow WHERE (`load` > 3)'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.logical_plan import Scalar
from anabranch.model.names import quoted
from anabranch.planning.stages import Items

_TOKEN = re.compile(r"\.?`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_]\w*")
_QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_COMPUTES = re.compile(r"[+*/%|&^~]|-(?!\d)|\b(?!(?:AND|OR|NOT|IN)\b)\w+\s*\(|::|\[", re.IGNORECASE)
_ATOM = re.compile(r"`(?:[^`]|``)*`|\w+|\(.*\)")


@dataclass(frozen=True)
class Select:
    """Rows of a source that meet all conditions, and what is computed of each.

    Parameters
    ----------
    source
        A view, or a text in parentheses.
    items
        Names of columns, each with its expression.
    conditions
        Expressions.
    calls
        Whether some item calls a function of the user's: it is not written twice.
    """

    source: str
    items: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...] = ()
    calls: bool = False

    @property
    def text(self) -> str:
        """As SQL."""
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"SELECT {listed(dict(self.items))} FROM {self.source} AS flow{where}"

    def inlined(self, sql: str) -> str:
        """An expression over the items as one over the source's columns."""
        return inline(sql, dict(self.items))

    def nested(self) -> Select:
        """The same rows, computed below."""
        return Select(f"({self.text})", tuple((name, quoted(name)) for name, _ in self.items))


@dataclass(frozen=True)
class Sql:
    """A flow: all rows of its branches, which have the same columns.

    Of what comes from a stage as it is, `stage` is the stage's number.
    """

    branches: tuple[Select, ...]
    stage: int | None = None

    @classmethod
    def over(cls, source: str, items: Mapping[str, str], conditions: Sequence[str] = ()) -> Sql:
        """One select over a source."""
        return cls((Select(source, tuple(items.items()), tuple(conditions)),))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.branches[0].items)

    @property
    def text(self) -> str:
        """As SQL."""
        return " UNION ALL ".join(branch.text for branch in self.branches)

    def where(self, conditions: Sequence[Scalar]) -> Sql:
        """The rows for which all conditions are true."""
        return Sql(tuple(_where(branch, conditions) for branch in self.branches))

    def select(self, items: Items) -> Sql:
        """Exactly these columns."""
        return Sql(tuple(_select(branch, items) for branch in self.branches))

    def only(self, names: Sequence[str]) -> Sql:
        """Some of the columns, in this order."""
        return Sql(tuple(replace(b, items=tuple((name, dict(b.items)[name]) for name in names)) for b in self.branches))


def _where(branch: Select, conditions: Sequence[Scalar]) -> Select:
    below = branch.nested() if branch.calls else branch
    wanted = dict.fromkeys(f"({below.inlined(each.sql)})" for each in conditions)
    return replace(below, conditions=tuple(dict.fromkeys([*below.conditions, *wanted])))


def _select(branch: Select, items: Items) -> Select:
    below = branch.nested() if branch.calls else branch
    chosen = tuple((name, below.inlined(scalar.sql)) for name, scalar in items)
    return replace(below, items=chosen, calls=any(scalar.functions for _, scalar in items))


def in_any_order(conditions: Sequence[str]) -> tuple[str, ...]:
    """Conditions in an order that does not depend on how they were written, if none of them can fail.

    Else the order stays: one that comes first may be there to guard the next.

    >>> in_any_order(["(`b` < 3)", "(`a` IN (1, 2))"])
    ('(`a` IN (1, 2))', '(`b` < 3)')
    >>> in_any_order(["(`b` <> 0)", "(1 / `b` > 3)"])
    ('(`b` <> 0)', '(1 / `b` > 3)')
    """
    return tuple(conditions) if any(map(_may_fail, conditions)) else tuple(sorted(conditions))


def _may_fail(condition: str) -> bool:
    """Whether an expression does more than to compare columns and constants."""
    bare = _QUOTED.sub("x", condition)
    return bool(_COMPUTES.search(bare))


def inline(sql: str, by: Mapping[str, str]) -> str:
    """An expression with columns replaced; names are in backticks, or begin with an underscore.

    >>> inline("`a_1` + _time > 3 AND `a_1`.`a_1` = '`a_1`'", {"a_1": "`x` * 2", "_time": "_time"})
    "(`x` * 2) + _time > 3 AND (`x` * 2).`a_1` = '`a_1`'"
    """

    def replaced(found: re.Match[str]) -> str:
        token = found[0]
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if token[0] not in "`_" or name not in by:
            return token
        return by[name] if _ATOM.fullmatch(by[name]) and not by[name].startswith("(") else f"({by[name]})"

    return _TOKEN.sub(replaced, sql)


def listed(items: Mapping[str, str]) -> str:
    """SQL: what is selected, by the names it gets."""
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in items.items())
