"""What notebooks show of reports, filters and events: well-formed HTML, escaped, that needs no other file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyspark")

import anabranch as ab
from anabranch.events import EffortChanged, Event, FilterEvent, Reordered, Started
from anabranch.filter_report import NOT_RUN, Events, FilterReport, PredicateReport, RouteReport
from anabranch.html import described
from anabranch.report_html import SHOWN_EVENTS

SVG = "{http://www.w3.org/2000/svg}svg"
ODD = "a<b> & 'c'"
EVENTS = Events(
    (
        Started(0, "auto", (ODD, "cheap"), partition=0),
        Reordered(64, "auto", (ODD, "cheap"), ("cheap", ODD), "rank of cheap", partition=0),
        EffortChanged(64, "auto", "watching", 0.05, "enough", partition=0),
    )
)
LINES = (
    PredicateReport(ODD, "arrow", 2, 1000, 600, 390, 10, 1010, 12.5, "all rows"),
    PredicateReport("cheap", "arrow", 1, 5000, 1000, 4000, 0, 5000, None, "all rows"),
)
REPORT = FilterReport("auto", ("cheap", ODD), LINES, 5000, 6010, 8000.0, 1.0, 2.0, 0.01, 0.001, EVENTS)


def tables(page: str) -> list[list[list[str]]]:
    """The texts of all cells, by table and row; a page that is not well-formed fails."""
    found = ET.fromstring(page).iter("table")
    return [[[cell.text or "" for cell in row] for row in table.iter("tr")] for table in found]


def test_a_report_has_its_predicates_its_sum_and_its_events() -> None:
    predicates, events = tables(REPORT._repr_html_())
    assert [row[0] for row in predicates] == ["predicate", "cheap", ODD]
    assert predicates[1:] == [
        ["cheap", "1", "2", "5,000", "1,000", "4,000", "0", "5,000", "-", "all rows"],
        [ODD, "2", "1", "1,000", "600", "390", "10", "1,010", "12.50 µs", "all rows"],
    ]
    assert events[2] == ["2", "0", "64", f"cheap → {ODD}", "rank of cheap"]
    sums = [p.text for p in ET.fromstring(REPORT._repr_html_()).iter("p")]
    assert sums == [REPORT.describe().splitlines()[-1]]


def test_a_report_has_the_picture_of_its_order() -> None:
    pytest.importorskip("matplotlib")
    page = REPORT._repr_html_()
    assert len(list(ET.fromstring(page).iter(SVG))) == 1
    assert not [mark for mark in ("src=", "<link", "<script", "<?xml") if mark in page]


def test_a_report_can_do_without_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = REPORT._repr_html_()
    assert len(tables(page)) == 2
    assert "<figure" not in page


def test_a_report_of_routes_has_a_table_of_them() -> None:
    routes = [RouteReport(0.75, ("cheap", ODD), 3.0, ("zone < 'm'",)), RouteReport(0.25, (ODD, "cheap"), None)]
    found = tables(replace(REPORT, routes=routes, events=())._repr_html_())
    assert found[1][1:] == [
        ["zone < 'm'", f"cheap → {ODD}", "75%", "3.00 µs"],
        ["all rows", f"{ODD} → cheap", "25%", "-"],
    ]


def test_a_report_before_anything_ran_says_so() -> None:
    page = ab.Filter(ab.predicate(bool, "a", name=ODD)).report()._repr_html_()
    assert tables(page)[0][1][-1] == NOT_RUN
    assert "no task has finished" in page


def test_many_events_are_cut() -> None:
    page = Events(EVENTS * 200)._repr_html_()
    assert len(tables(page)[0]) == SHOWN_EVENTS + 1
    assert f"<p>The first {SHOWN_EVENTS} are shown.</p>" in page


def kinds_of(base: type[Event] = Event) -> Iterator[type[Event]]:
    """All events that can happen."""
    for each in base.__subclasses__():
        if each is not FilterEvent:
            yield each
        yield from kinds_of(each)


@pytest.mark.parametrize("kind", list(kinds_of()))
def test_every_event_has_words_and_a_title_in_the_console(kind: type[Event]) -> None:
    values = {"str": "some text", "int": 3, "float": 0.5, "bool": True, "tuple[str, ...]": ("some text",)}
    what, why = described(kind(**{each.name: values[str(each.type).removesuffix(" | None")] for each in fields(kind)}))
    assert "some text" in what
    assert why
    page = Path(ab.__file__).with_name("console") / "static" / "decisions.js"
    assert f'{kind.__name__}: "' in page.read_text()


def test_a_filter_has_its_predicates_and_the_order() -> None:
    f = ab.Filter(
        "a < 3",
        ab.predicate(bool, "a", name=ODD, returns="double", test=bool, keep="k", kind="fallible", strict=True),
        ab.lookup("dst", {"x"}, pinned=True),
        policy="agreedy",
    )
    assert tables(f._repr_html_())[0][1:] == [
        ["a < 3", "Spark", "", "pure", ""],
        [ODD, "Python", "a", "fallible", "strict, keep='k'"],
        ["lookup(dst)", "look-up", "dst", "pure", "pinned"],
    ]
    (order,) = [p.text for p in ET.fromstring(f._repr_html_()).iter("p")]
    assert order == f"policy agreedy, order now: a < 3 → {ODD} → lookup(dst)"
    assert repr(f) == f"<filter, policy agreedy: a < 3, {ODD}, lookup(dst)>"
    assert (f.events(), type(f.events())) == ((), Events)


def test_show_prints_what_describe_returns(capsys: pytest.CaptureFixture[str]) -> None:
    REPORT.show()
    assert capsys.readouterr().out == REPORT.describe() + "\n" == f"{REPORT}\n"
