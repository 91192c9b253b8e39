"""What a filter is made of: native, Python and look-up predicates, and the order constraints among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from anabranch.calls.rules import CallRules
from anabranch.errors import QueryError, suggest

Kind = Literal["pure", "fallible", "volatile"]
Flavour = Literal["scalar", "pandas", "arrow", "pandas_iterator", "arrow_iterator"]


@dataclass(frozen=True)
class Predicate:
    """The part that all predicates share.

    Parameters
    ----------
    name
        How reports, events and errors call it; unique within a filter.
    kind
        `pure` predicates are reordered freely. An error of a `fallible` one counts only where no other predicate
        rejects the row. A `volatile` one is a barrier: it sees exactly the rows that it would see in the written
        order.
    strict
        Keep it behind the predicates written before it (its guards).
    pinned
        Keep it where it was written: behind those before it, ahead of those after it.
    """

    name: str
    kind: Kind = "pure"
    strict: bool = False
    pinned: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise QueryError(f"a predicate has name={self.name!r}", hint="a name is a string")
        if self.kind not in get_args(Kind):
            raise QueryError(
                f"predicate {self.name!r} has kind {self.kind!r}", hint=suggest(self.kind, get_args(Kind), "kinds")
            )

    @property
    def barrier(self) -> bool:
        """Whether nothing may move across it."""
        return self.pinned or self.kind == "volatile"

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that it reads, where known."""
        return ()

    @property
    def keeps(self) -> str | None:
        """Name of the column that it computes and carries to the output."""
        return None


@dataclass(frozen=True)
class NativePredicate(Predicate):
    """A Spark column expression or SQL text, left to Catalyst; its kind is found by analysis unless it was declared.

    So are `trivial` (it only compares), `has_python`, the `columns` that it reads, and its `sql` text; and `hidden`: it
    reads something that the DataFrame has no longer, or never had as a column (an aggregate, a file's metadata).
    """

    column: Any = None
    declared: bool = False
    trivial: bool = False
    has_python: bool = False
    hidden: bool = False
    columns: tuple[str, ...] = ()
    sql: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that analysis found."""
        return self.columns

    @property
    def findings(self) -> tuple[str | bool, ...]:
        """What analysis found on one input; on another the same expression may be able to fail."""
        return (self.kind, self.strict, self.trivial, self.has_python, self.hidden, *self.columns)


@dataclass(frozen=True)
class PythonPredicate(Predicate):
    """A Python function of some columns; see `anabranch.predicate`. With `calls`, it calls a model or a service."""

    function: Callable[..., Any] = field(default=lambda: None)
    columns: tuple[str, ...] = ()
    flavour: Flavour = "scalar"
    returns: Any = None
    keep: str | None = None
    test: Callable[[Any], Any] | None = None
    time_limit: float | None = None
    calls: CallRules | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The function's columns."""
        return self.columns

    @property
    def keeps(self) -> str | None:
        """The kept column, if any."""
        return self.keep


