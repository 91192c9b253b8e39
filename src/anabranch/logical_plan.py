"""The logical plan of a continuous query: a tree of streams, windows, relational operators, and a way back to a stream.

Every node but a stream yields a relation, a bag of rows that varies with time. Columns carry names that are unique
within a query, so that no operator has to rename what it joins. Plans are data: they can be compared, hashed and
written down, and expressions are trees (`expressions.py`).

>>> packets = Scan("packets", "stream", (("dst", "dst_1"),))
>>> busy = Aggregate(Window(packets, span=60_000_000), ("dst_1",), (Aggregation("n_2", "count"),))
>>> busy.columns
('dst_1', 'n_2')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal, TypeAlias

from anabranch.expressions import Scalar as Scalar
from anabranch.model.time_units import in_words

StreamKind: TypeAlias = Literal["istream", "dstream", "rstream"]
SetKind: TypeAlias = Literal["union", "except", "intersect"]


@dataclass(frozen=True)
class Scan:
    """A stream or a relation, with the columns that the query reads under their unique names.

    A relation that is `changing` may have other rows at other times.
    """

    name: str
    kind: Literal["stream", "relation"]
    renamed: tuple[tuple[str, str], ...]  # (name in the source, unique name)
    changing: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for _, name in self.renamed)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """What it reads from."""
        return ()


@dataclass(frozen=True)
class Unary:
    """A node with one input whose columns it keeps."""

    input: Plan

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.input.columns

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """What it reads from."""
        return (self.input,)


@dataclass(frozen=True)
class WindowSpec:
    """What stands in the brackets behind a stream; without limits the window holds all rows so far.

    Binder and rewrites ask it what kind of window it is: a kind is described here.

    Parameters
    ----------
    span
        `[Range T]`: rows of the last `span` microseconds; 0 is `[Now]`.
    rows
        `[Rows N]`: the latest `rows` rows, per partition.
    partition
        Columns of `[Partition By ...]`.
    slide
        Microseconds: the window moves at multiples of it only.
    slide_rows
        `[Rows N Slide M]`: the window moves after every M-th row of a partition only.
    """

    span: int | None = None
    rows: int | None = None
    partition: tuple[str, ...] = ()
    slide: int | None = None
    slide_rows: int | None = None

    @property
    def unbounded(self) -> bool:
        """Whether rows never leave it."""
        return self.span is None and self.rows is None

    @property
    def limits(self) -> tuple[int | None, ...]:
        """All its numbers: windows with equal ones over the same partitions are equal."""
        return tuple(getattr(self, each.name) for each in fields(WindowSpec) if each.name != "partition")

    @property
    def by_time(self) -> bool:
        """Whether a row's own time says when it enters and leaves, whatever other rows there are."""
        return self.rows is None

    def describe(self) -> str:
        """The window in words.

        >>> WindowSpec(rows=5, partition=("k",), slide=60_000_000).describe()
        'partition by k rows 5 slide 1 minute'
        """
        parts = [f"partition by {', '.join(self.partition)}"] if self.partition else []
        if self.rows is not None:
            parts.append(f"rows {self.rows}")
        if self.span is not None:
            parts.append("now" if self.span == 0 else f"range {in_words(self.span)}")
        if self.unbounded:
            parts.append("unbounded")
        if self.slide is not None:
            parts.append(f"slide {in_words(self.slide)}")
        if self.slide_rows is not None:
            parts.append(f"slide {self.slide_rows} rows")
        return " ".join(parts)


@dataclass(frozen=True)
class Window(WindowSpec, Unary):
    """A stream seen as a relation: `input` is a scan of a stream, or a plan that ends in `ToStream`."""

    @classmethod
    def of(cls, stream: Plan, spec: WindowSpec, partition: tuple[str, ...]) -> Window:
        """A window over a stream, with the unique names of the columns that partition it."""
        return cls(stream, **{**vars(spec), "partition": partition})


