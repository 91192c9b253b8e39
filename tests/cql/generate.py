"""Random streams, relations, continuous queries and batch cuts.

Values are few, so that rows join, tie and repeat. Arithmetic is exact; averages and deviations stand only where nothing
is compared with them: in the outermost list of columns, but not under Distinct or in a set operation.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar

from hypothesis import strategies as st

from cql.streams import SECOND, Case, Columns, Cuts, Relation, Row, Stream

Kind: TypeAlias = Literal["int", "text", "float", "double", "decimal", "flag", "day"]
Shape: TypeAlias = Literal["plain", "distinct", "grouped", "global"]
Choice = TypeVar("Choice")

STREAM_COLUMNS: Columns = (("k", "bigint"), ("j", "bigint"), ("a", "bigint"), ("b", "bigint"), ("c", "string"))
MORE_COLUMNS: Columns = (("d", "double"), ("e", "decimal(9, 2)"), ("f", "boolean"), ("g", "date"))
RELATION_COLUMNS: Columns = (("k", "bigint"), ("label", "string"))
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 12, 12, 12, 0)
SKEWS = (0, 0, SECOND, 3 * SECOND)
MOST_TICKS = 5
MOST_CELLS = 4
TEXTS = ("p", "q", "r")
KINDS: dict[str, Kind] = {
    "bigint": "int",
    "string": "text",
    "double": "double",
    "decimal(9, 2)": "decimal",
    "boolean": "flag",
    "date": "day",
}
FIRST_DAY = date(2020, 2, 28)
OPERATORS = ("Istream", "Dstream", "Rstream")

Choose: TypeAlias = Callable[[int], int]  # a number from 0 up to, not including, the argument


@st.composite
def streams(draw: st.DrawFn) -> tuple[Stream, ...]:
    """One to three streams `s1`, `s2`, `s3` of up to 12 rows with many ties, which arrive disordered within a skew.

    Some have columns of more types than others.
    """
    return Author(_chooser(draw)).streams()


@st.composite
def relations(draw: st.DrawFn) -> tuple[Relation, ...]:
    """No relation, or a relation `r` in which keys repeat and are missing."""
    return Author(_chooser(draw)).relations()


@st.composite
def queries(draw: st.DrawFn, streams: Sequence[Stream], relations: Sequence[Relation] = ()) -> str:
    """A query in CQL."""
    return Author(_chooser(draw)).query(streams, relations)


@st.composite
def cuts(draw: st.DrawFn, streams: Sequence[Stream]) -> Cuts:
    """Batches of every stream in a common number of ticks, some of them empty, and a number of cells."""
    return Author(_chooser(draw)).cuts(streams)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Streams, relations, a query over them, and how the rows arrive."""
    return Author(_chooser(draw)).case()


def random_case(seed: int) -> Case:
    """The same as `cases`, of a seed: does not shrink, but is faster and repeats itself less."""
    return Author(random.Random(seed).randrange).case()


def random_queries(seed: int, count: int, more: Columns = ()) -> list[Case]:
    """So many queries over the same streams and relations, which arrive in the same way.

    `more` are columns that streams may have beside the usual ones.
    """
    author = Author(random.Random(seed).randrange, more)
    first = author.case()
    texts = (author.query(first.streams, first.relations) for _ in range(count - 1))
    return [first, *(replace(first, query=text) for text in texts)]


def _chooser(draw: st.DrawFn) -> Choose:
    return lambda count: draw(st.integers(0, count - 1))


@dataclass(frozen=True)
class Source:
    """What stands in From under an alias."""

    text: str
    alias: str
    columns: tuple[tuple[str, Kind], ...]

    def named(self, kind: Kind) -> list[str]:
        return [f"{self.alias}.{name}" for name, its in self.columns if its == kind]


@dataclass(frozen=True)
class _Select:
    """A select without an operator around its list of columns."""

    distinct: bool
    items: tuple[str, ...]
    rest: str
    columns: tuple[tuple[str, Kind], ...]

    def text(self, operator: str = "", outside: bool = False) -> str:
        distinct = "Distinct " if self.distinct else ""
        items = ", ".join(self.items)
        if not operator:
            return f"Select {distinct}{items} {self.rest}"
        if outside:
            return f"{operator}({self.text()})"
        return f"Select {operator}({distinct}{items}) {self.rest}"


