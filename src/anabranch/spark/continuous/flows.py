"""Flows of rows: unions of selects, each over one source, in terms of the columns that the source has.

Filters and projections are folded into the select below them. Flows that read the same source can then be told apart
by their conditions and columns alone, and travel together in one exchange. A flow is data: it knows the views that it
reads, and what its rows and columns are, whatever they are called (`Known`); its text is made where Spark is called.

>>> rows = Sql.of(View("calls", "calls"), {"host_1": Scalar.reading("host"), "v_2": Scalar.reading("load")})
>>> busy = rows.where([Scalar.parsed("`v_2` > 3")]).select([("twice_3", Scalar.parsed("`v_2` * 2"))])
>>> busy.text
'SELECT `load` * 2 AS `twice_3` FROM calls AS flow WHERE (`load` > 3)'
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from anabranch.expressions import Scalar, in_any_order
from anabranch.model.names import quoted
from anabranch.operators.base import END, START, TIME, WEIGHT
from anabranch.operators.exact_sums import BITS, MASK
from anabranch.planning.stages import VALID, VALID_FROM, VALID_TO, Items
from anabranch.spark.continuous.summaries import NEWEST, OLDEST


@dataclass(frozen=True)
class Known:
    """What rows are, and what each of their columns is: equal for equal rows, in whichever query."""

    rows: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class View:
    """Rows that are bound under a name in every tick: those of an input, or what a step has made.

    Parameters
    ----------
    name
        As texts write it.
    identity
        What it stands for.
    columns
        What its columns are, if they have names of their own.
    depth
        How many exchanges its rows have passed.
    """

    name: str
    identity: str
    columns: tuple[tuple[str, str], ...] = ()
    depth: int = 0

    @property
    def text(self) -> str:
        """As SQL."""
        return self.name

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return frozenset([self])

    @property
    def known(self) -> Known:
        """What it is."""
        return Known(self.identity, dict(self.columns))

    def over(self, change: Callable[[View], View]) -> View:
        """With other views."""
        return change(self)


@dataclass(frozen=True)
class Nested:
    """What a select selects, computed by itself."""

    select: Select

    @property
    def text(self) -> str:
        """As SQL."""
        return f"({self.select.text})"

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return self.select.source.views

    @property
    def known(self) -> Known:
        """What it is."""
        return self.select.known

    def over(self, change: Callable[[View], View]) -> Nested:
        """With other views."""
        return Nested(self.select.over(change))


@dataclass(frozen=True)
class Summed:
    """Elements of equal keys and equal ends as one.

    Parameters
    ----------
    flow
        The elements.
    keys
        Columns.
    sums
        Columns to sum up, each with the name of its bundle, and whether it has integers: of others only the count is
        of interest.
    timed
        Whether the first and last time of the rows are among the columns.
    weights
        Columns with numbers of elements.
    """

    flow: Sql
    keys: tuple[str, ...]
    sums: tuple[tuple[str, str, bool], ...]
    timed: bool
    weights: tuple[str, ...] = (WEIGHT,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._items)

    @property
    def _items(self) -> dict[str, str]:
        bundles = {new: _bundle(name, integers) for name, new, integers in self.sums}
        times = {OLDEST: f"min({TIME})", NEWEST: f"max({TIME})"} if self.timed else {}
        weights = {name: f"sum({name})" for name in self.weights}
        return {name: quoted(name) for name in (*self.keys, START, END)} | weights | bundles | times

    @property
    def text(self) -> str:
        """As SQL."""
        same = ", ".join(map(quoted, (*self.keys, START, END)))
        return f"(SELECT {_listed(self._items)} FROM ({self.flow.text}) GROUP BY {same})"

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return self.flow.views

    @property
    def known(self) -> Known:
        """What it is."""
        below = self.flow.known
        same = {name: below.columns[name] for name in (*self.keys, START, END)}
        sums = {new: f"sum {integers} {below.columns[name]}" for name, new, integers in self.sums}
        return Known(hashed("summed", below.rows, sorted(same.values())), same | {WEIGHT: "weights"} | sums)

    def over(self, change: Callable[[View], View]) -> Summed:
        """With other views."""
        return replace(self, flow=self.flow.over(change))


@dataclass(frozen=True)
class Matched:
    """Rows of a flow, each with those of a table that agree with it; of versions, with those that are valid then."""

    flow: Sql
    table: Sql
    pairs: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*self.flow.columns, *(name for name in self.table.columns if name not in VALID))

    @property
    def text(self) -> str:
        """As SQL."""
        agree = [f"l.{quoted(left)} = r.{quoted(right)}" for left, right in self.pairs]
        if VALID_FROM in self.table.columns:
            agree += [f"l.{START} >= r.{VALID_FROM}", f"l.{START} < r.{VALID_TO}"]
        on = " AND ".join(agree) or "true"
        return f"(SELECT * FROM ({self.flow.text}) AS l JOIN ({self.table.text}) AS r ON {on})"

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return self.flow.views | self.table.views

    @property
    def known(self) -> Known:
        """What it is."""
        return matched(self.flow.known, self.table.known, self.pairs)

    def over(self, change: Callable[[View], View]) -> Matched:
        """With other views."""
        return replace(self, flow=self.flow.over(change), table=self.table.over(change))


@dataclass(frozen=True)
class Instants:
    """The times of rows, each once."""

    sources: tuple[View, ...]

    @property
    def text(self) -> str:
        """As SQL."""
        times = " UNION ALL ".join(f"SELECT {TIME} FROM {each.name}" for each in self.sources)
        return f"(SELECT DISTINCT {TIME} FROM ({times}))"

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return frozenset(self.sources)

    @property
    def known(self) -> Known:
        """What it is."""
        return Known(hashed("instants", sorted(each.identity for each in self.sources)), {})

    def over(self, change: Callable[[View], View]) -> Instants:
        """With other views."""
        return Instants(tuple(map(change, self.sources)))


Source: TypeAlias = View | Nested | Summed | Matched | Instants


@dataclass(frozen=True)
class Select:
    """Rows of a source that meet all conditions, which are tested in their order, and what is computed of each."""

    source: Source
    items: tuple[tuple[str, Scalar], ...]
    conditions: tuple[Scalar, ...] = ()

    @cached_property
    def text(self) -> str:
        """As SQL."""
        return f"SELECT {listed(dict(self.items))} FROM {self.source.text} AS flow{where(self.conditions)}"

    @cached_property
    def known(self) -> Known:
        """What it is: conditions choose rows, items are columns."""
        below = self.source.known
        kept = in_any_order(self.conditions, below.columns)
        rows = hashed("where", below.rows, kept) if kept else below.rows
        return Known(rows, {name: scalar.normal(below.columns) for name, scalar in self.items})

    @property
    def calls(self) -> bool:
        """Whether some item calls a function of the user's: it is not written twice."""
        return any(scalar.functions for _, scalar in self.items)

    def inlined(self, scalar: Scalar) -> Scalar:
        """An expression over the items as one over the source's columns."""
        return scalar.substituted(dict(self.items))

    def nested(self) -> Select:
        """The same rows, computed below."""
        return Select(Nested(self), tuple((name, Scalar.reading(name)) for name, _ in self.items))

    def over(self, change: Callable[[View], View]) -> Select:
        """With other views."""
        return replace(self, source=self.source.over(change))


