"""The answers to the queries of Linear Road, by a simulation with dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Set
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa

from anabranch.benches.linearroad.inputs import SECOND, Inputs
from anabranch.benches.linearroad.queries import Rules

Row: TypeAlias = tuple[int | str, ...]
Report: TypeAlias = tuple[int, int, int, int, int]
"""Time, car, speed, place and segment."""

RELATIONS = ("CurCarSeg", "AccSeg", "SegToll")
STREAMS = (
    "CarExitStr",
    "TollStr",
    "NegTollStr",
    "AccNotifyStr",
    "AccEntryNotifyStr",
    "AccClearStr",
    "AccBalOutStr",
    "ExpOutStr",
)
MINUTE = 60 * SECOND
ACTIVE = 30 * SECOND
SPEED_WINDOW = 300 * SECOND
NOWHERE = -1


class _Road:
    """What is known at an instant: the last reports, who is active, how full and how fast each segment is."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.segment_of: dict[int, int] = {}
        self.last_segment: dict[int, int] = {}
        self.volume: Counter[int] = Counter()
        self._last_time: dict[int, int] = {}
        self._places: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=4))
        self._stopped: set[int] = set()
        self._recent: deque[tuple[int, int]] = deque()
        self._speeds: deque[tuple[int, int, int]] = deque()
        self._total: Counter[int] = Counter()
        self._count: Counter[int] = Counter()

    def move_to(self, t: int, reports: Iterable[Report]) -> dict[int, tuple[int, int]]:
        """Forget what is too old and take in what arrives; for the cars that moved, the segments before and now."""
        before: dict[int, int] = {}
        self._forget(t, before)
        for report in reports:
            self._take(report, before)
        moved = {cid: (old, self.segment_of.get(cid, NOWHERE)) for cid, old in before.items()}
        for old, new in moved.values():
            self.volume[old] -= 1
            self.volume[new] += 1
        return {cid: change for cid, change in moved.items() if change[0] != change[1]}

    def _forget(self, t: int, before: dict[int, int]) -> None:
        while self._recent and self._recent[0][0] < t - ACTIVE:
            time, cid = self._recent.popleft()
            if self._last_time[cid] == time:
                before[cid] = self.segment_of.pop(cid)
        while self._speeds and self._speeds[0][0] < t - SPEED_WINDOW:
            _, sid, speed = self._speeds.popleft()
            self._total[sid] -= speed
            self._count[sid] -= 1

    def _take(self, report: Report, before: dict[int, int]) -> None:
        t, cid, speed, xpos, sid = report
        before.setdefault(cid, self.segment_of.get(cid, NOWHERE))
        self.segment_of[cid] = self.last_segment[cid] = sid
        self._last_time[cid] = t
        self._recent.append((t, cid))
        self._speeds.append((t, sid, speed))
        self._total[sid] += speed
        self._count[sid] += 1
        self._places[cid].append(xpos)
        still = len(self._places[cid]) == 4 and len(set(self._places[cid])) == 1
        (self._stopped.add if still else self._stopped.discard)(cid)

    def accidents(self) -> set[int]:
        """Segments with an active car whose last four reports came from the same place."""
        return {self.segment_of[cid] for cid in self._stopped if cid in self.segment_of}

    def ahead_of(self, sid: int, accidents: set[int]) -> list[int]:
        """The accidents in this segment and in those ahead."""
        return [ahead for ahead in range(sid, sid + self.rules.ahead + 1) if ahead in accidents]

    def notices(self, accidents: set[int], t: int) -> Counter[Row]:
        """What is to be said of accidents, to each car that drives towards them."""
        cars = self.segment_of.items() if accidents else ()
        return Counter((cid, ahead, t) for cid, sid in cars for ahead in self.ahead_of(sid, accidents))

    def tolls(self, accidents: set[int]) -> dict[int, int]:
        """The toll of each segment that has one."""
        crowd, slow = self.rules.crowd, self.rules.slow
        full = ((sid, cars - crowd) for sid, cars in self.volume.items() if cars > crowd and sid != NOWHERE)
        return {
            sid: 2 * excess**2
            for sid, excess in full
            if self._total[sid] < slow * self._count[sid] and not self.ahead_of(sid, accidents)
        }


