"""What a join has found out about its inputs, and what it has made of it, for people and programs.

>>> used = Followed("rids", 0, 1, 2_000_000.0)
>>> one = ConstraintReport("exact", rows=10, aside=90, keys=(KeyFound(1, ("pid",), True),), used=(used,))
>>> print(*one.lines(("calls", "hosts")), sep="\\n")
constraints: exact, 10 rows kept, 90 set aside
  hosts (pid): a key, declared
  rows of calls wait for hosts for 2 s at most
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.constraints.config import Kind, Mode

SAID: dict[Kind, str] = {
    "rids": "rows of {0} wait for {1} for {k} at most",
    "ca": "rows of {0} with one value for {1} come within {k}",
    "oap": "{0} comes in the order of its values for {1}, within {k}",
    "oac": "{1} comes in the order of its values for {0}, within {k}",
}


@dataclass(frozen=True)
class KeyFound:
    """Columns of an input that are a key."""

    input: int
    columns: tuple[str, ...]
    declared: bool

    def words(self, names: Sequence[str]) -> str:
        """In words."""
        how = "declared" if self.declared else "observed"
        return f"{names[self.input]} ({', '.join(self.columns)}): a key, {how}"


@dataclass(frozen=True)
class Followed:
    """A constraint that is used: its kind, between which inputs, and its k in microseconds."""

    kind: Kind
    input: int
    partner: int
    k: float

    def words(self, names: Sequence[str]) -> str:
        """In words."""
        return SAID[self.kind].format(names[self.input], names[self.partner], k=f"{self.k / 1e6:.3g} s")


@dataclass(frozen=True)
class ConstraintChange:
    """A key or a constraint is used from now on, or not any more."""

    found: KeyFound | Followed
    adopted: bool


@dataclass(frozen=True)
class ConstraintReport:
    """Of one join in one cell, or in all of them together.

    Parameters
    ----------
    mode
        As the query has it.
    idle
        Why nothing is looked for, if so.
    rows
        Kept in memory.
    aside
        Set aside on disk.
    aside_bytes
        Of what is set aside, on disk.
    forgotten
        So far, with `discard`.
    rescued
        Results so far that needed a row which had been set aside.
    missing
        About how many results are missing, with `discard`.
    keys, used
        What holds now.
    changes
        Since the last report.
    """

    mode: Mode
    idle: str = ""
    rows: int = 0
    aside: int = 0
    aside_bytes: int = 0
    forgotten: int = 0
    rescued: int = 0
    missing: float = 0.0
    keys: tuple[KeyFound, ...] = ()
    used: tuple[Followed, ...] = ()
    changes: tuple[ConstraintChange, ...] = ()

    def together(self, other: ConstraintReport) -> ConstraintReport:
        """With that of another cell; of a constraint the larger k counts."""
        largest: dict[tuple[str, int, int], Followed] = {}
        for each in sorted((*self.used, *other.used), key=lambda each: each.k):
            largest[each.kind, each.input, each.partner] = each
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("rows", "aside", "aside_bytes", "forgotten", "rescued", "missing")
        }
        keys = tuple(dict.fromkeys((*self.keys, *other.keys)))
        return replace(self, **sums, idle=self.idle and other.idle, keys=keys, used=tuple(largest.values()), changes=())

    def lines(self, names: Sequence[str]) -> list[str]:
        """In words, with the names of the inputs."""
        if self.idle:
            return [f"constraints: {self.mode}, but none is looked for: {self.idle}"]
        head = f"constraints: {self.mode}, {self.rows:,} rows kept"
        if self.mode == "exact":
            head += f", {self.aside:,} set aside" + (f", {self.rescued:,} results needed one" if self.rescued else "")
        else:
            head += f", {self.forgotten:,} forgotten"
            head += f", about {self.missing:,.0f} results missing" if self.missing else ""
        found: list[KeyFound | Followed] = [*self.keys, *self.used]
        return [head, *(f"  {each.words(names)}" for each in found)]
