"""How benches and reproductions state what they measured: bars with a value, a target, and whether it holds.

>>> bars = [at_least("plain Spark / ours", 3.4, 3, "medians of 5"), at_most("ours / best", 1.08, 1.05, "medians of 5")]
>>> print(table(bars))
bar                 value   target  holds  detail
------------------  -----  -------  -----  ------------
plain Spark / ours   3.40  >= 3.00    yes  medians of 5
ours / best          1.08  <= 1.05     NO  medians of 5
>>> exit_code(bars)
3
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.tables import text_table

ALL_HOLD, SOME_FALL_SHORT = 0, 3


@dataclass(frozen=True)
class Bar:
    """One measured claim."""

    bar: str
    value: float
    target: str
    holds: bool
    detail: str


def at_least(bar: str, value: float, limit: float, detail: str = "") -> Bar:
    """A bar that holds from a limit upwards."""
    return Bar(bar, round(float(value), 4), f">= {limit:.2f}", bool(value >= limit), detail)


def at_most(bar: str, value: float, limit: float, detail: str = "") -> Bar:
    """A bar that holds up to a limit."""
    return Bar(bar, round(float(value), 4), f"<= {limit:.2f}", bool(value <= limit), detail)


def informed(bar: str, value: float, detail: str = "") -> Bar:
    """A figure without a target, for comparison."""
    return Bar(bar, round(float(value), 4), "-", True, detail)


def table(bars: Sequence[Bar]) -> str:
    """The bars as aligned text."""
    rows = [(b.bar, f"{b.value:.2f}", b.target, "yes" if b.holds else "NO", b.detail) for b in bars]
    return text_table(("bar", "value", "target", "holds", "detail"), rows, left=("bar", "detail"))


def write_json(bars: Sequence[Bar], path: str | Path) -> None:
    """The bars as a JSON list."""
    Path(path).write_text(json.dumps([asdict(b) for b in bars], indent=2) + "\n")


def exit_code(bars: Sequence[Bar]) -> int:
    """0 when all bars hold, 3 when some fall short."""
    return ALL_HOLD if all(b.holds for b in bars) else SOME_FALL_SHORT
