"""Random joins of two to six inputs: stars, chains, cycles, comparisons, outer joins, tests with In and Exists.

Keys are of all kinds that are hard to compare: NULL, NaN, zeros of both signs, decimals of different scale, two columns
together, columns of different whole numbers. Some streams have no rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from decimal import Decimal

from cql.generate import SKEWS, Author
from cql.streams import SECOND, Case, Columns, Relation, Row, Stream

COLUMNS: Columns = (
    ("k", "bigint"),
    ("j", "int"),
    ("a", "bigint"),
    ("c", "string"),
    ("d", "double"),
    ("e", "decimal(9, 2)"),
    ("f", "decimal(20, 2)"),
)
SHAPES = ("star", "chain", "cycle", "comparisons", "pairs", "outer", "tests")
KEYS = ("k", "k", "k", "j", "c", "d", "e", "f")
ALIKE = {"k": "kj", "j": "kj", "c": "c", "d": "d", "e": "ef", "f": "ef"}
WINDOWS = (
    " [Rows Unbounded]",
    " [Range 2 Seconds]",
    " [Range 5 Seconds]",
    " [Range 3 Seconds Slide 2 Seconds]",
    " [Now]",
    " [Rows 2]",
    " [Rows 5]",
    " [Range 9 Seconds]",
    " [Partition By k Rows 2]",
)
FEW, MANY = 7, 24
NAMES = ("s1", "s2", "s3", "s4")


class JoinAuthor(Author):
    """Makes up one join."""

    def join_case(self) -> Case:
        """Streams, a join of them, and how their rows arrive."""
        streams = tuple(self.join_stream(name) for name in NAMES)
        count = self.pick(2, 3, 3, 3, 4, 4, 5, 6)
        shape = self.pick(*SHAPES)
        # A join of many has a result of all combinations: the more there are, the fewer rows each has.
        most = MANY if count < 4 else FEW
        streams = tuple(self.shortened(each, most) for each in streams)
        relations = self.relations() if shape == "outer" else ()
        return Case(streams, relations, self.join_text(shape, count, relations), self.cuts(streams))

    def join_stream(self, name: str) -> Stream:
        size = 0 if self.chance(12) else self.number(3, MANY)
        rows: tuple[Row, ...] = tuple((number, *self.join_row(number)) for number in self.shuffled(size))
        return Stream(name, COLUMNS, rows, not self.chance(5), skew=self.pick(*SKEWS))

    def shortened(self, stream: Stream, most: int) -> Stream:
        """With so many rows at most, which arrive disordered within the skew."""
        rows = stream.rows[:most]
        comes = [row[1] + self.number(0, stream.skew) for row in rows]
        arrival = tuple(sorted(self.shuffled(len(rows)), key=lambda place: comes[place]))
        return Stream(stream.name, stream.columns, rows, stream.sequenced, arrival, stream.skew)

    def join_row(self, number: int) -> Row:
        time = self.number(0, 6) * SECOND + self.pick(0, 0, 0, 1)
        return (
            time,
            self.pick(0, 1, 1, 1, 2, None),
            self.pick(0, 1, 1, 1, 2, None),
            number,
            self.pick("p", "q", "q", None),
            self.pick(0.0, -0.0, 1.5, float("nan"), None),
            self.pick(Decimal("0.00"), Decimal("1.00"), Decimal("1.25"), None),
            self.pick(Decimal("0.00"), Decimal("1.00"), Decimal("1.25"), Decimal("4.50"), None),
        )

    def join_text(self, shape: str, count: int, relations: Sequence[Relation] = ()) -> str:
        """A query whose inputs `x0`, `x1`, ... are joined in a shape."""
        if shape == "outer":
            return self.outer(min(count, 4), relations)
        if shape == "tests":
            return self.tests(min(count, 4))
        inputs = [f"{self.pick(*NAMES)}{self.pick(*WINDOWS)} As x{number}" for number in range(count)]
        conditions = getattr(self, shape)(count)
        listed = ", ".join(f"x{number}.a As a{number}" for number in range(count))
        if self.chance(3):
            listed = f"Count(*) As n, Sum(x{count - 1}.a) As total"
        if self.chance(3) and count > 2:
            conditions.append(f"x0.a {self.pick('<', '<>', '>=')} x{count - 1}.a")
        where = f" Where {' And '.join(conditions)}" if conditions else ""
        leading = self.shuffled(count)[: self.number(1, count)] if self.chance(4) else []
        hint = f"/*+ Leading({', '.join(f'x{number}' for number in leading)}) */ " if leading else ""
        selected = f"Select {hint}{listed} From {', '.join(inputs)}{where}"
        return self.pick(selected, f"Istream({selected})", f"Dstream({selected})")

    def star(self, count: int) -> list[str]:
        key = self.pick(*KEYS)
        return [f"x0.{key} = x{other}.{self.pick(*self.alike(key))}" for other in range(1, count)]

    def chain(self, count: int) -> list[str]:
        keys = [self.pick(*KEYS) for _ in range(1, count)]
        return [f"x{place}.{key} = x{place + 1}.{self.pick(*self.alike(key))}" for place, key in enumerate(keys)]

    def cycle(self, count: int) -> list[str]:
        return [*self.chain(count), f"x{count - 1}.k = x0.j"]

    def pairs(self, count: int) -> list[str]:
        """Two columns together."""
        one, two = "c", self.pick("k", "e", "d")
        return [f"x0.{one} = x{other}.{one} And x0.{two} = x{other}.{two}" for other in range(1, count)]

    def comparisons(self, count: int) -> list[str]:
        """Comparisons that are tested in the join; with two inputs there is no equality at all."""
        equal = [] if count == 2 else self.chain(count - 1)
        last = count - 1
        return [*equal, f"x{last - 1}.a {self.pick('<', '>', '<=')} x{last}.a", f"x{last - 1}.k <> x{last}.k"]

    def outer(self, count: int, relations: Sequence[Relation]) -> str:
        """Joins from left to right, at least one of them outer, by equal columns and other conditions."""
        tables = {number for number in range(1, count) if relations and self.chance(4)}
        inputs = [
            f"r As x{number}" if number in tables else f"{self.pick(*NAMES)}{self.pick(*WINDOWS)} As x{number}"
            for number in range(count)
        ]
        text, outer, tests = inputs[0], self.number(1, count - 1), list[str]()
        for number in range(1, count):
            side = self.pick("Left", "Right", "Full", "Left" if number == outer else self.pick("Inner", "Comma"))
            conditions = self.outer_conditions(number, tables)
            if side == "Comma":
                text += f", {inputs[number]}"
                tests += conditions
            else:
                text += f" {side} Join {inputs[number]} On {' And '.join(conditions)}"
        columns = ["label" if number in tables else "a" for number in range(count)]
        listed = ", ".join(f"x{number}.{name} As a{number}" for number, name in enumerate(columns))
        if self.chance(4):
            listed = f"Count(*) As n, Sum(x0.a) As total, Min(x{count - 1}.k) As least"
        last = f"x{self.choose(count)}"
        if self.chance(4):
            tests.append(self.pick(f"{last}.k = 1", f"{last}.k Is Null", f"x0.k = {last}.k"))
        where = f" Where {' And '.join(tests)}" if tests else ""
        selected = f"Select {listed} From {text}{where}"
        return self.pick(selected, selected, f"Istream({selected})", f"Dstream({selected})", f"Rstream({selected})")

    def outer_conditions(self, number: int, tables: Set[int]) -> list[str]:
        """What connects an input with one before, beside it conditions on one side, or on both."""
        before, own = self.choose(number), f"x{number}"
        key = "k" if {before, number} & tables else self.pick(*KEYS)
        other = "k" if number in tables else self.pick(*self.alike(key))
        found = [f"x{before}.{key} = {own}.{other}"]
        if self.chance(3):
            found.append(f"x{self.choose(number)}.k {self.pick('<', '<>', '>=')} {own}.k")
        if self.chance(4):
            found.append(f"{self.pick(own, f'x{before}')}.k {self.pick('= 1', '<> 1', 'Is Null', 'Is Not Null')}")
        if self.chance(8):
            found.append(f"(x{before}.k Is Null Or {own}.k > 0)")
        return found[1:] if len(found) > 1 and self.chance(4) else found

    def tests(self, count: int) -> str:
        """Several In or Exists, which are one join."""
        negated, found = self.pick("", "Not "), []
        for number in range(1, count):
            key, source = self.pick(*KEYS), f"{self.pick(*NAMES)}{self.pick(*WINDOWS)}"
            own = self.pick(*self.alike(key))
            if self.chance(2):
                found.append(f"{negated}Exists (Select 1 From {source} As y{number} Where y{number}.{own} = x.{key})")
            else:
                found.append(f"x.{key} {negated}In (Select {own} From {source} As y{number})")
        where = f" Where {' And '.join(found)}" if found else ""
        return f"Select x.a As a From {self.pick(*NAMES)}{self.pick(*WINDOWS)} As x{where}"

    def alike(self, key: str) -> str:
        """Columns that are compared with one."""
        return ALIKE[key]


def random_join(seed: int) -> Case:
    """The join of a seed."""
    return JoinAuthor(random.Random(seed).randrange).join_case()