@dataclass(frozen=True)
class LookupPredicate(Predicate):
    """Membership of a column's value in a set or table; see `anabranch.lookup`."""

    column: str = ""
    values: Any = None
    on: str | None = None
    match: Literal["exact", "prefix"] = "exact"
    negate: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The looked-up column."""
        return (self.column,)


def as_kept(predicates: Sequence[Predicate], fold: Callable[[str], str] = str.lower) -> tuple[Predicate, ...]:
    """The predicates, which name kept columns in their own spelling; `fold` maps the spellings of a name to one.

    >>> reader, keeper = as_kept([PythonPredicate("top", columns=("Score",)), PythonPredicate("score", keep="score")])
    >>> reader.reads
    ('score',)
    """
    kept = {fold(p.keeps): p.keeps for p in predicates if p.keeps}
    return tuple(_reading(p, tuple(kept.get(fold(name), name) for name in p.reads)) for p in predicates)


def _reading(p: Predicate, columns: tuple[str, ...]) -> Predicate:
    if columns == p.reads:
        return p
    return replace(p, column=columns[0]) if isinstance(p, LookupPredicate) else replace(p, columns=columns)  # type: ignore[call-arg]


def require_unique_names(predicates: Sequence[Predicate]) -> None:
    """Names tell predicates apart in reports and events, and kept columns in the output."""
    for what, names in (
        ("name", [p.name for p in predicates]),
        ("kept column", [p.keeps for p in predicates if p.keeps]),  # the same in any case
    ):
        counted = Counter(name.lower() if what == "kept column" else name for name in names)
        twice = [name for name, times in counted.items() if times > 1]
        if twice:
            option = "keep" if what == "kept column" else "name"
            raise QueryError(f"two predicates have the {what} {twice[0]!r}", hint=f"give each its own {option}=...")


def constraints(predicates: Sequence[Predicate], *, strict: bool = False) -> frozenset[tuple[int, int]]:
    """Which predicates must run before which, as `(before, after)` positions in the written list.

    >>> score = PythonPredicate("score", columns=("text",), keep="s")
    >>> top = PythonPredicate("top", columns=("s",))
    >>> sorted(constraints([top, PythonPredicate("other"), score]))
    [(2, 0)]
    >>> sorted(constraints([PythonPredicate("guard"), PythonPredicate("inverse", kind="fallible", strict=True)]))
    [(0, 1)]
    """
    keeper = {p.keeps: i for i, p in enumerate(predicates) if p.keeps}
    edges = {(keeper[c], i) for i, p in enumerate(predicates) for c in p.reads if c in keeper and keeper[c] != i}
    for i, p in enumerate(predicates):
        if p.barrier or p.strict or (strict and p.kind == "fallible"):
            edges |= {(before, i) for before in range(i)}
        if p.barrier:
            edges |= {(i, after) for after in range(i + 1, len(predicates))}
    return frozenset(edges)


@dataclass(frozen=True)
class FilterStage:
    """A run of predicates for one executor: positions in the written list."""

    executor: Literal["catalyst", "arrow"]
    members: tuple[int, ...]


def stages(predicates: Sequence[Predicate], *, strict: bool = False) -> tuple[FilterStage, ...]:
    """Cut a written list into stages: native predicates first, as far as no constraint forbids it.

    >>> native = [NativePredicate("n1"), NativePredicate("n2")]
    >>> stages([PythonPredicate("p"), *native])
    (FilterStage(executor='catalyst', members=(1, 2)), FilterStage(executor='arrow', members=(0,)))
    >>> [s.members for s in stages([PythonPredicate("p", kind="volatile"), *native])]
    [(0,), (1, 2)]
    >>> stages([PythonPredicate("reader", columns=("k",)), PythonPredicate("keeper", keep="k")])
    (FilterStage(executor='arrow', members=(0, 1)),)
    >>> [s.members for s in stages([NativePredicate("reader", columns=("k",)), PythonPredicate("keeper", keep="k")])]
    [(1,), (0,)]
    """
    edges = constraints(predicates, strict=strict)
    left, cut = set(range(len(predicates))), list[FilterStage]()
    while left:
        stuck = True
        for executor in ("catalyst", "arrow"):
            fitting = {i for i in left if isinstance(predicates[i], NativePredicate) == (executor == "catalyst")}
            members = _unblocked(fitting, left, edges)
            if members:
                cut.append(FilterStage(executor, members))
                left, stuck = left.difference(members), False
        if stuck:
            raise _circle([predicates[i] for i in sorted(left)])
    return tuple(cut)


def _unblocked(fitting: Set[int], left: Set[int], edges: Set[tuple[int, int]]) -> tuple[int, ...]:
    """Those of one executor that need no predicate of the other one first, directly or not."""
    ready: set[int] = set()
    waits = {i: {before for before, after in edges if after == i and before in left} for i in fitting}
    while more := {i for i in fitting - ready if waits[i] <= ready}:
        ready |= more
    return tuple(sorted(ready))


def _circle(predicates: Sequence[Predicate]) -> QueryError:
    names = ", ".join(repr(p.name) for p in predicates)
    return QueryError(
        f"the predicates {names} depend on each other in a circle",
        hint="a kept column is computed before it is read, and nothing moves across a pinned or volatile predicate",
    )
