"""A report as a picture: how the order moved, what each predicate drops, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingExtra
from anabranch.events import Event, PilotDecided, Reordered, RoutesChanged, Started
from anabranch.filter_report import FilterReport, PredicateReport
from anabranch.river import draw_river, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Names = tuple[str, ...]

# The colours of Okabe and Ito, which anyone can tell apart; a ninth predicate begins again, dashed.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
DASHES = ("-", "--", ":", "-.")
PASSED, DROPPED, FAILED, ROUTED = "#475569", "#D3D9E2", "#D55E00", "#F1F6FB"
SLOPE = 0.012


@dataclass
class Timeline:
    """The orders that one worker used: the rows that it had processed when it took each one up.

    No order holds for all rows, `()`, where rows take routes.
    """

    steps: list[tuple[int, Names]]
    partition: int | None = None

    @property
    def order(self) -> Names:
        """The last order for all rows."""
        return next(order for _, order in reversed(self.steps) if order)

    @property
    def at(self) -> int:
        """Rows processed when it was taken up."""
        return self.steps[-1][0]


def timelines(events: Sequence[Event]) -> list[Timeline]:
    """The orders for all rows, told apart by worker; those of routes are left out, and none holds while there are some.

    Events name the partition, not the worker, and a worker processes many partitions, one after the other. So an event
    is given to the worker that last spoke of the partition, or else to one whose order it changes.

    >>> timelines([Started(0, "auto", ("a", "b"), partition=0), Started(0, "auto", ("a", "b"), partition=1),
    ...            Reordered(64, "auto", ("a", "b"), ("b", "a"), partition=1)])
    [Timeline(steps=[(0, ('a', 'b'))], partition=0), Timeline(steps=[(0, ('a', 'b')), (64, ('b', 'a'))], partition=1)]
    """
    found: list[Timeline] = []
    for event in events:
        if isinstance(event, Started):
            found.append(Timeline([(0, event.order)], event.partition))
        elif isinstance(event, PilotDecided) or (isinstance(event, Reordered) and not event.route):
            partition = event.partition if isinstance(event, Reordered) else None
            line = _whose(found, event.before, event.at, partition)
            if line is None:
                line = Timeline([(0, event.before)])
                found.append(line)
            line.steps.append((event.at, event.after))
            line.partition = partition
        elif isinstance(event, RoutesChanged):
            line = _whose(found, event.order, event.at, event.partition, any_order=True)
            order = () if len(event.routes) > 1 else event.order
            if line is not None and order != line.steps[-1][1]:
                line.steps.append((event.at, order))
                line.partition = event.partition
    return found


def plot_report(report: FilterReport) -> Figure:
    """Draw a report: places over time (of the worker that decided most), rows passed and dropped, cost per row.

    The figure belongs to no window and no global state: save it, or show it in a notebook.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", needed_for="plots of a report") from None
    lines = max(len(report.predicates), 2)
    arms = 0.8 + 0.7 * len(report.routes) if len(report.routes) > 1 else 0.0
    bills = 1.8 if report.calls else 0.0
    heights = [1.9 + 0.32 * lines, 1.1 + 0.3 * lines, *(height for height in (arms, bills) if height)]
    figure = Figure(figsize=(11, 0.6 + sum(heights)), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[call-arg, union-attr]
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    upper, lower = parts[:2]
    _draw_places(upper.subplots(), report)
    if arms:
        river = parts[2].subplots()
        draw_river(river, report.routes, {name: colour for name, (colour, _) in _colours(report).items()})
        _title(river, "Routes, as wide as their share of the rows")
    if bills:
        _draw_money(parts[-1].subplots(), report)
    rows, costs = lower.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    ordered = sorted(report.predicates, key=lambda p: p.place)
    _draw_rows(rows, ordered)
    _draw_costs(costs, ordered, _colours(report))
    return figure


def _whose(
    lines: Sequence[Timeline], before: Names, at: int, partition: int | None, *, any_order: bool = False
) -> Timeline | None:
    """The worker whose order was this one, or any order of these predicates."""
    alike: Callable[[Names], object] = frozenset if any_order else tuple
    fitting = [line for line in lines if alike(line.order) == alike(before) and line.at <= at]
    same = [line for line in fitting if line.partition == partition]
    return max(same or fitting, key=lambda line: line.at, default=None)


def _draw_places(axes: Axes, report: FilterReport) -> None:
    found = timelines(report.events)
    shown = _busiest(found)
    end = max([1, report.rows // max(1, len(found)), *(line.at for line in shown)])
    for name, (colour, dash) in _colours(report).items():
        line = next((line for line in shown if name in line.order), None)
        steps = [(0, float(_final_place(report, name)))] if line is None else _places(report, line, name)
        at, place = _sloped(steps, end)
        axes.plot(at, place, dash, color=colour, linewidth=2.4, solid_capstyle="round")
        last, known = [(x, y) for x, y in zip(at, place, strict=True) if not isnan(y)][-1]
        axes.text(last + end * 0.01, known, shortened(name), color=colour, va="center", fontweight="bold")
    axes.set_ylim(max(len(report.predicates), 1) + 0.5, 0.5)
    axes.set_yticks(range(1, len(report.predicates) + 1))
    axes.set_xlim(0, end)
    _count_rows(axes)
    for line in shown:
        _mark_routes(axes, line, end)
    axes.set_ylabel("place in the order")
    workers = f" (one of {len(found)} workers)" if len(found) > len(shown) else ""
    axes.set_xlabel(f"rows processed{workers}")
    _title(axes, f"How the order moved (policy {report.policy})")
    axes.grid(axis="y", color="#EEF0F3", linewidth=1)


def _mark_routes(axes: Axes, line: Timeline, end: float) -> None:
    """Where rows took routes, and no order held for all of them."""
    following = [at for at, _ in line.steps[1:]] + [None]
    for (begin, order), until in zip(line.steps, following, strict=True):
        if order:
            continue
        axes.axvspan(begin, end if until is None else until, color=ROUTED, zorder=0)
        axes.axvline(begin, color=PASSED, linewidth=1.2, linestyle=(0, (4, 3)))
        text = "routes from here on" if until is None else "routes"
        axes.annotate(text, (begin, 0.5), xytext=(6, -4), textcoords="offset points", va="top", color=PASSED)


def _draw_rows(axes: Axes, ordered: Sequence[PredicateReport]) -> None:
    widest = max((p.seen or 0 for p in ordered), default=0) or 1
    for y, p in enumerate(ordered):
        if p.seen is None:
            axes.text(widest * 0.01, y, p.basis, va="center", color="#6B7280")
            continue
        left = 0
        for count, colour in ((p.passed, PASSED), (p.errors, FAILED), (p.dropped, DROPPED)):
            axes.barh(y, count or 0, left=left, color=colour, height=0.66)
            left += count or 0
        share = f"{(p.passed or 0) / p.seen:.0%} pass" if p.seen else "no rows"
        sample = ", sampled" if p.basis == "sample" else ""
        axes.text(left + widest * 0.01, y, share + sample, va="center", fontsize=9, color="#374151")
    axes.set_yticks(range(len(ordered)), [shortened(p.predicate) for p in ordered])
    axes.set_ylim(max(len(ordered), 1) - 0.4, -0.6)
    axes.set_xlim(0, widest * 1.22)
    _count_rows(axes)
    axes.set_xlabel("rows seen")
    _title(axes, "Passed and dropped")
    _legend(axes, any(p.errors for p in ordered))


def _draw_costs(axes: Axes, ordered: Sequence[PredicateReport], colours: dict[str, tuple[str, str]]) -> None:
    known = [p.cost_us for p in ordered if p.cost_us]
    lowest, highest = min(known, default=1.0) / 3, max(known, default=1.0) * 4
    axes.set_xscale("log")
    axes.set_xlim(lowest, highest)
    for y, p in enumerate(ordered):
        if not p.cost_us:
            axes.text(lowest * 1.05, y, "not measured", va="center", color="#6B7280", fontsize=9)
            continue
        axes.barh(y, p.cost_us - lowest, left=lowest, color=colours[p.predicate][0], height=0.66)
        axes.text(p.cost_us * 1.08, y, _figure(p.cost_us), va="center", fontsize=9, color="#374151")
    _count_decades(axes)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("microseconds per row (log scale)")
    _title(axes, "Cost")


def _draw_money(axes: Axes, report: FilterReport) -> None:
    """What calls have cost, by predicate, and what they would have cost in the written order."""
    colours, left = _colours(report), 0.0
    for each in report.calls:
        axes.barh(0, each.money, left=left, color=colours[each.predicate][0], height=0.6)
        left += each.money
    bars = ["this order"]
    if report.money_written is not None:
        axes.barh(1, report.money_written, color=DROPPED, height=0.6)
        bars.append("as written")
    for y, money in enumerate([report.money, report.money_written][: len(bars)]):
        axes.text(money or 0.0, y, f" {_figure(money or 0.0)}", va="center", fontsize=9, color="#374151")
    axes.set_yticks(range(len(bars)), bars)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, max(report.money, report.money_written or 0.0, 1e-12) * 1.15)
    axes.set_xlabel("money")
    saved = (
        f": {report.money_saved / report.money_written:.0%} saved"
        if report.money_saved and report.money_written
        else ""
    )
    _title(axes, f"What calls cost{saved}")


def _busiest(lines: Sequence[Timeline]) -> list[Timeline]:
    """Of the workers of each stage, the one that decided most."""
    best: dict[frozenset[str], Timeline] = {}
    for line in lines:
        members = frozenset(line.order)
        if members not in best or len(line.steps) > len(best[members].steps):
            best[members] = line
    return list(best.values())


def _places(report: FilterReport, line: Timeline, name: str) -> list[tuple[int, float]]:
    """Places in the whole filter: a stage's predicates share the places that the report gives them; NaN on routes."""
    places = sorted(_final_place(report, member) for member in line.order)
    return [(at, places[order.index(name)] if order else nan) for at, order in line.steps]


def _final_place(report: FilterReport, name: str) -> int:
    return next((p.place for p in report.predicates if p.predicate == name), 1)


def _sloped(steps: Sequence[tuple[int, float]], end: float) -> tuple[list[float], list[float]]:
    """Points of a line that changes place along a short slope, so that crossing lines can be told apart."""
    at, place = [float(steps[0][0])], [float(steps[0][1])]
    for number, (begin, new) in enumerate(steps[1:], start=1):
        following = steps[number + 1][0] if number + 1 < len(steps) else end
        at += [float(begin), begin + min(SLOPE * end, max(0.0, (following - begin) * 0.8))]
        place += [place[-1], float(new)]
    return [*at, end], [*place, place[-1]]


def _colours(report: FilterReport) -> dict[str, tuple[str, str]]:
    names = [p.predicate for p in report.predicates]
    return {n: (PALETTE[i % len(PALETTE)], DASHES[i // len(PALETTE) % len(DASHES)]) for i, n in enumerate(names)}


def _legend(axes: Axes, errors: bool) -> None:
    from matplotlib.patches import Patch

    kinds = [("passed", PASSED), ("dropped", DROPPED), *([("failed", FAILED)] if errors else [])]
    handles = [Patch(color=colour, label=label) for label, colour in kinds]
    axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(kinds), frameon=False, fontsize=9
    )


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color="#111827")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9CA3AF")
    axes.tick_params(color="#9CA3AF", labelcolor="#374151", labelsize=9)


def _count_rows(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _count_decades(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
