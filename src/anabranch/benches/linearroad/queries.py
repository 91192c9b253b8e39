"""The queries of Linear Road: the script `linear_road.cql`, for roads of any size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import InternalError

FILE = Path(__file__).with_name("linear_road.cql")
VIEW = re.compile(r"Create View (\w+) As(.*?);", re.DOTALL)
COMMENT = re.compile(r"\s*--[^\n]*")

MANY_ONE = ("CurCarSeg", "AccSeg", "SegToll", "TollStr", "CarExitStr", "NegTollStr", "AccBalOutStr")
SPATIAL = ("AccAhead", "AccNotifyStr", "AccEntryNotifyStr", "AccClearStr")
MANY_MANY = ("ExpOutStr",)
"""The blocks that join, by what meets what."""

ANSWERS = {
    "tolls": "TollStr",
    "refunds": "NegTollStr",
    "accidents": "AccNotifyStr",
    "entries": "AccEntryNotifyStr",
    "clear": "AccClearStr",
    "balances": "AccBalOutStr",
    "expenses": "ExpOutStr",
}
"""The queries of the script, and the blocks that they tell."""


@dataclass(frozen=True)
class Rules:
    """When a segment costs something, and what a car gets for leaving.

    A toll is twice the square of the cars above the crowd; there is none where an accident lies ahead.

    Parameters
    ----------
    crowd
        Cars; a segment with more of them may cost a toll.
    slow
        Miles per hour; a toll is due only below this average of five minutes.
    credit
        What a car gets back that leaves the road while an accident lies ahead.
    ahead
        Segments after the own one in which an accident counts.
    day
        Minutes; what was paid longer ago is no expense of the day.
    """

    crowd: int = 50
    slow: int = 40
    credit: int = 10
    ahead: int = 4
    day: int = 1440


def script(rules: Rules = Rules(), folder: Path | None = None) -> str:  # noqa: B008  a frozen value
    """The script, with other rules and another folder than those that are written in it.

    >>> "V.volume > 3 " in script(Rules(crowd=3))
    True
    """
    text = FILE.read_text(encoding="utf-8")
    if folder is not None:
        text = text.replace("path = 'linear-road", f"path = '{folder}")
    for phrase, written, wanted in (
        ("V.volume - {}", Rules.crowd, rules.crowd),
        ("V.volume > {}", Rules.crowd, rules.crowd),
        ("S.speed < {}", Rules.slow, rules.slow),
        ("{} As credit", Rules.credit, rules.credit),
        (".sid + {}", Rules.ahead, rules.ahead),
        ("Range {} Minutes] As T", Rules.day, rules.day),
    ):
        if phrase.format(written) not in text:
            raise InternalError(f"{FILE.name} says nowhere {phrase.format(written)!r}")
        text = text.replace(phrase.format(written), phrase.format(wanted))
    return text


def queries(rules: Rules = Rules()) -> dict[str, str]:  # noqa: B008  a frozen value
    """The blocks of the script by name, in the order of definition: each is a view for those after it.

    >>> list(queries())[:3]
    ['CurActiveCars', 'CurCarSeg', 'CarSegEntryStr']
    """
    return {name: COMMENT.sub("", text).strip() for name, text in VIEW.findall(script(rules))}


QUERIES = queries()
