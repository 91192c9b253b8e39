"""Column names that are hard to quote, and queries in which a name stands everywhere that one can."""

from __future__ import annotations

import random

from anabranch.model.names import quoted
from cql.streams import SECOND, Case, Cuts, Relation, Stream

ALPHABET = "aZ_09 .`'\"\\/$%()=?!;:,-*#|<>@[]{}\täßİ日😀"
ZEEK = ("id.orig_h", "id.resp_h.`q`", "anabranch_batch")
PLAIN = ("k", "a", "b")
ROWS = tuple((n, n * SECOND, n % 3, n % 4, n) for n in range(9))
LABELS = ((0, "red"), (2, "blue"))
QUERIES = {
    "projected": "Select {k}, {a} + 1 As {b} From {s} Where {a} > 0",
    "counted": "Select {k}, Count(*) As n, Sum({a}) As {b} From {s} [Range 2 Seconds] Group By {k}",
    "sliding": "Select {k}, Sum({a}) As {b} From {s} [Range 4 Seconds Slide 2 Seconds] Group By {k}",
    "latest": "Select Rstream({k}, {a}) From {s} [Partition By {k} Rows 1]",
    "looked_up": "Select Istream(x.{k}, y.{b}) From {s} [Now] As x, {r} As y Where x.{k} = y.{k}",
    "joined": "Select {k}, x.{a}, y.{a} From {s} [Range 1 Second] As x Join {s} [Rows 2] As y Using ({k})",
    "absent": "Select Istream({k}) From {s} [Now] Where {k} Not In (Select {a} From {s} [Rows 2] Where {a} > 1)",
    "united": "Select {k} From {s} [Rows 2] Union Select {a} As {k} From {s} [Rows 3]",
    "nested": "Select x.* From (Select {k}, Max({a}) As {a} From {s} [Rows 3] Group By {k}) As x Where x.{a} > 0",
}


def random_names(seed: int) -> tuple[str, ...]:
    """Three names that differ, whatever the case of their letters."""
    chosen, names = random.Random(seed), dict[str, str]()
    while len(names) < len(PLAIN):
        name = "".join(chosen.choices(ALPHABET, k=chosen.randint(1, 6)))
        names.setdefault(name.lower(), name)
    return tuple(names.values())


def written(text: str, names: tuple[str, ...], stream: str = "s", relation: str = "r") -> str:
    """A query with its names filled in."""
    return text.format(s=stream, r=relation, **dict(zip(PLAIN, map(quoted, names), strict=True)))


def case(text: str, names: tuple[str, ...]) -> Case:
    """A query over a stream and a relation with these names."""
    k, a, b = names
    stream = Stream("s", ((k, "bigint"), (a, "bigint"), (b, "bigint")), ROWS)
    relation = Relation("r", ((k, "bigint"), (b, "string")), LABELS)
    return Case((stream,), (relation,), written(text, names), Cuts({"s": (4, 0, 5)}, cells=2))