class Author:
    """Makes up one case; every name that it gives is new."""

    def __init__(self, choose: Choose, more: Columns = MORE_COLUMNS) -> None:
        self.choose = choose
        self.more = more
        self.pending: list[tuple[str, tuple[tuple[str, Kind], ...]]] = []  # queries of With that are not read yet
        self.inputs: Sequence[Stream] = ()
        self.beside: Sequence[Relation] = ()
        self.names = 0

    def pick(self, *options: Choice) -> Choice:
        return options[self.choose(len(options))]

    def either(self, *options: Callable[[], str]) -> str:
        return self.pick(*options)()

    def chance(self, one_in: int) -> bool:
        return self.choose(one_in) == one_in - 1

    def number(self, low: int, high: int) -> int:
        return low + self.choose(high - low + 1)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def shuffled(self, count: int) -> list[int]:
        left = list(range(count))
        return [left.pop(self.choose(len(left))) for _ in range(count)]

    # --- data

    def case(self) -> Case:
        inputs, beside = self.streams(), self.relations()
        return Case(inputs, beside, self.query(inputs, beside), self.cuts(inputs))

    def streams(self) -> tuple[Stream, ...]:
        return tuple(self.stream(f"s{number + 1}") for number in range(self.number(1, 3)))

    def stream(self, name: str) -> Stream:
        size = self.pick(*SIZES)
        columns = self.columns()
        rows: tuple[Row, ...] = tuple((number, *self.element(columns)) for number in self.shuffled(size))
        skew = self.pick(*SKEWS)
        # A row that comes at most the skew after its time never comes behind one that is later by more.
        comes = [row[1] + self.number(0, skew) for row in rows]
        arrival = sorted(self.shuffled(size), key=lambda place: comes[place])
        return Stream(name, columns, rows, not self.chance(5), tuple(arrival), skew)

    def columns(self) -> Columns:
        if not self.more or not self.chance(3):
            return STREAM_COLUMNS
        return STREAM_COLUMNS + tuple(dict.fromkeys(self.pick(*self.more) for _ in range(self.number(1, 3))))

    def element(self, columns: Columns) -> Row:
        time = self.number(0, 8) * SECOND + self.pick(0, 0, 0, 0, 1, SECOND // 2)
        numbers = (0, 1, 2, 3, 4, -1, -2, None)
        return (
            time,
            self.number(0, 2),
            self.number(0, 2),
            *(self.pick(*numbers) for _ in "ab"),
            self.pick(*TEXTS, None),
            *(self.value(KINDS[declared]) for _, declared in columns[len(STREAM_COLUMNS) :]),
        )

    def value(self, kind: Kind) -> object:
        """A value of a column that not all streams have; doubles are sums of halves, so that adding them is exact."""
        if self.chance(6):
            return None
        number = self.number(-1, 3)
        if kind == "double":
            return number / 2
        if kind == "decimal":
            return Decimal(number) + Decimal(self.pick("0.00", "0.00", "0.25"))
        return number > 1 if kind == "flag" else FIRST_DAY + timedelta(days=number)

    def relations(self) -> tuple[Relation, ...]:
        if self.chance(2):
            return ()
        rows = tuple(self.label() for _ in range(self.number(0, 4)))
        return (Relation("r", RELATION_COLUMNS, rows, self.changes(rows) if self.chance(2) else ()),)

    def label(self) -> Row:
        return (self.pick(0, 1, 2, None), self.pick(*TEXTS, None))

    def changes(self, rows: Sequence[Row]) -> tuple[tuple[int, int, Row], ...]:
        """Rows come and go, at times at which streams have rows and at others."""
        held, made = list(rows), []
        for time in sorted(self.number(-1, 9) * SECOND + self.pick(0, 0, 1) for _ in range(self.number(1, 6))):
            if held and self.chance(2):
                made.append((time, -1, held.pop(self.choose(len(held)))))
            else:
                held.append(self.label())
                made.append((time, 1, held[-1]))
        return tuple(made)

    def cuts(self, streams: Sequence[Stream]) -> Cuts:
        ticks, batches = self.number(1, MOST_TICKS), {}
        for stream in streams:
            rows = len(stream.rows)
            edges = [0, *sorted(self.number(0, rows) for _ in range(ticks - 1)), rows]
            batches[stream.name] = tuple(high - low for low, high in itertools.pairwise(edges))
        return Cuts(batches, self.number(1, MOST_CELLS))

    # --- queries

    def query(self, streams: Sequence[Stream], relations: Sequence[Relation]) -> str:
        self.inputs, self.beside = streams, relations
        common = self.common() if self.chance(12) else ""
        text = common + self.body(bool(common))
        self.pending = []
        return text

    def body(self, common: bool) -> str:
        """A query without its With; behind one, an operator does not stand around the whole."""
        operator = self.pick("", *OPERATORS)
        if self.chance(4):
            text, _ = self.set_operation(depth=1, kinds=self.kinds())
            if operator and (common or self.chance(2)):
                return f"Select {operator}(*) From ({text}) As {self.name('u')}"
            return f"{operator}({text})" if operator else text
        shape = self.shape()
        kinds = self.kinds(floats=shape in ("grouped", "global"))
        return self.select(2, shape, kinds).text(operator, outside=not common and self.chance(4))

    def common(self) -> str:
        """With and a query that the next sources read, once or twice."""
        name, select = self.name("w"), self.select(1, self.shape(), self.kinds(), most_sources=2)
        self.pending = [(name, select.columns)] * self.number(1, 2)
        return f"With {name} As ({select.text(self.pick('', '', '', *OPERATORS))}) "

    def shape(self) -> Shape:
        return self.pick("plain", "plain", "plain", "grouped", "grouped", "global", "distinct")

    def kinds(self, floats: bool = False) -> tuple[Kind, ...]:
        more: tuple[Kind, ...] = ("float", "float") if floats else ()
        return tuple(self.pick("int", "int", "text", *more, *self.more_kinds()) for _ in range(self.number(1, 3)))

    def more_kinds(self) -> list[Kind]:
        """Kinds of columns that not all streams have."""
        found = {KINDS[its] for each in self.inputs for _, its in each.columns[len(STREAM_COLUMNS) :]}
        return sorted(found)

    def set_operation(self, depth: int, kinds: tuple[Kind, ...]) -> tuple[str, tuple[tuple[str, Kind], ...]]:
        operation = self.pick("Union", "Union All", "Except", "Except All", "Intersect", "Intersect All")
        kinds = kinds if operation.startswith("Union") or self.chance(3) else kinds[:1]  # few rows agree on more
        operands = [self.select(depth, self.shape(), kinds) for _ in range(3 if self.chance(5) else 2)]
        if len(operands) > 2:
            operation = "Union All"
        return f" {operation} ".join(each.text() for each in operands), operands[0].columns

    def select(self, depth: int, shape: Shape, kinds: tuple[Kind, ...], most_sources: int = 6) -> _Select:
        sources = [self.source(depth, leading=True)]
        more = self.pick(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 5)
        sources += [self.source(depth) for _ in range(min(more, most_sources - 1))]
        origin, conditions = self.joined(sources)
        conditions += [self.predicate(sources) for _ in range(self.pick(0, 0, 0, 0, 1, 1, 2))]
        if depth and self.chance(6):
            conditions.append(self.membership(sources, depth - 1))
        if depth and self.chance(16):
            conditions.append(f"{self.scalar(sources, 'int')} {self.comparison()} {self.single_value(depth - 1)}")
        rest = origin + (f" Where {' And '.join(conditions)}" if conditions else "")
        keys: list[tuple[str, Kind]] = []
        if shape == "grouped":
            wanted = [self.pick("int", "int", "text", *self.more_kinds()) for _ in range(self.pick(1, 1, 2))]
            keys = [self.column(sources, kind) for kind in wanted]
            rest += f" Group By {', '.join(dict.fromkeys(key for key, _ in keys))}"
        having = shape in ("grouped", "global") and self.chance(4)
        rest += f" Having {self.having(sources)}" if having else ""
        columns = tuple((self.name("o"), kind) for kind in kinds)
        texts = [
            self.scalar(sources, kind) if shape in ("plain", "distinct") else self.summary(sources, kind, keys)
            for kind in kinds
        ]
        if depth and shape == "plain" and kinds[0] == "int" and self.chance(20):
            texts[0] = self.single_value(depth - 1)
        if shape == "grouped" and not having and all("(" not in text for text in texts):
            rest += " Having Count(*) > 0"  # whether groups alone are monotone is not a question to ask here
        items = tuple(f"{text} As {name}" for text, (name, _) in zip(texts, columns, strict=True))
        return _Select(shape == "distinct", items, rest, columns)

    # --- what stands in From

    def source(self, depth: int, leading: bool = False) -> Source:
        if self.pending:
            name, alias = self.pending[0][0], self.name("x")
            return Source(f"{name} As {alias}", alias, self.pending.pop()[1])
        if self.beside and not leading and self.chance(3):
            alias = self.name("x")
            return Source(f"r As {alias}", alias, (("k", "int"), ("label", "text")))
        if depth and self.chance(6):
            return self.subquery(depth - 1)
        if depth and self.chance(6):
            return self.inner_stream(depth - 1)
        alias, stream = self.name("x"), self.pick(*self.inputs)
        columns: tuple[tuple[str, Kind], ...] = tuple((name, KINDS[its]) for name, its in stream.columns)
        window = self.window(("k", "j", "c"))
        text = f"{stream.name} As {alias}{window}" if self.chance(6) else f"{stream.name}{window} As {alias}"
        return Source(text, alias, columns)

    def subquery(self, depth: int) -> Source:
        if self.chance(3):
            text, columns = self.set_operation(depth, self.kinds())
        else:
            select = self.select(depth, self.shape(), self.kinds(), most_sources=2)
            text, columns = select.text(), select.columns
        alias = self.name("x")
        return Source(f"({text}) As {alias}", alias, columns)

    def inner_stream(self, depth: int) -> Source:
        alias = self.name("x")
        if self.chance(4):  # a stream by default
            below, stream = self.name("x"), self.pick(*self.inputs)
            source = Source(f"{stream.name} As {below}", below, tuple((n, KINDS[its]) for n, its in stream.columns))
            columns = tuple((self.name("o"), kind) for kind in self.kinds())
            items = ", ".join(f"{self.scalar([source], kind)} As {name}" for name, kind in columns)
            text = f"Select {items} From {source.text} Where {self.predicate([source])}"
        else:
            select = self.select(depth, self.shape(), self.kinds(), most_sources=2)
            text, columns = select.text(self.pick(*OPERATORS), outside=self.chance(4)), select.columns
        window = self.window(tuple(name for name, _ in columns))
        return Source(f"({text}){window} As {alias}", alias, columns)

    def window(self, columns: tuple[str, ...]) -> str:
        """A window with a space in front, or none."""
        rows, span, by = self.number(1, 4), self.pick(1, 2, 3, 5, 5, 0), self.pick(*columns)
        slide = self.pick("1 Second", "2 Seconds", "3 Seconds", "1500 Milliseconds")
        return self.pick(
            "",
            "",
            " [Rows Unbounded]",
            " [Range Unbounded]",
            f" [Range Unbounded Slide {slide}]",
            " [Now]",
            " [Now]",
            f" [Range {span} Seconds]",
            f" [Range {span} Seconds]",
            f" [Range {span} Seconds]",
            " [Range 1500 Milliseconds]",
            f" [Range {span} Seconds Slide {slide}]",
            f" [Rows {rows}]",
            f" [Rows {rows}]",
            f" [Rows {rows} Slide {self.number(1, 3)}]",
            f" [Rows {rows} Slide {slide}]",
            f" [Rows {rows} Range {span} Seconds]",
            f" [Partition By {by} Rows {rows}]",
            f" [Partition By {by} Rows {rows}]",
            f" [Partition By {by} Rows {rows} Range {span} Seconds]",
            f" [Partition By {by} Rows {rows} Slide {self.number(1, 3)}]",
            f" [Partition By {by} Range {span} Seconds]",
            f" [Partition By {by} Range {span} Seconds Slide {slide}]",
            f" [Partition By {', '.join(dict.fromkeys((by, self.pick(*columns))))} Rows {rows}]",
        )

    def joined(self, sources: list[Source]) -> tuple[str, list[str]]:
        """The text of From, and the conditions of joins that are left for Where."""
        if 2 <= len(sources) <= 4 and self.chance(6):
            return f"From {sources[0].text}{self.outer_joins(sources)}", []
        conditions = [self.join_condition(sources[:place], sources[place]) for place in range(1, len(sources))]
        if self.chance(2):
            text = f"From {sources[0].text}"
            for source, condition in zip(sources[1:], conditions, strict=True):
                text += f" Join {source.text} On {condition}"
            return text, []
        text = f"From {', '.join(source.text for source in sources)}"
        if len(sources) == 2 and self.chance(6):
            conditions = []
        return text, conditions

    def outer_joins(self, sources: list[Source]) -> str:
        """All but the first source, each in a join; some of the joins are outer ones."""
        text = ""
        for place in range(1, len(sources)):
            side = self.pick("Left", "Left", "Right", "Full", "Inner")
            text += f" {side} Join {sources[place].text} On {self.join_condition(sources[:place], sources[place])}"
        return text

    def join_condition(self, before: list[Source], source: Source) -> str:
        other = self.pick(*before)
        left, right = self.keys(other), self.keys(source)
        if not left or not right:
            return self.predicate([other, source])
        operator = self.pick("=", "=", "=", "=", "=", "<", "<>") if len(before) == 1 else "="
        text = f"{self.pick(*left)} {operator} {self.pick(*right)}"
        if self.chance(4):
            text += f" And {self.pick(*left)} {self.pick('<', '<=', '>', '>=', '<>')} {self.pick(*right)}"
        return f"{text} And {self.predicate([other, source])}" if self.chance(4) else text

    def keys(self, source: Source) -> list[str]:
        names = source.named("int")
        return names[:2] * 3 + names + source.named("decimal")  # the first two match more often

    # --- expressions

    def column(self, sources: Sequence[Source], kind: Kind) -> tuple[str, Kind]:
        """A column of this kind, or of another if there is none."""
        every = [(f"{source.alias}.{name}", its) for source in sources for name, its in source.columns]
        found = [each for each in every if each[1] == kind]
        return self.pick(*(found or [each for each in every if each[1] in ("int", "text")] or every))

    def literal(self, kind: Kind) -> str:
        return self.either(
            {
                "int": lambda: str(self.number(0, 3)),
                "text": self.text,
                "double": lambda: f"Cast({self.number(0, 3) / 2} As Double)",
                "decimal": lambda: f"Cast({self.pick('0.00', '1.00', '1.25', '2.00')} As Decimal(9, 2))",
                "flag": lambda: self.pick("True", "False"),
                "day": lambda: f"Date '{FIRST_DAY + timedelta(days=self.number(0, 2))}'",
            }[kind]
        )

    def scalar(self, sources: Sequence[Source], kind: Kind, depth: int = 1) -> str:
        names = [name for source in sources for name in source.named(kind)]
        if kind != "int":
            plain = [lambda: self.pick(*names)] * 3 if names else []
            more = [lambda: f"{self.pick(*names)} + {self.pick(*names)}"] if names and kind == "double" else []
            more += [lambda: f"({self.predicate(sources, 0)})"] if kind == "flag" else []
            return self.either(*plain, *more, lambda: f"Coalesce({self.pick(*names, 'Null')}, {self.literal(kind)})")
        if not names or self.chance(12):
            return str(self.number(0, 5))
        if not depth or not self.chance(3):
            return self.pick(*names)
        one, two = self.scalar(sources, kind, depth - 1), self.scalar(sources, kind, depth - 1)
        return self.either(
            lambda: f"{one} + {two}",
            lambda: f"{one} - {two}",
            lambda: f"{one} * {two}",
            lambda: f"({one} - {two}) * {self.number(0, 5)}",
            lambda: f"Coalesce({one}, {two})",
            lambda: f"Case When {self.predicate(sources, 0)} Then {one} Else {two} End",
            lambda: f"Case When {self.predicate(sources, 0)} Then {one} End",
        )

    def text(self) -> str:
        return f"'{self.pick(*TEXTS)}'"

    def predicate(self, sources: Sequence[Source], depth: int = 1) -> str:
        if depth and self.chance(4):
            one, two = self.predicate(sources, depth - 1), self.predicate(sources, depth - 1)
            return self.pick(f"({one} Or {two})", f"Not ({one} And {two})", f"Not ({one})")
        name, kind = self.column(sources, self.pick("int", "int", "int", "text", *self.more_kinds()))
        if kind == "flag":
            return self.pick(name, f"Not {name}", f"{name} Is Null", f"({name} Is Null Or {name})", f"{name} = True")
        if kind in ("double", "decimal", "day"):
            return self.pick(
                f"{name} {self.comparison()} {self.literal(kind)}",
                f"{name} Is Not Null",
                f"{name} <> {self.literal(kind)}",
            )
        if kind == "text":
            return self.pick(
                f"{name} = {self.text()}",
                f"{name} <> {self.text()}",
                f"{name} <> {self.text()}",
                f"{name} Is Not Null",
                f"({name} Is Null Or {name} > {self.text()})",
                f"{name} In ('p', {self.text()})",
            )
        return self.either(
            lambda: f"{name} {self.comparison()} {self.number(0, 3)}",
            lambda: f"{name} {self.pick('<', '<=', '<>')} {self.number(2, 3)}",
            lambda: f"{name} {self.pick('>', '>=', '<>')} {self.number(0, 1)}",
            lambda: f"{self.scalar(sources, 'int', depth)} {self.comparison()} {self.scalar(sources, 'int', depth)}",
            lambda: f"{name} Between {self.number(0, 1)} And {self.number(1, 3)}",
            lambda: f"{name} In ({self.number(0, 1)}, {self.number(1, 2)})",
            lambda: f"{name} Not In ({self.number(0, 1)}, {self.number(1, 4)})",
            lambda: f"{name} Is Not Null",
            lambda: f"({name} Is Null Or {name} {self.comparison()} {self.number(0, 3)})",
        )

    def comparison(self) -> str:
        return self.pick("=", "<>", "<", "<=", ">", ">=")

    def membership(self, sources: Sequence[Source], depth: int) -> str:
        """In or Exists, or the opposite."""
        outer, kind = self.column(sources, "int")
        negated = self.pick("", "Not ")
        if self.chance(4):
            inner = self.select(depth, self.shape(), (kind,), most_sources=2)
            if len(inner.columns) == 1:
                return f"{outer} {negated}In ({inner.text()})"
        source = self.source(depth)
        conditions = [self.predicate([source])] if self.chance(3) else []
        matching = source.named(kind)
        correlated = [f"{self.pick(*matching)} = {outer}"] if matching else []
        if self.chance(4):
            also, its = self.column(sources, "int")
            correlated += [f"{also} = {self.pick(*source.named(its))}"] if source.named(its) else []
        if self.chance(2):
            where = f" Where {' And '.join(correlated + conditions)}" if correlated + conditions else ""
            return f"{negated}Exists (Select {self.pick('1', '*')} From {source.text}{where})"
        wanted = self.pick(*matching) if matching else self.literal(kind)
        conditions += correlated[:1] if self.chance(3) else []
        where = f" Where {' And '.join(conditions)}" if conditions else ""
        return f"{outer} {negated}In (Select {wanted} From {source.text}{where})"

    def single_value(self, depth: int) -> str:
        """A query of one row and one column."""
        source = self.source(depth)
        where = f" Where {self.predicate([source])}" if self.chance(3) else ""
        return f"(Select {self.aggregate([source], 'int')} As {self.name('o')} From {source.text}{where})"

    def aggregate(self, sources: Sequence[Source], kind: Kind) -> str:
        if kind == "text":
            name, its = self.column(sources, "text")
            return f"{self.pick('Min', 'Max')}({name})" if its == "text" else "Min('p')"
        argument = self.scalar(sources, "int" if kind == "float" else kind)
        if kind == "float":
            return f"{self.pick('Avg', 'Avg', 'Stddev', 'Stddev_Pop', 'Variance', 'Var_Pop')}({argument})"
        if kind in ("double", "decimal"):
            return self.pick(f"Min({argument})", f"Max({argument})", f"Sum({argument})", f"Sum(Distinct {argument})")
        if kind in ("flag", "day"):
            return f"{self.pick('Min', 'Max')}({argument})"
        return self.either(
            lambda: "Count(*)",
            lambda: f"Count({argument})",
            lambda: f"Count(Distinct {self.column(sources, self.pick('int', 'text', *self.more_kinds()))[0]})",
            lambda: f"Sum({argument})",
            lambda: f"Sum({argument})",
            lambda: f"Sum(Distinct {argument})",
            lambda: f"Min({argument})",
            lambda: f"Max({argument})",
            lambda: f"Approx_Percentile({argument}, {self.pick('0.0', '0.25', '0.5', '0.5', '0.9', '1.0')})",
        )

    def summary(self, sources: Sequence[Source], kind: Kind, keys: Sequence[tuple[str, Kind]]) -> str:
        """A column of a select with groups."""
        same = [name for name, its in keys if its == kind]
        if same and self.chance(2):
            return self.pick(*same)
        one = self.aggregate(sources, kind)
        return (
            f"{one} {self.pick('+', '-')} {self.aggregate(sources, kind)}" if kind == "int" and self.chance(6) else one
        )

    def having(self, sources: Sequence[Source]) -> str:
        return f"{self.aggregate(sources, 'int')} {self.comparison()} {self.number(0, 3)}"