@dataclass(frozen=True)
class Sql:
    """A flow: all rows of its branches, which have the same columns.

    Of what comes from a stage as it is, `stage` is the stage's number.
    """

    branches: tuple[Select, ...]
    stage: int | None = None

    @classmethod
    def whole(cls, source: Source, names: Iterable[str]) -> Sql:
        """All rows of a source, as they are."""
        return cls.of(source, {name: Scalar.reading(name) for name in names})

    @classmethod
    def of(cls, source: Source, items: Mapping[str, Scalar]) -> Sql:
        """One select over a source."""
        return cls((Select(source, tuple(items.items())),))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.branches[0].items)

    @property
    def text(self) -> str:
        """As SQL."""
        return " UNION ALL ".join(branch.text for branch in self.branches)

    @property
    def views(self) -> frozenset[View]:
        """The views that it reads."""
        return frozenset(view for branch in self.branches for view in branch.source.views)

    @property
    def depth(self) -> int:
        """How many exchanges its rows have passed."""
        return max(view.depth for view in self.views)

    @cached_property
    def known(self) -> Known:
        """What it is, whatever the order of its branches."""
        parts = [branch.known for branch in self.branches]
        if len(parts) == 1:
            return parts[0]
        parts = sorted(parts, key=lambda part: (part.rows, [part.columns[name] for name in self.columns]))
        rows = hashed("union", [part.rows for part in parts])
        return Known(rows, {name: hashed([part.columns[name] for part in parts]) for name in self.columns})

    def where(self, conditions: Sequence[Scalar]) -> Sql:
        """The rows for which all conditions are true."""
        return Sql(tuple(_where(branch, conditions) for branch in self.branches))

    def select(self, items: Items) -> Sql:
        """Exactly these columns."""
        return Sql(tuple(_select(branch, items) for branch in self.branches))

    def only(self, names: Sequence[str]) -> Sql:
        """Some of the columns, in this order."""
        return Sql(tuple(replace(b, items=tuple((name, dict(b.items)[name]) for name in names)) for b in self.branches))

    def over(self, change: Callable[[View], View]) -> Sql:
        """With other views."""
        return replace(self, branches=tuple(branch.over(change) for branch in self.branches))


def _where(branch: Select, conditions: Sequence[Scalar]) -> Select:
    below = branch.nested() if branch.calls else branch
    wanted = [below.inlined(each) for each in conditions]
    return replace(below, conditions=tuple(dict.fromkeys([*below.conditions, *wanted])))


def _select(branch: Select, items: Items) -> Select:
    below = branch.nested() if branch.calls else branch
    return replace(below, items=tuple((name, below.inlined(scalar)) for name, scalar in items))


def matched(flow: Known, table: Known, pairs: Iterable[tuple[str, str]], more: Sequence[object] = ()) -> Known:
    """What rows of a flow are with those of a table that agree with them."""
    agree = sorted((flow.columns[left], table.columns[right]) for left, right in pairs)
    columns = {name: f"l {its}" for name, its in flow.columns.items()}
    columns |= {name: f"r {its}" for name, its in table.columns.items() if name not in VALID}
    valid = VALID_FROM in table.columns
    return Known(hashed("matched", flow.rows, table.rows, agree, valid, more), columns)


def hashed(*parts: object) -> str:
    """A short name for something."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def where(conditions: Sequence[Scalar]) -> str:
    """SQL: rows that meet conditions."""
    return f" WHERE {' AND '.join(f'({each.sql})' for each in conditions)}" if conditions else ""


def listed(items: Mapping[str, Scalar]) -> str:
    """SQL: what is selected, by the names it gets."""
    return _listed({name: scalar.sql for name, scalar in items.items()})


def _listed(items: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in items.items())


def _bundle(name: str, integers: bool) -> str:
    """SQL: values as a bundle."""
    value, low, high = quoted(name), "0L", "0L"
    if integers:
        long = f"CAST({value} AS BIGINT)"
        low, high = f"coalesce(sum({long} & {MASK}L), 0L)", f"coalesce(sum(shiftright({long}, {BITS})), 0L)"
    return f"named_struct('_count', count({value}), '_low', {low}, '_high', {high})"
