"""Tables of what is registered stay readable, however much that is."""

from __future__ import annotations

from anabranch.engine.showing import MOST_SHOWN, Listing

STATUSES = ("running", "paused")
MANY = Listing(("query", "status", "rows"), [(f"q_{n}", STATUSES[n % 4 == 0], str(n)) for n in range(10_000)])


def test_of_many_queries_some_are_shown_and_all_are_counted() -> None:
    lines = MANY.text().splitlines()
    assert len(lines) <= MOST_SHOWN + 4
    assert lines[-1].startswith(f"the first {MOST_SHOWN} of 10,000 (2,500 paused, 7,500 running); Like 'a%' shows")
    assert "of 10,000" in MANY.html()


def test_names_are_filtered_by_a_pattern() -> None:
    assert [row[0] for row in MANY.like("Q_123_").rows] == [f"q_{n}" for n in range(1230, 1240)]
    assert [row[0] for row in MANY.like("q_99%").rows] == [
        "q_99",
        *(f"q_{n}" for n in (*range(990, 1000), *range(9900, 10_000))),
    ]
    assert not MANY.like("alert%").rows
    assert "first" not in MANY.like("q_1").text()
