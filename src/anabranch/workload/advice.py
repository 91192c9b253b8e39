"""Advice: what a change of queries or streams would save, given all of them.

>>> from anabranch.cql import Catalog, bind
>>> catalog = Catalog(streams={"packets": ("dst", "size")})
>>> text = "Select dst, Max(size) As n From packets [Range {} Minutes] Group By dst"
>>> queries = [bind(text.format(minutes), catalog, f"q{minutes}") for minutes in (10, 8)]
>>> print(advise(Workload(queries)))
1. equal windows: q10, q8
   groups of q10 and q8 would be shared if their windows were equal
   why: 8 minutes inside 10 minutes: 1 fewer operator
   change: in q8, write packets [Range 10 Minutes] instead of [Range 8 Minutes]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from html import escape

from anabranch import html
from anabranch.errors import MissingExtra
from anabranch.workload.equal_windows import equal_windows
from anabranch.workload.findings import Finding, Workload
from anabranch.workload.missing_slides import missing_slides
from anabranch.workload.query_features import QueryFeatures, features
from anabranch.workload.similar_queries import constant_queries, equal_queries
from anabranch.workload.unbounded_state import unbounded_state
from anabranch.workload.unread_columns import unread_columns
from anabranch.workload.workload_mix import Drift, mix_drifts

# What leaves answers as they are comes first, then what changes them; hints come last.
ADVISERS: tuple[Callable[[Workload], list[Finding]], ...] = (
    unread_columns,
    equal_windows,
    missing_slides,
    constant_queries,
    unbounded_state,
)
NOTHING = "nothing to change"


@dataclass(frozen=True)
class AdviceReport:
    """What was found, for people and programs.

    Parameters
    ----------
    findings
        One for each change.
    features
        What each query reads and does.
    drifts
        Where the mix of queries has changed, in the order in which they were registered.
    unexamined
        Why changes of the mix were not looked for, if they were not.
    """

    findings: tuple[Finding, ...]
    features: tuple[QueryFeatures, ...] = ()
    drifts: tuple[Drift, ...] = ()
    unexamined: str | None = None

    def show(self) -> None:
        """Print the findings."""
        print(self.describe())

    def describe(self) -> str:
        """The text that `show` prints; `str(report)` is the same."""
        lines = [] if self.findings else [NOTHING]
        for number, each in enumerate(self.findings, start=1):
            lines += [f"{number}. {each.kind}: {', '.join(each.queries)}", f"   {each.what}"]
            lines += [f"   why: {each.why}", f"   change: {each.change}"]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """Changes of the mix, a line each."""
        skipped = [] if self.unexamined is None else [f"changes of the mix of queries: {self.unexamined}"]
        return [*(f"the mix of queries has changed: {each}" for each in self.drifts), *skipped]

    def to_dict(self) -> dict[str, object]:
        """All of it as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        titles = ("advice", "queries", "what", "why", "change")
        rows = [(each.kind, ", ".join(each.queries), each.what, each.why, each.change) for each in self.findings]
        table = html.table(titles, rows, words=len(titles)) if rows else f"<p>{NOTHING}</p>"
        return f"<div>{table}{''.join(f'<p>{escape(note)}</p>' for note in self.notes())}</div>"


def advise(workload: Workload) -> AdviceReport:
    """All findings, with the features of the queries and changes of their mix.

    Of queries that are equal one is looked at further.
    """
    described = tuple(map(features, workload.queries))
    equal = equal_queries(workload)
    dropped = {name for finding in equal for name in finding.queries[1:]}
    rest = replace(workload, queries=[query for query in workload.queries if query.name not in dropped])
    found = (*equal, *(finding for adviser in ADVISERS for finding in adviser(rest)))
    try:
        return AdviceReport(found, described, tuple(mix_drifts(described)))
    except MissingExtra as missing:
        return AdviceReport(found, described, unexamined=f"{missing.what}: {missing.hint}")
