"""Random queries over all that docs/cql.md claims, as people write them, each with the same query for DuckDB.

Written from the documents alone: nothing here knows the parser or the binder. A query is made as two texts at once. In
the one for DuckDB a window is a subquery over all rows of its stream, for the instant `@t`.

All that is random is a number below some bound, 0 for what is simplest; so the numbers of a case can be made smaller
and fewer while it still fails.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

from cql.streams import SECOND, Columns, Relation, Row, Stream

Chosen = TypeVar("Chosen")

HALF = SECOND // 2
VALUES: dict[str, tuple[Any, ...]] = {
    "bigint": (1, 0, 2, 3, -1, -3, 7, 1_000_000_007, None),
    "int": (1, 0, 2, -3, None),
    "double": (1.5, 0.0, -0.0, -2.25, 3.0, 0.5, float("nan"), float("inf"), None),
    "string": ("a", "b", "A", "", "ab", " a ", "it's", "%", "ä", None),
    "decimal(9, 2)": (Decimal("1.50"), Decimal("0.00"), Decimal("-2.25"), Decimal("3.00"), Decimal("99.99"), None),
    "boolean": (True, False, None),
    "date": (date(2026, 1, 1), date(2026, 1, 31), date(2024, 2, 29), date(1999, 12, 31), None),
}
LITERALS: dict[str, tuple[str, ...]] = {
    "bigint": ("1", "0", "2", "-3", "- 1", "7", "Cast(Null As Bigint)"),
    "double": ("Cast(1.5 As Double)", "Cast(0 As Double)", "Cast(-2.25 As Double)", "Cast('NaN' As Double)"),
    "string": ("'a'", "''", "'ab'", "'it''s'", "'%'", "'-- no comment'", "Cast(Null As String)"),
    "decimal(9, 2)": ("1.50", "-2.25", "0.00", "3.00"),
    "boolean": ("True", "False", "Cast(Null As Boolean)"),
    "date": ("Date '2026-01-01'", "Cast('2024-02-29' As Date)", "Date'2026-01-31'"),
}
KINDS = tuple(LITERALS)
SAME: dict[str, str] = {"int": "bigint"}
STREAMS: tuple[tuple[str, Columns], ...] = (
    (
        "s",
        (
            ("k", "bigint"),
            ("a", "bigint"),
            ("x", "double"),
            ("c", "string"),
            ("m", "decimal(9, 2)"),
            ("f", "boolean"),
            ("d", "date"),
        ),
    ),
    ("t", (("k", "bigint"), ("b", "bigint"), ("c", "string"), ("x", "double"))),
    ("u", (("k", "int"), ("two words", "string"), ("m", "decimal(9, 2)"), ("order", "bigint"))),
)
RELATIONS: tuple[tuple[str, Columns], ...] = (
    ("r", (("k", "bigint"), ("c", "string"), ("w", "bigint"))),
    ("days", (("d", "date"), ("f", "boolean"), ("x", "double"))),
)
TO_STREAM = ("Istream", "Rstream", "Dstream")

# What is written, what DuckDB is given (None: the same), the kinds of the arguments.
OPERATIONS: dict[str, tuple[tuple[str, str | None, tuple[str, ...]], ...]] = {
    "bigint": (
        ("({0} + {1})", None, ("bigint", "bigint")),
        ("({0} - {1})", None, ("bigint", "bigint")),
        ("({0} * 2 + {1})", None, ("bigint", "bigint")),
        ("({0} % 3)", None, ("bigint",)),
        ("(-({0}))", None, ("bigint",)),
        ("({0} Div 2)", "({0} // 2)", ("bigint",)),
        ("Abs({0})", None, ("bigint",)),
        ("Length({0})", None, ("string",)),
        ("Year({0})", None, ("date",)),
        ("Month({0})", None, ("date",)),
        ("Day({0})", None, ("date",)),
        ("DateDiff({0}, {1})", "date_diff('day', {1}, {0})", ("date", "date")),
        ("Cast({0} As Bigint)", None, ("boolean",)),
        ("Cast({0} As Int)", None, ("boolean",)),
        ("Instr({0}, 'a')", None, ("string",)),
        ("Ascii({0})", None, ("string",)),
        ("({0} & 1)", None, ("bigint",)),
        ("Extract(Month From {0})", None, ("date",)),
    ),
    "double": (
        ("({0} + {1})", None, ("double", "double")),
        ("({0} - {1})", None, ("double", "bigint")),
        ("({0} * 2)", None, ("double",)),
        ("({0} / 2)", None, ("double",)),
        ("({0} / 4)", None, ("bigint",)),
        ("({0} / NullIf({1}, 0))", None, ("bigint", "bigint")),
        ("Abs({0})", None, ("double",)),
        ("Sqrt(Abs({0}))", None, ("double",)),
        ("Cast({0} As Double)", None, ("bigint",)),
        ("Cast({0} As Double)", None, ("decimal(9, 2)",)),
        ("NaNvl({0}, Cast(0 As Double))", "(CASE WHEN isnan({0}) THEN 0::DOUBLE ELSE {0} END)", ("double",)),
        ("Power({0}, 2)", None, ("double",)),
    ),
    "string": (
        ("Upper({0})", None, ("string",)),
        ("Lower({0})", None, ("string",)),
        ("Trim({0})", None, ("string",)),
        ("({0} || {1})", None, ("string", "string")),
        ("Concat({0}, '-', {1})", "({0} || '-' || {1})", ("string", "string")),
        ("Concat_Ws('-', {0}, {1})", None, ("string", "string")),
        ("Substring({0}, 1, 2)", None, ("string",)),
        ("Substr({0}, 2)", None, ("string",)),
        ("Left({0}, 1)", None, ("string",)),
        ("Replace({0}, 'a', 'bb')", None, ("string",)),
        ("Reverse({0})", None, ("string",)),
        ("Repeat({0}, 2)", None, ("string",)),
        ("LPad({0}, 3, '*')", None, ("string",)),
        ("Cast({0} As String)", "CAST({0} AS VARCHAR)", ("bigint",)),
        ("Cast({0} As String)", "CAST({0} AS VARCHAR)", ("date",)),
        ("Cast({0} As String)", "CAST({0} AS VARCHAR)", ("boolean",)),
        ("Date_Format({0}, 'yyyy-MM')", "strftime({0}, '%Y-%m')", ("date",)),
    ),
    "decimal(9, 2)": (
        ("({0} + 1.50)", None, ("decimal(9, 2)",)),
        ("({0} - {1})", None, ("decimal(9, 2)", "decimal(9, 2)")),
        ("Abs({0})", None, ("decimal(9, 2)",)),
        ("(-({0}))", None, ("decimal(9, 2)",)),
        ("Round({0}, 1)", None, ("decimal(9, 2)",)),
        ("Cast({0} As Decimal(12, 2))", None, ("bigint",)),
    ),
    "boolean": (
        ("({0} = {1})", None, ("bigint", "bigint")),
        ("({0} <> {1})", None, ("bigint", "bigint")),
        ("({0} != {1})", None, ("string", "string")),
        ("({0} < {1})", None, ("bigint", "bigint")),
        ("({0} >= {1})", None, ("double", "double")),
        ("({0} > {1})", None, ("string", "string")),
        ("({0} <= {1})", None, ("date", "date")),
        ("({0} = {1})", None, ("double", "double")),
        ("({0} < {1})", None, ("bigint", "double")),
        ("({0} > {1})", None, ("decimal(9, 2)", "bigint")),
        ("({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})", ("bigint", "bigint")),
        ("({0} Is Not Distinct From {1})", None, ("string", "string")),
        ("({0} Between {1} And {2})", None, ("bigint", "bigint", "bigint")),
        ("({0} Not Between {1} And {2})", None, ("double", "double", "double")),
        ("({0} Between {1} And {2})", None, ("string", "string", "string")),
        ("({0} Like 'a%')", None, ("string",)),
        ("({0} Not Like '_')", None, ("string",)),
        ("({0} Like '%''s')", None, ("string",)),
        ("({0} In (1, {1}, -3))", None, ("bigint", "bigint")),
        ("({0} Not In (1, 2))", None, ("bigint",)),
        ("({0} In ('a', Null))", None, ("string",)),
        ("({0} Not In ('a', Null))", None, ("string",)),
        ("({0} Is Null)", None, ("string",)),
        ("({0} Is Not Null)", None, ("bigint",)),
        ("({0} Is Null)", None, ("double",)),
        ("IsNaN({0})", "coalesce(isnan({0}), false)", ("double",)),
        ("({0} And {1})", None, ("boolean", "boolean")),
        ("({0} Or {1})", None, ("boolean", "boolean")),
        ("({0} Or {1} And {2})", None, ("boolean", "boolean", "boolean")),
        ("(Not {0})", None, ("boolean",)),
        ("(Not ({0} And {1}))", None, ("boolean", "boolean")),
        ("({0} = True)", None, ("boolean",)),
        ("({0} Is True)", None, ("boolean",)),
        ("({0} Is Not False)", None, ("boolean",)),
        ("StartsWith({0}, 'a')", "starts_with({0}, 'a')", ("string",)),
        ("({0} RLike '^a')", "regexp_matches({0}, '^a')", ("string",)),
    ),
    "date": (
        ("Last_Day({0})", None, ("date",)),
        ("Cast({0} As Date)", None, ("date",)),
        ("Cast(Cast({0} As String) As Date)", "CAST(CAST({0} AS VARCHAR) AS DATE)", ("date",)),
    ),
}
# DuckDB, which evaluates expressions where there is no Spark, makes timestamps of these.
OF_SPARK: dict[str, tuple[tuple[str, str | None, tuple[str, ...]], ...]] = {
    "date": (
        ("Date_Add({0}, 3)", "CAST({0} + 3 AS DATE)", ("date",)),
        ("Date_Sub({0}, 1)", "CAST({0} - 1 AS DATE)", ("date",)),
        ("({0} + Interval 1 Day)", "CAST({0} + INTERVAL 1 DAY AS DATE)", ("date",)),
        ("({0} - Interval '2' Month)", "CAST({0} - INTERVAL '2' MONTH AS DATE)", ("date",)),
        ("Trunc({0}, 'MM')", "CAST(date_trunc('month', {0}) AS DATE)", ("date",)),
    ),
}
# The same for every kind: `?` is the kind that is wanted.
GENERIC: tuple[tuple[str, str | None, tuple[str, ...]], ...] = (
    ("Coalesce({0}, {1})", None, ("?", "?")),
    ("Case When {0} Then {1} Else {2} End", "(CASE WHEN {0} THEN {1} ELSE {2} END)", ("boolean", "?", "?")),
    ("Case When {0} Then {1} End", "(CASE WHEN {0} THEN {1} END)", ("boolean", "?")),
    ("Case {0} When 1 Then {1} When 2 Then {2} End", None, ("bigint", "?", "?")),
    ("NullIf({0}, {1})", None, ("?", "?")),
    ("If({0}, {1}, {2})", "(CASE WHEN {0} THEN {1} ELSE {2} END)", ("boolean", "?", "?")),
    ("Greatest({0}, {1})", None, ("?", "?")),
    ("Least({0}, {1})", None, ("?", "?")),
    ("({0})", None, ("?",)),
)
AGGREGATES: dict[str, tuple[tuple[str, str | None, tuple[str, ...]], ...]] = {
    "bigint": (
        ("Count(*)", None, ()),
        ("Count({0})", None, ("string",)),
        ("Count(1)", None, ()),
        ("Sum({0})", None, ("bigint",)),
        ("Min({0})", None, ("bigint",)),
        ("Max({0})", None, ("bigint",)),
        ("Count(Distinct {0})", None, ("string",)),
        ("Count(Distinct {0})", None, ("double",)),
        ("Sum(Distinct {0})", None, ("bigint",)),
        ("Max(Distinct {0})", None, ("bigint",)),
        ("Approx_Percentile({0}, 0.5)", "quantile_disc({0}, 0.5)", ("bigint",)),
        ("Percentile_Approx({0}, 0.25)", "quantile_disc({0}, 0.25)", ("bigint",)),
        ("Sum(Case When {0} Then 1 Else 0 End)", None, ("boolean",)),
    ),
    "double": (
        ("Avg({0})", None, ("bigint",)),
        ("Sum({0})", None, ("double",)),
        ("Avg({0})", None, ("double",)),
        ("Min({0})", None, ("double",)),
        ("Max({0})", None, ("double",)),
        ("StdDev({0})", None, ("bigint",)),
        ("Variance({0})", None, ("bigint",)),
        ("Avg(Distinct {0})", None, ("bigint",)),
        ("Sum(Distinct {0})", None, ("double",)),
    ),
    "decimal(9, 2)": (
        ("Sum({0})", None, ("decimal(9, 2)",)),
        ("Min({0})", None, ("decimal(9, 2)",)),
        ("Max({0})", None, ("decimal(9, 2)",)),
        ("Sum(Distinct {0})", None, ("decimal(9, 2)",)),
    ),
    "string": (
        ("Min({0})", None, ("string",)),
        ("Max({0})", None, ("string",)),
        ("Min(Distinct {0})", None, ("string",)),
    ),
    "date": (("Min({0})", None, ("date",)), ("Max({0})", None, ("date",))),
    "boolean": (("Min({0})", None, ("boolean",)), ("Max({0})", None, ("boolean",))),
}
# A query with an item {0} and a column {4} of {1}, and an item {3} of {2}; what its refusal says.
UNSUPPORTED = (
    ("Select {0} From {1} Left Join {2} On {0} In (Select {3} From {2})", "In or Exists with a query"),
    ("Select {0} From {1} Natural Full Outer Join {2}", "(?i)full"),
    ("Select {0} As n From {1} Order By n", "(?i)order by"),
    ("Select {0} As n From {1} Limit 2", "(?i)limit"),
    ("Select Count(*) Over () As n From {1}", "(?i)over"),
    ("With Recursive w As (Select {0} As n From {1}) Select n From w", "(?i)recursive"),
    ("Select {0} As n From {1} Where {0} In (Select {3} From {2}) Or {0} = 1", "connected by And"),
    ("Select {0} In (Select {3} From {2}) As n From {1}", "connected by And"),
    ("Select {0} As n From {1} Where Exists (Select 1 From {2} Where {3} < {4})", "by = only"),
    ("Select {0} As n From {1} Where ({0}, 1) Not In (Select {3}, 1 From {2})", "Not In with several columns"),
)
CORRELATED_AGGREGATE = "an aggregation cannot be compared with the outer query"
FURTHER_OUT = "a comparison with a query further out"
CORRELATED_VALUE = f"{FURTHER_OUT}|correlated scalar subquery"
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>")

KEYWORDS = set(
    "select from where group by having distinct union all except intersect with as join inner on in not exists and "
    "or is null between like case when then else end cast true false range rows unbounded now partition slide istream "
    "dstream rstream interval seconds second milliseconds count sum avg min max coalesce date order limit left "
    "outer".split()
)


class Choices:
    """Numbers below bounds: those given, then those of a generator, else zeros. All that were used are in `taken`."""

    def __init__(self, given: Sequence[int] = (), rng: random.Random | None = None) -> None:
        self._given = given
        self._rng = rng
        self.taken: list[int] = []

    def below(self, bound: int) -> int:
        place = len(self.taken)
        if place < len(self._given):
            chosen = self._given[place] % bound
        else:
            chosen = self._rng.randrange(bound) if self._rng is not None else 0
        self.taken.append(chosen)
        return chosen

    def pick(self, options: Sequence[Chosen]) -> Chosen:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent


@dataclass(frozen=True)
class Text:
    """The same in CQL and for DuckDB."""

    cql: str
    duck: str

    @staticmethod
    def of(cql: str, duck: str | None, *parts: Text) -> Text:
        """Templates with holes `{0}`, `{1}`, ... for parts."""
        return Text(
            cql.format(*(part.cql for part in parts)), (duck or plain(cql)).format(*(part.duck for part in parts))
        )

    @staticmethod
    def joined(between: str, parts: Iterable[Text]) -> Text:
        listed = list(parts)
        return Text(between.join(part.cql for part in listed), between.join(part.duck for part in listed))


def plain(cql: str) -> str:
    """What is the same for DuckDB but for the name of a type."""
    return cql.replace("As String)", "As Varchar)")


@dataclass(frozen=True)
class Leaf:
    """A column or value that expressions are made of, in its spellings; outer ones only in their qualified one."""

    kind: str
    spellings: tuple[Text, ...]
    source: str = ""
    far: bool = False
    """Whether it is of a query further out than the next."""


@dataclass(frozen=True)
class Source:
    """What stands in From: its alias, and its columns, None for those that cannot be named."""

    alias: str
    columns: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True)
class Written:
    """A query and its columns."""

    text: Text
    columns: tuple[tuple[str | None, str], ...]


@dataclass(frozen=True)
class Named:
    """A stream, relation, view, answer or query of With: how From reads it.

    Parameters
    ----------
    duck
        A query for DuckDB; of a stream one with the columns `_ts` and `_seq`.
    streams
        Names of the streams below.
    windows
        Whether a window may stand behind it.
    """

    name: str
    columns: tuple[tuple[str | None, str], ...]
    duck: str
    streams: frozenset[str]
    windows: bool = False
    order: str = "_ts, _seq"


@dataclass(frozen=True)
class Definition:
    """A view or a query whose answer others read."""

    name: str
    is_view: bool
    cql: str


@dataclass(frozen=True)
class Documented:
    """One query: its text, the one for DuckDB at `@t`, and what it may be refused for (`refusals`, patterns)."""

    cql: str
    duck: str
    to_stream: str | None
    streams: frozenset[str]
    slides: frozenset[int]
    definitions: tuple[Definition, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True)
class World:
    """The inputs of queries."""

    streams: tuple[Stream, ...]
    relations: tuple[Relation, ...]


def world(choices: Choices, most_rows: int = 7) -> World:
    """Small streams and relations: NULLs, NaN, zeros of both signs, rows of the same time, some with no rows."""

    def rows(columns: Columns, count: int) -> list[Row]:
        return [tuple(choices.pick(VALUES[kind]) for _, kind in columns) for _ in range(count)]

    streams = []
    for name, columns in STREAMS:
        times: list[int] = []
        for _ in range(choices.below(most_rows + 1)):
            times.append((times[-1] if times else 0) + choices.pick((SECOND, 0, HALF, 3 * SECOND)))
        values = rows(columns, len(times))
        together = tuple((number, time, *row) for number, (time, row) in enumerate(zip(times, values, strict=True)))
        streams.append(Stream(name, columns, together, sequenced=name != "t"))
    relations = [Relation(name, columns, tuple(rows(columns, choices.below(5)))) for name, columns in RELATIONS]
    return World(tuple(streams), tuple(relations))


def identifier(name: str) -> str:
    return name if re.fullmatch(r"[a-z_]\w*", name) and name != "order" else f"`{name}`"


def quoted(name: str) -> str:
    return f'"{name}"'


@dataclass
class Writer:
    """Writes one query."""

    choices: Choices
    names: dict[str, Named] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    slides: set[int] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    number: int = 0
    on_spark: bool = False
    correlated: bool = False
    """Whether the Where that was written last compares with the outer query."""

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    # Expressions.

    def column(self, leaf: Leaf) -> Text:
        return self.choices.pick(leaf.spellings)

    def expression(self, kind: str, leaves: Sequence[Leaf], depth: int) -> Text:
        """A leaf, a literal, or an operation over expressions."""
        fitting = [leaf for leaf in leaves if leaf.kind == kind]
        way = self.choices.below(10)
        if depth <= 0 or way < 5:
            if fitting and (way < 8 or way == 9):
                return self.column(self.choices.pick(fitting))
            return self.literal(kind)
        operations = GENERIC if way == 9 else OPERATIONS[kind]
        if self.on_spark and way != 9:
            operations += OF_SPARK.get(kind, ())
        cql, duck, kinds = self.choices.pick(operations)
        parts = [self.expression(kind if each == "?" else each, leaves, depth - 1) for each in kinds]
        return Text.of(cql, duck, *parts)

    def literal(self, kind: str) -> Text:
        return Text.of(self.choices.pick(LITERALS[kind]), None)

    def aggregate(self, kind: str, leaves: Sequence[Leaf]) -> Text:
        cql, duck, kinds = self.choices.pick(AGGREGATES[kind])
        return Text.of(cql, duck, *(self.expression(each, leaves, 1) for each in kinds))

    def leaves(self, sources: Sequence[Source]) -> list[Leaf]:
        """Columns of sources, unqualified too where their name is the only one; without an alias, a name is unknown."""
        names = [name for source in sources for name, _ in source.columns]
        all_known = None not in names
        found = []
        for source in sources:
            for name, kind in source.columns:
                if name is None or [each for each, _ in source.columns].count(name) > 1:
                    continue
                alias, own, exact = identifier(source.alias), identifier(name), quoted(name)
                spelled = [Text(f"{alias}.{own}", f"{quoted(source.alias)}.{exact}")]
                if all_known and names.count(name) == 1:
                    spelled = [Text(own, exact), *spelled, Text(f"`{name}`", exact), Text(exact, exact)]
                    spelled += [Text(own.upper() if own == name else own, exact)]
                found.append(Leaf(SAME.get(kind, kind), tuple(spelled), source.alias))
        return found

    # Conditions.

    def condition(self, leaves: Sequence[Leaf], outer: Sequence[Leaf], depth: int) -> Text:
        """One that stands between And: plain, or with a query within."""
        way = self.choices.below(12) if depth > 0 else 0
        if way < 5:
            return self.expression("boolean", leaves, 2)
        below = [*leaves, *(replace(leaf, far=True) for leaf in outer)]
        if way < 8:
            kind = self.choices.pick(KINDS)
            inner = self.query((kind,), depth - 1, below)
            test = self.choices.pick(("{0} In ({1})", "{0} Not In ({1})", "Not {0} In ({1})"))
            return Text.of(test, None, self.expression(kind, leaves, 1), inner.text)
        if way < 10:
            inner = self.query(None, depth - 1, below)
            return Text.of(self.choices.pick(("Exists ({0})", "Not Exists ({0})")), None, inner.text)
        if way == 10:
            kinds = (self.choices.pick(KINDS), self.choices.pick(KINDS))
            inner = self.query(kinds, depth - 1, ())  # DuckDB cannot compare such a one with the outer query
            sides = [self.expression(kind, leaves, 1) for kind in kinds]
            return Text.of("({0}, {1}) In ({2})", None, *sides, inner.text)
        kind = self.choices.pick(("bigint", "double", "string", "decimal(9, 2)"))
        value = self.value(kind, below, depth)
        side = self.expression(kind, leaves, 1)
        return Text.of("{0} " + self.choices.pick(COMPARISONS) + " {1}", None, side, value)

    def value(self, kind: str, outer: Sequence[Leaf], depth: int) -> Text:
        """The aggregate of a query as a value."""
        sources, text = self.sources(depth - 1)
        leaves = self.leaves(sources)
        where = self.where(leaves, outer if self.choices.chance(10) else (), sources, depth - 1)
        if self.correlated:
            self.refusals.append(CORRELATED_VALUE)
        return Text.of("(Select {0} From {1}{2})", None, self.aggregate(kind, leaves), text, where)

    def where(self, leaves: Sequence[Leaf], outer: Sequence[Leaf], sources: Sequence[Source], depth: int) -> Text:
        """Nothing, or conditions; some compare a column with one of the outer query."""
        hidden = {source.alias for source in sources}
        visible = [leaf for leaf in outer if leaf.source not in hidden]
        conditions = [self.condition(leaves, visible, depth) for _ in range(self.choices.below(3))]
        correlated = False
        if visible and leaves and self.choices.chance(50):
            mine = self.choices.pick(leaves)
            others = [leaf for leaf in visible if leaf.kind == mine.kind]
            if others:
                other = self.choices.pick(others)
                if other.far:
                    self.refusals.append(FURTHER_OUT)
                sides = [self.column(mine), self.qualified(other)]
                if self.choices.chance(50):
                    sides.reverse()
                conditions.append(Text.of("{0} = {1}", None, *sides))
                correlated = True
        self.correlated = correlated
        if not conditions:
            return Text("", "")
        return Text.of(" Where {0}", None, Text.joined(" And ", conditions))

    @staticmethod
    def qualified(leaf: Leaf) -> Text:
        return next(each for each in leaf.spellings if "." in each.cql)

    # From.

    def sources(self, depth: int) -> tuple[list[Source], Text]:
        """What stands behind From: tables, queries, joined by commas or `Join ... On`."""
        source, text = self.source(depth)
        sources, listed = [source], False
        for _ in range(max(0, self.choices.below(5) - 2)):
            source, more = self.source(depth)
            if any(source.alias == each.alias for each in sources):
                continue
            sources.append(source)
            if self.choices.chance(50):
                text, listed = Text.of("{0}, {1}", None, text, more), True
                continue
            on = [self.equal(sources)] if self.choices.chance(70) else []
            known = self.leaves(sources)
            if listed:  # a comma binds less than Join
                known = [leaf for leaf in known if leaf.source == source.alias]
            if listed or not on:
                on = [self.condition(known, (), 0)]
            elif self.choices.chance(25):
                on.append(self.condition(known, (), depth))
            join = self.choices.pick(("Join", "Inner Join"))
            text = Text.of("{0} " + join + " {1} On {2}", None, text, more, Text.joined(" And ", on))
        return sources, text

    def equal(self, sources: Sequence[Source]) -> Text:
        """The last source's column is one of the others'."""
        leaves = self.leaves(sources)
        mine = [leaf for leaf in leaves if leaf.source == sources[-1].alias]
        pairs = [(one, two) for one in mine for two in leaves if two.source != one.source and one.kind == two.kind]
        if not pairs:
            return Text("1 = 1", "1 = 1")
        one, two = self.choices.pick(pairs)
        return Text.of("{0} = {1}", None, self.column(one), self.column(two))

    def source(self, depth: int) -> tuple[Source, Text]:
        if depth > 0 and self.choices.chance(20):
            inner = self.query(None, depth - 1, ())
            alias = self.fresh("q")
            return Source(alias, inner.columns), Text.of(
                "({0})" + self.choices.pick((" ", " As ")) + alias, None, inner.text
            )
        named = self.choices.pick([each for each in self.names.values() for _ in range(2 if each.streams else 1)])
        self.used |= named.streams
        alias = self.choices.pick((named.name, self.fresh("x")))
        window = self.window(named) if named.windows else None
        written = "" if alias == named.name else self.choices.pick((" ", " As ")) + alias
        duck = f"({named.duck if window is None else window.duck}) AS {quoted(alias)}"
        return Source(alias, named.columns), Text(
            identifier(named.name) + ("" if window is None else window.cql) + written, duck
        )

    def window(self, named: Named) -> Text:
        """A window as it is written, and a query for what it holds."""
        names = [name for name, _ in named.columns if name is not None]
        span = self.choices.pick((2, 1, 4, 6)) * HALF
        unit = self.choices.pick((f"{span // 1000} Milliseconds", f"{span} Microseconds"))
        if span % SECOND == 0:
            unit = f"{span // SECOND} Second{'s' if span > SECOND else ''}"
        rows = self.choices.pick((2, 1, 3, 5))
        by = self.choices.pick(names)
        slide = self.choices.pick((2, 1, 3))
        partition = f"Partition By {identifier(by)} "
        forms: tuple[tuple[str, dict[str, Any]], ...] = (
            ("", {}),
            ("[Rows Unbounded]", {}),
            (f"[Range {unit}]", {"span": span}),
            ("[Now]", {"span": 0}),
            (f"[Rows {rows}]", {"rows": rows}),
            (f"[{partition}Rows {rows}]", {"rows": rows, "by": by}),
            (f"[Rows {rows} Range {unit}]", {"rows": rows, "span": span}),
            (f"[{partition}Rows {rows} Range {unit}]", {"rows": rows, "span": span, "by": by}),
            (f"[Range {unit} Slide {slide} Seconds]", {"span": span, "slide": slide * SECOND}),
            (f"[Rows {rows} Slide {slide}]", {"rows": rows, "slide_rows": slide}),
            (f"[{partition}Rows {rows} Slide {slide}]", {"rows": rows, "slide_rows": slide, "by": by}),
        )
        spelled, parts = self.choices.pick(forms)
        if "slide" in parts:
            self.slides.add(parts["slide"])
        return Text(" " + spelled if spelled else "", held(named, **parts))

    # Queries.

    def query(self, kinds: Sequence[str] | None, depth: int, outer: Sequence[Leaf]) -> Written:
        """A select or a set operation; `kinds` of its columns if they matter."""
        if depth > 0 and self.choices.chance(8):
            return self.with_(kinds, depth, outer)
        if depth <= 0 or not self.choices.chance(15):
            return self.select(kinds, depth, outer)
        first = self.select(kinds or self.kinds(), depth - 1, ())
        text = first.text
        for _ in range(1 + self.choices.below(2)):
            operation = self.choices.pick(("Union All", "Union", "Except", "Intersect", "Except All", "Intersect All"))
            other = self.select([kind for _, kind in first.columns], depth - 1, ())
            around = self.choices.pick(("{0} {1} {2}", "({0}) {1} ({2})", "{0} {1} ({2})"))
            text = Text.of(around, None, text, Text(operation, operation), other.text)
        return Written(text, first.columns)

    def with_(self, kinds: Sequence[str] | None, depth: int, outer: Sequence[Leaf]) -> Written:
        """A query behind one or two of With."""
        before = dict(self.names)
        listed = []
        for _ in range(1 + self.choices.below(2)):
            name = self.fresh("w")
            used, self.used = self.used, set()
            inner = self.query(None, depth - 1, ())
            listed.append(Text.of(name + " As ({0})", None, inner.text))
            self.names[name] = Named(name, inner.columns, f"SELECT * FROM {name}", frozenset(self.used))
            self.used = used
        query = self.select(kinds, depth - 1, outer)
        self.names = before
        return Written(Text.of("With {0} {1}", None, Text.joined(", ", listed), query.text), query.columns)

    def kinds(self) -> list[str]:
        return [self.choices.pick(KINDS) for _ in range(1 + self.choices.below(3))]

    def select(
        self, kinds: Sequence[str] | None, depth: int, outer: Sequence[Leaf], to_stream: str | None = None
    ) -> Written:
        sources, text = self.sources(depth)
        leaves = self.leaves(sources)
        where = self.where(leaves, outer, sources, depth)
        way = self.choices.below(10)
        if kinds is None and way == 9 and not self.on_spark:
            all_columns = [column for source in sources for column in source.columns]
            names = [name for name, _ in all_columns]
            unique = tuple(
                (name if names.count(name) == 1 else None, SAME.get(kind, kind)) for name, kind in all_columns
            )
            return Written(self.put("*", Text("*", "*"), text, where, Text("", ""), to_stream), unique)
        kinds = kinds or self.kinds()
        if way < 6:
            items = [(self.item(kind, leaves, depth), kind) for kind in kinds]
            listed, columns = self.listed(items, [name for name, _ in sources[0].columns if name] if depth else [])
            distinct = "Distinct " if to_stream is None and self.choices.chance(15) else ""
            return Written(self.put(distinct, listed, text, where, Text("", ""), to_stream), columns)
        if self.correlated:
            self.refusals.append(CORRELATED_AGGREGATE)
        return self.grouped(kinds, leaves, text, where, way == 6, to_stream)

    def item(self, kind: str, leaves: Sequence[Leaf], depth: int) -> Text:
        if depth > 0 and kind in ("bigint", "double") and self.choices.chance(8):
            return self.value(kind, leaves, depth)
        return self.expression(kind, leaves, 2)

    def grouped(
        self, kinds: Sequence[str], leaves: Sequence[Leaf], text: Text, where: Text, whole: bool, to_stream: str | None
    ) -> Written:
        """Aggregates by keys, which are columns or expressions or names of selected ones; or of the whole."""
        keys: list[tuple[str, Text, str | None]] = []
        items: list[tuple[Text, str, str | None]] = []
        for kind in kinds:
            if not whole and self.choices.chance(50):
                alias = self.fresh("g") if self.choices.chance(40) else None
                fitting = [leaf for leaf in leaves if leaf.kind == kind]
                if not fitting:
                    key, alias = self.literal(kind), self.fresh("g")
                    items.append((key, kind, alias))
                    continue
                key = self.column(self.choices.pick(fitting))
                if self.choices.chance(40):
                    key = self.over(kind, key)
                keys.append((kind, key, alias))
                items.append((key, kind, alias))
            else:
                items.append((self.aggregate(kind, leaves), kind, None))
        if not whole and (not keys or self.choices.chance(20)):
            leaf = self.choices.pick(leaves) if leaves else Leaf("bigint", (Text("1 + 1", "1 + 1"),))
            if leaves:
                keys.append((leaf.kind, self.column(leaf), None))
            else:
                whole = True
        rest = Text("", "")
        if keys and not whole:
            by = [
                Text(alias, quoted(alias)) if alias is not None and self.choices.chance(60) else key
                for _, key, alias in keys
            ]
            rest = Text.of(" Group By {0}", None, Text.joined(", ", by))
        values = [Leaf(kind, (key,)) for kind, key, _ in keys] if not whole else []
        if self.choices.chance(30):
            kind = self.choices.pick(("bigint", "double", "string"))
            known = [Leaf(kind, (self.aggregate(kind, leaves),)), *values]
            having = Text.of(
                "{0} " + self.choices.pick(COMPARISONS) + " {1}",
                None,
                known[0].spellings[0],
                self.expression(kind, values, 1),
            )
            rest = Text.of("{0} Having {1}", None, rest, having)
        mixed = [
            (self.expression(kind, [Leaf(kind, (item,)), *values], 1), kind)
            if alias is None and self.choices.chance(25)
            else (item, kind)
            for item, kind, alias in items
        ]
        listed, columns = self.listed(mixed, [], [alias for *_, alias in items])
        distinct = "Distinct " if to_stream is None and self.choices.chance(8) else ""
        return Written(self.put(distinct, listed, text, where, rest, to_stream), columns)

    def over(self, kind: str, part: Text) -> Text:
        """An operation of one argument, of the same kind."""
        fitting = [each for each in OPERATIONS[kind] if each[2] == (kind,)]
        cql, duck, _ = self.choices.pick(fitting)
        return Text.of(cql, duck, part)

    def listed(
        self, items: Sequence[tuple[Text, str]], taken: Sequence[str], given: Sequence[str | None] = ()
    ) -> tuple[Text, tuple[tuple[str | None, str], ...]]:
        """Items with and without names; a few get the name of a column that there is."""
        texts: list[Text] = []
        columns: list[tuple[str | None, str]] = []
        for place, (item, kind) in enumerate(items):
            name = given[place] if given else None
            way = self.choices.below(8)
            if name is None and way < 7:
                name = self.choices.pick(taken) if taken and way == 6 else self.fresh("n")
                if any(name == each for each, _ in columns):
                    name = self.fresh("n")
            if name is None:
                texts.append(item)
            else:
                style = self.choices.pick(
                    (" As " + identifier(name), " " + identifier(name), f" As `{name}`", f' As "{name}"')
                )
                texts.append(Text(item.cql + style, f"{item.duck} AS {quoted(name)}"))
            columns.append((name, kind))
        return Text.joined(", ", texts), tuple(columns)

    @staticmethod
    def put(distinct: str, listed: Text, text: Text, where: Text, rest: Text, to_stream: str | None) -> Text:
        distinct = "" if distinct == "*" else distinct
        selected = "Select " + distinct + ("{0}" if to_stream is None else to_stream + "({0})")
        return Text.of(
            selected + " From {1}{2}{3}", f"SELECT {distinct}{{0}} FROM {{1}}{{2}}{{3}}", listed, text, where, rest
        )

    # What is missing and says so.

    def unsupported(self) -> Written:
        """A query that is to be refused, for one reason."""
        (source, text), (inner, inner_text) = self.source(0), self.source(0)
        while inner.alias == source.alias:
            inner, inner_text = self.source(0)
        leaves = self.leaves([source])
        numbers = [self.qualified(leaf) for leaf in leaves if leaf.kind == "bigint"]
        item, other = self.expression("bigint", leaves, 0), self.expression("bigint", self.leaves([inner]), 0)
        form, refusal = self.choices.pick(UNSUPPORTED)
        self.refusals.append(refusal)
        written = Text.of(form, None, item, text, inner_text, other, numbers[0] if numbers else item)
        return Written(written, (("n", "bigint"),))


def held(
    named: Named,
    span: int | None = None,
    rows: int | None = None,
    by: str | None = None,
    slide: int | None = None,
    slide_rows: int = 1,
) -> str:
    """A query of DuckDB for what a window over a stream holds at `@t`, as docs/semantics.md says."""
    now = "@t" if slide is None else f"(@t // {slide} * {slide})"
    columns = ", ".join(quoted(name) for name, _ in named.columns if name is not None)
    partition = "" if by is None else f"PARTITION BY {quoted(by)} "
    counted = (
        f"SELECT *, row_number() OVER ({partition}ORDER BY {named.order}) AS _place, "
        f"count(*) OVER ({partition}) AS _count FROM ({named.duck}) WHERE _ts <= {now}"
    )
    seen = f"(_count // {slide_rows} * {slide_rows})"
    tests = [f"_place <= {seen}"]
    tests += [] if rows is None else [f"_place > {seen} - {rows}"]
    tests += [] if span is None else [f"_ts >= {now} - {span}"]
    return f"SELECT {columns} FROM ({counted}) WHERE {' AND '.join(tests)}"


def inputs() -> dict[str, Named]:
    """The streams and relations of every world."""
    named = {}
    for name, columns in STREAMS:
        by_value = ", ".join(f"{quoted(each)} NULLS LAST" for each, _ in columns)
        order = "_ts, _seq" if name != "t" else f"_ts, {by_value}"
        named[name] = Named(name, columns, f"SELECT * FROM {name}", frozenset({name}), True, order)
    for name, columns in RELATIONS:
        named[name] = Named(name, columns, f"SELECT * FROM {name}", frozenset())
    return named


def defined(choices: Choices, name: str, number: int, on_spark: bool) -> tuple[Definition, Named, list[str]] | None:
    """A view or an answer: of the rows of a stream that pass a condition, a stream; or any relation."""
    writer = Writer(choices, inputs(), number=100 * (number + 1), on_spark=on_spark)
    is_view = choices.chance(50)
    if choices.chance(50):
        base = choices.pick([each for each in inputs().values() if each.windows])
        source = Source(base.name, base.columns)
        leaves = writer.leaves([source])
        kinds = [kind for kind in writer.kinds() if kind != "double"] or ["bigint"]
        listed, columns = writer.listed(
            [(writer.expression(kind, leaves, 1), kind) for kind in kinds], [], [writer.fresh("n") for _ in kinds]
        )
        where = writer.where(leaves, (), [source], 0)
        by_value = ", ".join(f"{quoted(each)} NULLS LAST" for each, _ in columns if each is not None)
        text = Text.of("Select {0} From " + base.name + "{1}", None, listed, where)
        duck = f"SELECT {listed.duck}, _ts, _seq FROM {base.name}{where.duck}"
        found = Named(name, columns, duck, base.streams, True, f"_ts, {by_value}")
        return Definition(name, is_view, text.cql), found, writer.refusals
    query = writer.select(None, 1, ())
    if not writer.used or any(each is None for each, _ in query.columns):
        return None
    reads = Named(name, query.columns, query.text.duck, frozenset(writer.used))
    return Definition(name, is_view, query.text.cql), reads, writer.refusals


def documented(choices: Choices, prefix: str = "v", on_spark: bool = False, depth: int = 2) -> Documented:
    """A query with queries within it to some depth, and views and answers that it reads, named with a prefix.

    On Spark the time and the sequence are columns of a stream, too, so that no query there reads all columns by `*`.
    """
    writer = Writer(choices, inputs(), on_spark=on_spark)
    definitions = []
    for number in range(max(0, choices.below(5) - 3)):
        found = defined(choices, f"{prefix}{number}", number, on_spark)
        if found is not None:
            definitions.append(found[0])
            writer.names[found[1].name] = found[1]
            writer.refusals += found[2]
    to_stream = choices.pick(TO_STREAM) if choices.chance(15) else None
    if choices.chance(5):
        to_stream, query = None, writer.unsupported()
    elif to_stream is not None:
        query = writer.select(None, depth, (), to_stream)
    else:
        query = writer.query(None, depth, ())
    if not writer.used:
        writer.refusals.append("no stream in the query")
    cql = styled(query.text.cql, choices)
    return Documented(
        cql,
        query.text.duck,
        to_stream,
        frozenset(writer.used),
        frozenset(writer.slides),
        tuple(definitions),
        tuple(writer.refusals),
    )


def styled(cql: str, choices: Choices) -> str:
    """The same text in another hand: cases of keywords, line breaks, comments."""
    style = choices.below(1000)
    if style < 400:
        return cql
    rng = random.Random(style)
    cased = rng.choice((str.upper, str.lower, str.swapcase, str.title))
    out = []
    for token in re.findall(r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|\w+|\s+|.", cql):
        if token.lower() in KEYWORDS:
            out.append(cased(token))
        elif token == " " and rng.random() < 0.1:
            within = "".join(out[-1:]).lower() in ("group", "order", "partition")  # one word to the parser, with By
            out.append(rng.choice(("\n", "\t", "  ") if within else ("\n", "\n\n", " /* a, 'b' */ ", " -- it's `c\n")))
        else:
            out.append(token)
    return "".join(out)
