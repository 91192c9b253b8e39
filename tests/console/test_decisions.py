"""What an order that was left would have cost since: from what was measured at decisions, as far as it was seen."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.console.decisions import FilterLog, cost_since
from anabranch.events import Event, Reordered
from anabranch.filter_report import FilterReport


def measured(rows: int, slow_seen: int, quick_seen: int, seconds: float) -> dict[str, Any]:
    """The slow one takes 9 us and passes half, the quick one takes 1 us and passes a tenth."""
    return {
        "rows": rows,
        "seconds": seconds,
        "evaluations": slow_seen + quick_seen,
        "predicates": [
            {"predicate": "slow", "seen": slow_seen, "passed": slow_seen // 2, "cost_us": 9.0},
            {"predicate": "quick", "seen": quick_seen, "passed": quick_seen // 10, "cost_us": 1.0},
        ],
    }


def test_what_was_paid_is_measured_and_what_the_old_order_takes_is_estimated() -> None:
    then, now = measured(1_000, 1_000, 500, 0.0095), measured(3_000, 1_200, 2_500, 0.0133)
    found = cost_since(["slow", "quick"], ["quick", "slow"], then, now)
    assert found is not None
    assert (found["rows"], found["calls"]) == (2_000, 2_200)
    assert found["seconds"] == pytest.approx(0.0038)
    assert found["calls_before"] == pytest.approx(2_200 * 1.5 / 1.1)
    assert found["seconds_before"] == pytest.approx(0.0038 * (9 + 0.5) / (1 + 0.9))


def test_nothing_is_said_where_nothing_is_known() -> None:
    now = measured(1_000, 1_000, 500, 0.01)
    assert cost_since(["slow", "quick"], ["quick", "slow"], now, now) is None
    assert cost_since(["slow"], ["quick", "slow"], measured(0, 0, 0, 0), now) is None
    unknown = measured(1_000, 1_000, 500, 0.01)
    unknown["predicates"][0]["cost_us"] = None
    assert cost_since(["slow", "quick"], ["quick", "slow"], measured(0, 0, 0, 0), unknown) is None


def changed(before: str, after: str) -> Event:
    return Reordered(at=10, before=tuple(before.split()), after=tuple(after.split()), reason="", policy="auto")


def test_a_decision_counts_until_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    at = iter([measured(1_000, 1_000, 500, 0.0095), measured(3_000, 1_200, 2_500, 0.0133)])
    monkeypatch.setattr("anabranch.console.decisions.measured", lambda report: next(at))
    log, events = FilterLog("f", clock=lambda: 0.0), [changed("slow quick", "quick slow")]

    def report() -> FilterReport:
        return None  # type: ignore[return-value]

    log.look(tuple(events), report)
    events.append(changed("quick slow", "slow quick"))
    log.look(tuple(events), report)
    found = log.since(measured(3_000, 1_200, 2_500, 0.0133))
    assert list(found) == [0]
    assert found[0]["rows"] == 2_000
    later = log.since(measured(4_000, 2_200, 3_000, 0.0233))
    assert later[0] == found[0]
    assert later[1]["rows"] == 1_000
