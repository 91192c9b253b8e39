"""Plots of hand-made reports: whose events they are, what is drawn where, and that nothing global is touched."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from anabranch.errors import MissingExtra
from anabranch.events import EffortChanged, Event, PilotDecided, Reordered, RoutesChanged, Started
from anabranch.filter_report import CallReport, FilterReport, PredicateReport, RouteReport
from anabranch.plot import Timeline, plot_report, timelines

AB, BA = ("a", "b"), ("b", "a")


def line(
    name: str, place: int, seen: int | None = 1000, passed: int | None = 400, cost: float | None = 2.0
) -> PredicateReport:
    dropped = None if seen is None or passed is None else seen - passed
    basis = "not measured" if seen is None else "all rows"
    return PredicateReport(name, "arrow", place, seen, passed, dropped, 0 if seen else None, seen, cost, basis)


def report_of(*predicates: PredicateReport, events: tuple[Event, ...] = (), rows: int = 1000) -> FilterReport:
    order = tuple(p.predicate for p in sorted(predicates, key=lambda p: p.place))
    return FilterReport("auto", order, predicates, rows, 1, None, 0.0, None, 0.0, 0.0, events)


def panel(figure: Figure, title: str) -> Axes:
    return next(axes for axes in figure.axes if axes.get_title(loc="left").startswith(title))


def label_of(axes: Axes, text: str) -> tuple[float, float]:
    return next(found.get_position() for found in axes.texts if found.get_text() == text)


def test_events_of_one_partition_stay_with_its_worker() -> None:
    events = [
        Started(0, "auto", AB, partition=0),
        Started(0, "auto", AB, partition=1),
        Reordered(64, "auto", AB, BA, partition=0),
        Reordered(128, "auto", BA, AB, partition=0),
        Reordered(64, "auto", AB, BA, partition=1),
    ]
    first, second = timelines(events)
    assert [order for _, order in first.steps] == [AB, BA, AB]
    assert second.steps == [(0, AB), (64, BA)]


def test_an_event_of_a_new_partition_goes_to_a_worker_whose_order_it_changes() -> None:
    events = [
        Started(0, "auto", AB, partition=0),
        Started(0, "auto", AB, partition=1),
        Reordered(64, "auto", AB, BA, partition=1),
        EffortChanged(70, "auto", "watching", 0.05, partition=1),
        Reordered(5000, "auto", BA, AB, partition=7),
    ]
    assert timelines(events)[1] == Timeline([(0, AB), (64, BA), (5000, AB)], partition=7)


def test_events_whose_beginning_is_gone_still_make_a_timeline() -> None:
    assert timelines([Reordered(900, "auto", AB, BA, partition=3)]) == [Timeline([(0, AB), (900, BA)], partition=3)]
    assert timelines([PilotDecided(0, "auto", AB, BA, 100)]) == [Timeline([(0, AB), (0, BA)])]


def test_lines_end_at_the_places_of_the_worker_that_decided_most() -> None:
    events = (
        Started(0, "auto", AB, partition=0),
        Started(0, "auto", AB, partition=1),
        Reordered(500, "auto", AB, BA, "rank of b", partition=1),
    )
    figure = plot_report(report_of(line("a", 2), line("b", 1), events=events, rows=2000))
    places = panel(figure, "How the order moved")
    assert label_of(places, "b")[1] == 1
    assert label_of(places, "a")[1] == 2
    assert places.get_xlim() == (0, 1000)
    assert "one of 2 workers" in places.get_xlabel()
    assert places.yaxis_inverted()
    a = places.get_lines()[0]
    assert np.asarray(a.get_xdata())[:2].tolist() == [0, 500]
    assert np.asarray(a.get_ydata())[:2].tolist() == [1, 1]


def test_stages_share_the_places_of_the_whole_filter() -> None:
    events = (
        PilotDecided(0, "auto", ("x", "y"), ("y", "x"), 100),
        Started(0, "auto", AB, partition=0),
        Reordered(500, "auto", AB, BA, partition=0),
    )
    figure = plot_report(report_of(line("a", 4), line("b", 3), line("x", 2), line("y", 1), events=events))
    places = panel(figure, "How the order moved")
    assert [label_of(places, name)[1] for name in ("y", "x", "b", "a")] == [1, 2, 3, 4]


def test_bars_split_what_was_seen_and_costs_are_logarithmic() -> None:
    figure = plot_report(report_of(line("cheap", 1, cost=0.5), line("dear", 2, seen=400, passed=100, cost=5000.0)))
    bars = panel(figure, "Passed").patches
    assert sorted(bar.get_width() for bar in bars) == [0, 0, 100, 300, 400, 600]  # type: ignore[attr-defined]
    assert {"40% pass", "25% pass"} <= {text.get_text() for text in panel(figure, "Passed").texts}
    costs = panel(figure, "Cost")
    assert costs.get_xscale() == "log"
    assert {text.get_text() for text in costs.texts} == {"0.5", "5,000"}


def test_orders_of_routes_are_not_those_of_all_rows() -> None:
    lines = ("zone in ('north'): a -> b", "all other rows: b -> a")
    events = (
        Started(0, "auto", AB, partition=0),
        Reordered(64, "auto", AB, BA, partition=0),
        RoutesChanged(200, "auto", ("all rows: b -> a",), "routes promise to save 20 %", partition=0, order=BA),
        RoutesChanged(300, "auto", lines, "one order took 1.5 times as long", partition=0, order=BA),
        Reordered(900, "auto", AB, BA, partition=0, route="zone in ('north')"),
    )
    assert timelines(events) == [Timeline([(0, AB), (64, BA), (300, ())], partition=0)]
    routes = [RouteReport(0.5, BA, 1.0, ("zone in ('north')",)), RouteReport(0.5, AB, 1.0)]
    report = report_of(line("a", 1), line("b", 2), events=events)
    marked = panel(plot_report(replace(report, routes=routes)), "How the order moved")
    assert marked.get_lines()[-1].get_xdata() == [300, 300]
    assert "routes from here on" in {text.get_text() for text in marked.texts}
    assert label_of(marked, "b")[0] < 320, "the name stands where the line ends"
    unrouted = panel(plot_report(replace(report, events=events[:3])), "How the order moved")
    assert "routes from here on" not in {text.get_text() for text in unrouted.texts}


def drawn(axes: Axes, number: int) -> list[tuple[float, float]]:
    """The points of a predicate's line, without those that are not drawn."""
    found = axes.get_lines()[number]
    points = zip(np.asarray(found.get_xdata()).tolist(), np.asarray(found.get_ydata()).tolist(), strict=True)
    return [(x, y) for x, y in points if y == y]


