"""What a filter did: counts, costs and places of its predicates, and what the order saved."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingExtra
from anabranch.events import Event
from anabranch.tables import text_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


NOT_RUN = "not run yet"


class Events(tuple[Event, ...]):
    """The events of a filter or an engine, oldest first: a tuple that notebooks show as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from anabranch.report_html import event_table

        return f"<div>{event_table(self)}</div>"


@dataclass(frozen=True)
class PredicateReport:
    """One predicate's line.

    `seen`, `passed`, `dropped` and `errors` count rows in normal processing; `calls` counts every row that the
    predicate ran on, profiling included. `basis` says whether the counts are of all rows, of a sample (native
    predicates are measured on samples, so that data sources can still use them), or not measured at all.
    """

    predicate: str
    executor: str
    place: int
    seen: int | None
    passed: int | None
    dropped: int | None
    errors: int | None
    calls: int | None
    cost_us: float | None
    basis: str


@dataclass(frozen=True)
class RouteReport:
    """One route: the share of rows that took it, the order of predicates on it, its cost per row, and its tests.

    `tests` are alternatives; a row takes the route if one of them holds. No tests mean all (other) rows. `cost_us` is
    what Python predicates take for a row that reaches them, with profiling.
    """

    share: float
    order: tuple[str, ...]
    cost_us: float | None
    tests: tuple[str, ...] = ()

    def __str__(self) -> str:
        cost = "" if self.cost_us is None else f", {self.cost_us:.1f} us per row"
        return f"{self.share:.0%} of rows{cost}: {' or '.join(self.tests) or 'all rows'}: {' -> '.join(self.order)}"


@dataclass(frozen=True)
class CallReport:
    """What a predicate has called, and what that cost.

    `calls` counts answered calls, `hits` rows that needed none, as an equal one was answered before, `unasked` those
    that the budget did not suffice for.
    """

    predicate: str
    calls: int
    hits: int
    retries: int
    tokens: float
    money: float
    unasked: int


@dataclass(frozen=True)
class FilterReport:
    """The state of a filter, for people and programs.

    Parameters
    ----------
    policy, order
        The policy and the order of predicates in use now.
    predicates
        One line per predicate, as written.
    rows
        Rows that reached the Python predicates.
    evaluations, evaluations_written
        Predicate evaluations spent on them, and what the written order would have spent (estimated from profiled rows;
        `None` where the policy keeps no full profiles).
    seconds, seconds_written
        The same in seconds of predicate time.
    profiling_share, deciding_share
        Parts of the predicate time spent on trying dropped rows further, and on decisions.
    events
        All decisions so far.
    routes
        The routes that rows take now; one where all rows share an order.
    calls
        One line per predicate that calls a model or a service.
    money_written
        What calls would have cost in the written order, estimated as `seconds_written` is.
    """

    policy: str
    order: tuple[str, ...]
    predicates: tuple[PredicateReport, ...]
    rows: int
    evaluations: int
    evaluations_written: float | None
    seconds: float
    seconds_written: float | None
    profiling_share: float
    deciding_share: float
    events: tuple[Event, ...] = ()
    routes: list[RouteReport] = field(default_factory=list)
    calls: tuple[CallReport, ...] = ()
    money_written: float | None = None

    @property
    def evaluations_saved(self) -> float | None:
        """Evaluations that the written order would have spent on top."""
        return None if self.evaluations_written is None else self.evaluations_written - self.evaluations

    @property
    def seconds_saved(self) -> float | None:
        """Predicate time that the written order would have spent on top."""
        return None if self.seconds_written is None else self.seconds_written - self.seconds

    @property
    def money(self) -> float:
        """What calls have cost."""
        return sum(each.money for each in self.calls)

    @property
    def money_saved(self) -> float | None:
        """Money that the written order would have spent on top."""
        return None if self.money_written is None else self.money_written - self.money

    def to_pandas(self) -> pd.DataFrame:
        """One row per predicate."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "spark", needed_for="report().to_pandas()") from None
        return pd.DataFrame([asdict(p) for p in self.predicates])

    def show(self) -> None:
        """Print the table of predicates, the routes, and what the order saved."""
        print(self.describe())

    def describe(self) -> str:
        """The text that `show` prints; `str(report)` is the same."""
        titles = ("predicate", "place", "seen", "passed", "dropped", "errors", "calls", "cost us", "basis")
        lines = [
            [
                _cell(each)
                for each in (p.predicate, p.place, p.seen, p.passed, p.dropped, p.errors, p.calls, p.cost_us, p.basis)
            ]
            for p in sorted(self.predicates, key=lambda p: p.place)
        ]
        routes = ["", *(f"route {n}: {r}" for n, r in enumerate(self.routes, 1))] if len(self.routes) > 1 else []
        return "\n".join(
            [text_table(titles, lines, left=["predicate"]), *routes, *self._call_table(), "", *self.summary()]
        )

    def _call_table(self) -> list[str]:
        if not self.calls:
            return []
        titles = [f.name for f in fields(CallReport)]
        lines = [[_money(v) if isinstance(v, float) else _cell(v) for v in astuple(each)] for each in self.calls]
        return ["", text_table(titles, lines, left=["predicate"])]

    def summary(self) -> list[str]:
        """What the order saved, in a line, and another where nothing was counted."""
        return [self._savings(), *self._missing()]

    def plot(self, path: str | None = None) -> Figure:
        """Draw how the order moved, and what each predicate costs and drops; save it where a path is given."""
        from anabranch.plot import plot_report

        figure = plot_report(self)
        if path is not None:
            figure.savefig(path)
        return figure

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        """Tables, and the picture of the order, for notebooks."""
        from anabranch.report_html import report_html

        return report_html(self)

    def _savings(self) -> str:
        parts = [f"policy {self.policy}", f"{self.rows:,} rows", f"{self.evaluations:,} evaluations"]
        if self.evaluations_saved is not None and self.evaluations_written:
            share = self.evaluations_saved / self.evaluations_written
            parts.append(f"{self.evaluations_saved:,.0f} saved against the written order ({share:.0%})")
        if self.calls:
            parts.append(f"money {_money(self.money)}")
            if self.money_saved is not None and self.money_written:
                parts.append(f"{_money(self.money_saved)} saved ({self.money_saved / self.money_written:.0%})")
        if self.seconds_saved is not None:
            parts.append(f"{self.seconds_saved:.2f} s of predicate time saved")
        return ", ".join(parts)

    def _missing(self) -> list[str]:
        if all(p.basis != NOT_RUN for p in self.predicates):
            return []
        return ["no task has finished: there were no rows, or show(), take() or limit() stopped early (not counted)"]


def _money(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".") if value < 100 else f"{value:,.2f}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else _shortened(str(value))


def _shortened(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
