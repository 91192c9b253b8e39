"""The statements of a script, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

from anabranch.model.names import quoted
from anabranch.model.stream_times import Arrival

Options: TypeAlias = tuple[tuple[str, str], ...]
Columns: TypeAlias = tuple[tuple[str, str], ...]  # name, type in Spark's SQL
Kind: TypeAlias = Literal["stream", "relation", "query", "view"]


@dataclass(frozen=True)
class CreateStream:
    """`Create Stream s (k Long, ts Timestamp) From 'csv' With (path = '...') Timestamp ts Skew 5 Seconds`.

    `skew_us`, `idle_us` and `retain_us` are microseconds; a stream without columns describes itself.
    `Timestamp Arrival` is `ARRIVAL`, and `Skew Auto` is None.
    """

    name: str
    columns: Columns
    format: str
    options: Options
    timestamp: str | Arrival
    skew_us: int | None = 0
    sequence: str | None = None
    idle_us: int | None = None
    retain_us: int | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateRelation:
    """`Create Relation r (k Long, label String) From 'csv' With (path = '...')`."""

    name: str
    columns: Columns
    format: str
    options: Options


@dataclass(frozen=True)
class RelationFromStream:
    """`Create Relation prices From Stream ticks Key (symbol)`: the latest row of a stream for every key."""

    name: str
    stream: str
    key: tuple[str, ...]

    @property
    def text(self) -> str:
        """The query that it is a view of."""
        by = ", ".join(map(quoted, self.key))
        return f"Select * From {quoted(self.stream)} [Partition By {by} Rows 1]"


@dataclass(frozen=True)
class InsertStatement:
    """`Insert Into limits Values ('s1', 4.0), ('s2', 5.0)`: rows of expressions in Spark's SQL."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DeleteStatement:
    """`Delete From limits Where sensor = 's1'`; without a condition all rows go."""

    name: str
    condition: str = "true"


@dataclass(frozen=True)
class SinkClause:
    """`Into 'parquet' With (path = '...')`."""

    format: str
    options: Options


@dataclass(frozen=True)
class CreateQuery:
    """`Create Query busy [For Each rule In limits] [From History] [Into 'parquet' With (...)] As Select ...`.

    `for_each` is the key of the rules and the relation that holds them. Behind all that, before `As`, may stand
    `With (constraints = 'exact', memory = '200 MB')`.
    """

    name: str
    text: str
    ast: exp.Query = field(compare=False, repr=False)
    from_history: bool = False
    sink: SinkClause | None = None
    for_each: tuple[str, str] | None = None
    constraints: str = "off"
    memory: str | None = None


@dataclass(frozen=True)
class CreateView:
    """`Create View v As Select ...`."""

    name: str
    text: str
    ast: exp.Query = field(compare=False, repr=False)


@dataclass(frozen=True)
class DropStatement:
    """`Drop Stream | Relation | Query | View name`."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Pause:
    """`Pause name`."""

    name: str


@dataclass(frozen=True)
class Resume:
    """`Resume name`."""

    name: str


@dataclass(frozen=True)
class Show:
    """`Show Queries | Streams | Relations | Views | Sharing | Memory | Advice`; `kind` is the lower-case word.

    `Explain Memory` is `Show Memory`. `Like 'alert%'` shows those alone whose names are like that.
    """

    kind: Literal["queries", "streams", "relations", "views", "sharing", "memory", "advice"]
    like: str | None = None


@dataclass(frozen=True)
class SelectStatement:
    """A query without a name."""

    text: str
    ast: exp.Query = field(compare=False, repr=False)


@dataclass(frozen=True)
class Explain:
    """`Explain name` or `Explain Select ...`; a query that is called memory needs quotes."""

    target: str | SelectStatement


Statement: TypeAlias = (
    CreateStream
    | CreateRelation
    | RelationFromStream
    | InsertStatement
    | DeleteStatement
    | CreateQuery
    | CreateView
    | DropStatement
    | Pause
    | Resume
    | Show
    | Explain
    | SelectStatement
)