def test_no_order_is_drawn_while_rows_take_routes() -> None:
    lines = ("zone in ('north'): a -> b", "all other rows: b -> a")
    events = (
        Started(0, "auto", AB, partition=0),
        Started(0, "auto", AB, partition=1),
        RoutesChanged(300, "auto", lines, "one order took 1.5 times as long", partition=0, order=AB),
    )
    routed = panel(plot_report(report_of(line("a", 1), line("b", 2), events=events, rows=2000)), "How the order moved")
    assert drawn(routed, 0) == [(0, 1), (300, 1)]

    merged = RoutesChanged(600, "auto", ("all rows: b -> a",), "routes save nothing any more", partition=0, order=BA)
    report = report_of(line("a", 2), line("b", 1), events=(*events, merged), rows=2000)
    again = panel(plot_report(report), "How the order moved")
    assert [x for x, _ in drawn(again, 0)][:2] == [0, 300]
    assert all(x <= 300 or x >= 600 for x, _ in drawn(again, 0))
    assert drawn(again, 0)[-1] == (1000, 2)
    texts = {text.get_text() for text in again.texts}
    assert "routes" in texts
    assert "routes from here on" not in texts


def test_routes_are_arms_of_a_river_as_wide_as_their_share(tmp_path: Path) -> None:
    routes = [
        RouteReport(0.7, AB, 1.0, ("zone in ('north')",)),
        RouteReport(0.25, BA, 2.0, ("zone in ('south')",)),
        RouteReport(0.05, AB, None),
    ]
    figure = replace(report_of(line("a", 1), line("b", 2)), routes=routes).plot(str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").stat().st_size > 5000
    river = panel(figure, "Routes")
    arms = [arm.get_paths()[0].vertices for arm in river.collections if isinstance(arm, PolyCollection)]
    middle = [points[(points[:, 0] > 1) & (points[:, 0] <= 3)] for points in map(np.asarray, arms)]
    assert [np.ptp(points[:, 1]) for points in middle] == pytest.approx([0.7, 0.25, 0.05])
    tops = [points[:, 1].min() for points in middle]
    assert tops == sorted(tops)
    assert all(low + route.share < high for low, high, route in zip(tops, tops[1:], routes, strict=False))
    texts = [text.get_text() for text in river.texts]
    assert [t for t in texts if "%" in t] == ["70%  zone in ('north')", "25%  zone in ('south')", "5%  all rows"]
    assert [t for t in texts if "%" not in t] == ["a", "b", "b", "a", "a", "b"]


def test_one_route_is_no_river() -> None:
    figure = plot_report(replace(report_of(line("a", 1), line("b", 2)), routes=[RouteReport(1.0, AB, 1.0)]))
    assert not any(axes.get_title(loc="left").startswith("Routes") for axes in figure.axes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicates", [0, 1, 12])
def test_what_was_not_measured_is_said_and_drawn_without_a_warning(predicates: int, tmp_path: Path) -> None:
    lines = [line(f"a predicate with a long name, number {i}", i + 1, None, None, None) for i in range(predicates)]
    figure = report_of(*lines, rows=0).plot(str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").stat().st_size > 5000
    assert len([text for text in panel(figure, "Cost").texts if text.get_text() == "not measured"]) == predicates
    names = [text.get_text() for text in panel(figure, "How the order moved").texts]
    assert len(set(names)) == predicates
    assert all(len(name) <= 28 for name in names)


def test_no_window_system_and_no_global_state() -> None:
    program = (
        "import sys; from anabranch.plot import plot_report; from anabranch.filter_report import FilterReport;"
        "plot_report(FilterReport('auto', (), (), 0, 0, None, 0.0, None, 0.0, 0.0));"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anabranch\[plot\]'"):
        plot_report(report_of(line("a", 1)))


def test_what_calls_cost_stands_beside_the_written_order() -> None:
    called = CallReport("a", calls=10, hits=5, retries=0, tokens=100.0, money=2.0, unasked=0)
    plain = report_of(line("a", 1), line("b", 2))
    figure = plot_report(replace(plain, calls=(called, replace(called, predicate="b", money=1.0)), money_written=12.0))
    axes = panel(figure, "What calls cost: 75% saved")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["this order", "as written"]
    assert sum(bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)) == 15.0
    assert not [each for each in plot_report(plain).axes if each.get_title(loc="left").startswith("What calls")]