class _Accounts:
    """What cars have paid and got back."""

    def __init__(self, rules: Rules) -> None:
        self._day = rules.day * MINUTE
        self.balance: dict[int, int] = {}
        self._booked: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def book(self, cid: int, credit: int, t: int) -> None:
        """Money for a car, or from it."""
        self.balance[cid] = self.balance.get(cid, 0) + credit
        self._booked[cid].append((t, credit))

    def spent(self, cid: int, t: int) -> int | None:
        """In the last day; None if nothing was booked in it."""
        found = [credit for time, credit in self._booked[cid] if time >= t - self._day]
        return -sum(found) if found else None


def validate(given: Inputs, rules: Rules = Rules()) -> dict[str, Counter[Row]]:  # noqa: B008  a frozen value
    """The answers to the queries at all instants up to the last report, times in microseconds.

    Of streams the rows, each followed by its time. Of the relations *CurCarSeg*, *AccSeg* and *SegToll*, the changes:
    rows followed by the time and by ``+`` or ``-``.
    """
    answers: dict[str, Counter[Row]] = {name: Counter() for name in (*RELATIONS, *STREAMS)}
    road, accounts, accidents, tolls = _Road(rules), _Accounts(rules), set[int](), dict[int, int]()
    balances, expenses = _by_time(given.balances, "qid", "cid"), _by_time(given.expenses, "qid", "cid")
    for t, arrived in _instants(given.cars, {*balances, *expenses}):
        moved = road.move_to(t, arrived)
        old_accidents, accidents = accidents, road.accidents()
        old_tolls, tolls = tolls, road.tolls(accidents)
        _log(answers["AccSeg"], t, {(s,) for s in old_accidents}, {(s,) for s in accidents})
        _log(answers["SegToll"], t, set(old_tolls.items()), set(tolls.items()))
        answers["AccNotifyStr"] += road.notices(accidents - old_accidents, t)
        answers["AccClearStr"] += road.notices(old_accidents - accidents, t)
        for cid, (old, new) in moved.items():
            _log(answers["CurCarSeg"], t, {(cid, old)} - {(cid, NOWHERE)}, {(cid, new)} - {(cid, NOWHERE)})
            if new == NOWHERE:
                last = road.last_segment[cid]
                answers["CarExitStr"][cid, last, t] += 1
                if road.ahead_of(last, accidents):
                    answers["NegTollStr"][cid, last, rules.credit, t] += 1
                    accounts.book(cid, rules.credit, t)
                continue
            answers["AccEntryNotifyStr"].update((cid, ahead, t) for ahead in road.ahead_of(new, accidents))
            if new in tolls:
                answers["TollStr"][cid, new, tolls[new], t] += 1
                accounts.book(cid, -tolls[new], t)
        answers["AccBalOutStr"].update((q, c, accounts.balance[c], t) for q, c in balances[t] if c in accounts.balance)
        answers["ExpOutStr"].update((q, c, n, t) for q, c in expenses[t] if (n := accounts.spent(c, t)) is not None)
    return answers


def relation_at(changes: Mapping[Row, int], t: int) -> Counter[Row]:
    """A relation at an instant, from its changes."""
    rows: Counter[Row] = Counter()
    for (*row, time, sign), n in changes.items():
        if int(time) <= t:
            rows[tuple(row)] += n if sign == "+" else -n
    return +rows


def _log(changes: Counter[Row], t: int, before: Set[tuple[int, ...]], after: Set[tuple[int, ...]]) -> None:
    changes.update((*row, t, "-") for row in before - after)
    changes.update((*row, t, "+") for row in after - before)


def _by_time(table: pa.Table, *names: str) -> defaultdict[int, list[tuple[int, ...]]]:
    found: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
    times = table["ts"].cast(pa.int64()).to_pylist()
    for t, *row in zip(times, *(table[name].to_pylist() for name in names), strict=True):
        found[t].append(tuple(row))
    return found


def _instants(reports: pa.Table, others: Set[int]) -> Iterable[tuple[int, list[Report]]]:
    """Every instant at which something arrives or gets too old, up to the last report, with the reports that arrive."""
    times = reports["ts"].cast(pa.int64()).to_pylist()
    columns = [times, *(reports[name].to_pylist() for name in ("cid", "speed", "xpos", "sid"))]
    arriving = {t: list(rows) for t, rows in groupby(zip(*columns, strict=True), key=itemgetter(0))}
    points = {t + late for t in arriving for late in (0, ACTIVE + 1, SPEED_WINDOW + 1)} | others
    return ((t, arriving.get(t, [])) for t in sorted(points) if t <= times[-1])
