"""Random sets of queries over shared streams, with random lives; a module of its own, for other processes."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

from anabranch.cql.dialect import parse_query
from anabranch.operators.segments import LONGEST_LOG
from cql.generate import random_queries
from cql.local import SHORT_LOG
from cql.local_network import Chaos, LocalNetwork, Sharing
from cql.oracle import Oracle
from cql.streams import SECOND, Case, Columns, Relation, Row

LARGEST = 30
WITH_RULES = 0.4
"""Share of the sets in which some queries are rules."""
SHARINGS: tuple[Sharing, ...] = ("on", "off", "random")
MEMORY = Path("/dev/shm")
"""Where there is a disk in memory: logs are synced, and there are many."""
RULE_COLUMNS: Columns = (("rule", "string"), ("low", "bigint"), ("top", "bigint"), ("word", "string"))
RULES = (
    "Select Istream(u.rule, x.k, x.a) From s1 [Now] As x, rules As u Where x.a >= u.low And x.a < u.top",
    "Select Istream(u.rule, x.a) From s1 [Now] As x, rules As u Where x.a Between u.low And u.top And x.c = u.word",
    "Select Istream(u.rule, x.b) From s1 [Now] As x, rules As u Where x.b In (u.low, u.top)",
    "Select Istream(u.rule, x.c) From s1 [Now] As x, rules As u Where x.c Like u.word And x.k <= u.top",
    "Select u.rule, Count(*) As n From s1 [Range 2 Seconds] As x, rules As u Where x.a > u.low Group By u.rule",
)
"""What templates become: the rules are a relation, and are added and removed while queries run."""
WINDOWS = (
    "[Now]",
    "[Range 1 Seconds]",
    "[Range 2 Seconds]",
    "[Range 3 Seconds]",
    "[Range 5 Seconds Slide 2 Seconds]",
    "[Rows Unbounded]",
)
WITH_A_FAMILY = 0.75
"""Share of the sets in which some queries are the same operator of several inputs, over other windows."""
FAMILY = 6
"""Queries that it has at least."""
FAMILIES = (
    "Select x.k, x.a, y.b From s1 {} As x, s1 {} As y Where x.k = y.k",
    "Select Istream(x.k, y.a) From s1 {} As x, s1 {} As y Where x.j = y.k",
    "Select x.k, Count(*) As n From s1 {} As x, s1 {} As y Where x.k = y.k And x.a < y.b Group By x.k",
    "Select x.k, y.j, z.a From s1 {} As x, s1 {} As y, s1 {} As z Where x.k = y.k And y.j = z.j",
    "Select x.k, x.a, y.a As b From s1 {} As x Left Join s1 {} As y On x.k = y.a",
    "Select k, j From s1 {} Intersect Select j, k From s1 {}",
    "Select k From (Select Istream(k, a) From s1 [Now]) {} As x Except All Select j From s1 {}",
    "Select k From (Select k From s1 Where a > 0) {} As x Intersect All Select j From s1 {} Where b > 0",
    "Select k From (Select Istream(k) From s1 [Now]) {} As x Except Select j From (Select j From s1) {} As y",
    "Select j From (Select Dstream(j, k) From s1 [Now]) {} As x Intersect Select k From (Select k From s1) {} As y",
    "Select x.k, x.a From s1 {} As x Where x.a In (Select y.b From s1 {} As y)",
    "Select x.k, x.b From s1 {} As x Where Not Exists (Select * From s1 {} As y Where y.a = x.b)",
)
_COMPARED = re.compile(r"([<>=] )(\d)\b")
_SIZES = re.compile(r"(Rows )(\d+)")
_WINDOW = re.compile(r"\[(Now|Rows Unbounded|Range (Unbounded|\d+ \w+)( Slide \d+ \w+)?)\]")


@dataclass(frozen=True)
class Event:
    """Something that a user does before a tick."""

    kind: Literal["register", "drop", "pause", "resume", "restart"]
    query: str = ""
    text: str = ""


@dataclass(frozen=True)
class QuerySet:
    """Queries over the streams of a case; before its tick i, `events[i]` happen."""

    case: Case
    events: tuple[tuple[Event, ...], ...]


def query_set(seed: int, most: int = LARGEST) -> QuerySet:
    """Two queries or more, rather few than many: some equal to others, some almost."""
    rng = random.Random(seed)
    count = 2 + int((most - 1) * rng.random() ** 3)
    cases = random_queries(seed, count)
    texts: list[str] = []
    for case in cases:
        earlier = rng.choice(texts) if texts and rng.random() < 0.5 else None
        texts.append(case.query if earlier is None else rng.choice((earlier, _almost(earlier, rng))))
    ticks, case = max(map(len, cases[0].cuts.batches.values())), cases[0]
    if rng.random() < WITH_RULES:
        case = replace(case, relations=(*case.relations, _rules(rng)))
        texts[: 1 + count // 8] = [rng.choice(RULES) for _ in texts[: 1 + count // 8]]
    if rng.random() < WITH_A_FAMILY:
        size = max(FAMILY, count // 2)
        busiest = max(case.streams, key=lambda each: len(each.rows)).name
        texts[-size:] = _family(size, busiest, rng)
    return QuerySet(case, tuple(_events(texts, ticks, rng)))


def _family(size: int, stream: str, rng: random.Random) -> list[str]:
    """A query, and others that differ from it in the window of one input: each input has its turn."""
    text = rng.choice(FAMILIES).replace("s1", stream)
    windows = [rng.choice(WINDOWS) for _ in range(text.count("{}"))]
    found = [text.format(*windows)]
    for place in islice(cycle(range(len(windows))), size - 1):
        others = [window for window in WINDOWS if window != windows[place]]
        found.append(text.format(*windows[:place], rng.choice(others), *windows[place + 1 :]))
    return found


def _almost(text: str, rng: random.Random) -> str:
    """A query with another constant, window of rows, or window of time: wherever one stands."""
    found = [(pattern, each) for pattern in (_COMPARED, _SIZES, _WINDOW) for each in pattern.finditer(text)]
    if not found:
        return text
    pattern, place = rng.choice(found)
    other = rng.choice(WINDOWS) if pattern is _WINDOW else place[1] + str(rng.randrange(1, 4))
    return text[: place.start()] + other + text[place.end() :]


def _rules(rng: random.Random) -> Relation:
    def rule(number: int) -> Row:
        low = rng.randrange(-2, 4)
        return (f"r{number}", low, low + rng.randrange(4), rng.choice(("p", "q", "p%", "%r%", "%", None)))

    held = [rule(number) for number in range(rng.randrange(1, 4))]
    begin, changes = tuple(held), []
    for number, time in enumerate(sorted(rng.randrange(9) * SECOND for _ in range(rng.randrange(1, 8))), len(held)):
        if held and rng.random() < 0.5:
            changes.append((time, -1, held.pop(rng.randrange(len(held)))))
        else:
            held.append(rule(number))
            changes.append((time, 1, held[-1]))
    return Relation("rules", RULE_COLUMNS, begin, tuple(changes))


def _events(texts: Sequence[str], ticks: int, rng: random.Random) -> Iterator[tuple[Event, ...]]:
    waiting = {f"q{number}": text for number, text in enumerate(texts)}
    paused: set[str] = set()
    running: set[str] = set()
    at_once = rng.choice((0.6, 1.0, 1.0))  # who begins later shares with nobody that began before
    for tick in range(ticks):
        events = []
        for name, text in list(waiting.items()):
            if rng.random() < (at_once if tick == 0 else 0.4) or tick == ticks - 1:
                events.append(Event("register", name, text))
                running.add(name)
                del waiting[name]
        for name in sorted(paused):
            if rng.random() < 0.5:
                events.append(Event("resume", name))
                paused.discard(name)
        for name in sorted(running - paused):
            if rng.random() < 0.1:
                events.append(Event("pause", name))
                paused.add(name)
            elif rng.random() < 0.08:
                events.append(Event("drop", name))
                running.discard(name)
        if rng.random() < 0.2:
            events.append(Event("restart"))
        yield tuple(events)


def disagreement_of_set(number: int, most: int = LARGEST) -> tuple[str | None, int]:
    """What a set of queries says otherwise than the definition, and how often operators were shared."""
    made, chaos = query_set(number, most), Chaos(random.Random(number), SHARINGS[number % len(SHARINGS)])
    with _folder() as folder:
        log = SHORT_LOG if number % 2 else LONGEST_LOG
        network = LocalNetwork(made.case, folder, chaos, few_codes=number % 7 == 0, longest_log=log)
        _live(made, network)
    for name, query in network.queries.items():
        want = said_since(query.case, query.since, query.position)
        if query.answer != want:
            missing, extra = want - query.answer, query.answer - want
            return f"seed {number}: {name} {query}\n{made}\nmissing {missing}\nextra {extra}", network.shared
    return None, network.shared


def _live(made: QuerySet, network: LocalNetwork) -> None:
    left = {stream.name: list(stream.arrived) for stream in made.case.streams}
    for tick, events in enumerate(made.events):
        for event in events:
            if event.kind == "register":
                network.register(event.query, event.text)
            elif event.kind == "restart":
                network.restart()
            else:
                getattr(network, event.kind)(event.query)
        rows: dict[str, list[Row]] = {}
        for name, batches in made.case.cuts.batches.items():
            rows[name], left[name] = left[name][: batches[tick]], left[name][batches[tick] :]
        network.arrive(rows)
    network.end()


def said_since(case: Case, since: int, until: int) -> Counter[Row]:
    """What the definition says of a query that sees rows from one time on, and has answered up to another."""
    streams = [replace(each, rows=tuple(row for row in each.rows if row[1] >= since)) for each in case.streams]
    oracle, ast = Oracle(streams, case.relations), parse_query(case.query)
    if oracle.is_stream(ast):
        said = Counter({(*row, 1): n for row, n in oracle.answer(ast).items()})
    else:
        said = oracle.changes(ast)
    return Counter({row: n for row, n in said.items() if row[-2] < until})


@contextmanager
def _folder() -> Iterator[Path]:
    beside = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="anabranch-set-", dir=beside) as folder:
        yield Path(folder)