@dataclass(frozen=True)
class Filter(Unary):
    """Rows for which all conditions are true."""

    conditions: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class Project(Unary):
    """Computed columns, duplicates preserved."""

    items: tuple[tuple[str, Scalar], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.items)


@dataclass(frozen=True)
class Join:
    """Combinations of rows, one of each input, that agree on the keys; NULL agrees with nothing.

    Each key is a class of columns that are equal to one another: pairs of an input's number and one of its columns. An
    input has at most one column in a class. Without keys it is the cross product.

    `leading` are inputs in the order in which the user wants rows of the others to look for partners in them; where it
    is empty the order follows the data.
    """

    inputs: tuple[Plan, ...]
    keys: tuple[tuple[tuple[int, str], ...], ...] = ()
    leading: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for each in self.inputs for name in each.columns)


@dataclass(frozen=True)
class Member:
    """Rows of `input` with (negated: without) a row of `other` that agrees on all pairs of columns.

    NULL agrees with nothing, as in `Exists`; a binder that means `Not In` adds what that says of NULLs.
    """

    input: Plan
    other: Plan
    pairs: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.input.columns

    @property
    def inputs(self) -> tuple[Plan, ...]:
        """What it reads from."""
        return (self.input, self.other)


@dataclass(frozen=True)
class Aggregation:
    """One aggregate: `count` without an argument counts rows.

    `function` is a name in the table `operators.aggregate_functions.FUNCTIONS`; `parameter` is the fraction of a
    quantile. An aggregate over distinct values sees each value once.
    """

    name: str
    function: str
    argument: str | None = None
    distinct: bool = False
    parameter: float | None = None


@dataclass(frozen=True)
class Aggregate(Unary):
    """A row per group; without keys one row, also where the input is empty. NULLs are a group."""

    keys: tuple[str, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*self.keys, *(each.name for each in self.aggregations))


@dataclass(frozen=True)
class Distinct(Unary):
    """Each row once; NULLs are equal."""


@dataclass(frozen=True)
class SetOperation:
    """Union, Except, Intersect, as bags (`all`) or as sets; columns agree by place, named after the first input."""

    kind: SetKind
    all: bool
    inputs: tuple[Plan, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.inputs[0].columns


@dataclass(frozen=True)
class ToStream(Unary):
    """What enters the relation, what leaves it, or all of it at every instant of its inputs."""

    kind: StreamKind = "istream"


Plan: TypeAlias = Scan | Window | Filter | Project | Join | Member | Aggregate | Distinct | SetOperation | ToStream


@dataclass(frozen=True)
class Query:
    """A bound query.

    Parameters
    ----------
    name
        Under which it is registered.
    plan
        Ends in `ToStream` if the answer is a stream, else the answer is a relation.
    output
        Names of the answer's columns, in the order of `plan.columns`.
    text
        As the user wrote it.
    """

    name: str
    plan: Plan
    output: tuple[str, ...]
    text: str = field(default="", compare=False)

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream."""
        return isinstance(self.plan, ToStream)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that it reads, each once."""
        return tuple(scans(self.plan, "stream"))

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Names of the relations that it reads, each once."""
        return tuple(scans(self.plan, "relation"))


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan's nodes, inputs first."""
    for each in plan.inputs:
        yield from walk(each)
    yield plan


def scans(plan: Plan, kind: str) -> list[str]:
    """Names of the streams or relations that a plan reads, each once."""
    return list(dict.fromkeys(node.name for node in walk(plan) if isinstance(node, Scan) and node.kind == kind))


def scalars(plan: Plan) -> Iterator[Scalar]:
    """The expressions of a plan's nodes, inputs first."""
    for node in walk(plan):
        match node:
            case Filter():
                yield from node.conditions
            case Project():
                yield from (scalar for _, scalar in node.items)
            case _:
                pass


def user_functions(plan: Plan) -> set[str]:
    """The functions of the user's that a plan calls."""
    return {name for scalar in scalars(plan) for name in scalar.functions}
