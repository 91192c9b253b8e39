"""The events of NEXMark: persons, auctions and bids of an auction house. Times are microseconds since 1970.

References
----------
P. Tucker, K. Tufte, V. Papadimos, D. Maier: NEXMark, a benchmark for queries over data streams (draft, 2002). The
proportions, the hot keys and the numbering follow the generator of Apache Beam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.int64]

SECOND = 1_000_000
ZERO = 1_767_225_600 * SECOND  # 2026-01-01, a multiple of every slide
ROUND, AUCTIONS_PER_ROUND, PERSONS_PER_ROUND = 50, 3, 1
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EVERY = 100
HOT_SELLERS, HOT_AUCTIONS, HOT_BIDDERS = 0.75, 0.5, 0.75
RECENT_PERSONS, RECENT_AUCTIONS = 1000, 100
SHORTEST_LIFE, LONGEST_LIFE = SECOND // 2, 4 * SECOND
TIED = 0.2

FIRST_NAMES = np.array("Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split())
LAST_NAMES = np.array("Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split())
CITIES = np.array("Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(","))
STATES = np.array("AZ CA ID OR WA WY".split())
CHANNELS = np.array("Google Facebook Baidu Apple".split())


@dataclass(frozen=True)
class Nexmark:
    """The three streams, each ordered by time and by the event number `seq`, which is unique over all of them."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    @property
    def end(self) -> int:
        """Time of the last event, in microseconds."""
        tables = (table for table in (self.person, self.auction, self.bid) if len(table))
        return int(max(pc.max(table["ts"]).cast(pa.int64()).as_py() for table in tables))


def generate(events: int, seed: int, *, rate: int = 1000) -> Nexmark:
    """Make the events: of every 50, one is a person, three are auctions, 46 are bids.

    Auctions are sold by persons, and bids made by persons on auctions, that came before them. Half of the bids go to
    the hot auction of the moment, three quarters of auctions and bids come from a hot person; the others come from
    the latest 1000 persons and go to the latest 100 auctions. A bid may come too late, after its auction has expired.

    Parameters
    ----------
    events
        How many. With a multiple of 50 the last event is a bid.
    seed
        The same seed gives the same events.
    rate
        Events per second, on average; a fifth of them has the same time as the one before.
    """
    rng = np.random.default_rng(seed)
    seq = np.arange(events)
    longest_gap = max(1, round(2 * SECOND / rate / (1 - TIED)))
    ts = ZERO + np.cumsum(rng.integers(1, longest_gap, events, endpoint=True) * (rng.random(events) >= TIED))
    place = seq % ROUND
    persons, auctions = place < PERSONS_PER_ROUND, (place > 0) & (place <= AUCTIONS_PER_ROUND)
    return Nexmark(
        _persons(seq[persons], ts[persons], rng),
        _auctions(seq[auctions], ts[auctions], rng),
        _bids(seq[~(persons | auctions)], ts[~(persons | auctions)], rng),
    )


def _persons(seq: Ints, ts: Ints, rng: np.random.Generator) -> pa.Table:
    first, last = rng.choice(FIRST_NAMES, len(seq)), rng.choice(LAST_NAMES, len(seq))
    ids = FIRST_ID + np.arange(len(seq))
    name = np.char.add(np.char.add(first, " "), last)
    email = np.char.add(np.char.add(np.char.lower(last), ids.astype(str)), "@example.com")
    city, state = rng.choice(CITIES, len(seq)), rng.choice(STATES, len(seq))
    return _table({"id": ids, "name": name, "email": email, "city": city, "state": state}, seq, ts)


def _auctions(seq: Ints, ts: Ints, rng: np.random.Generator) -> pa.Table:
    latest = seq // ROUND
    hot = latest - latest % HOT_EVERY
    seller = np.where(rng.random(len(seq)) < HOT_SELLERS, hot, _recent(latest, RECENT_PERSONS, rng))
    initial = _prices(len(seq), rng)
    life = rng.integers(SHORTEST_LIFE, LONGEST_LIFE, len(seq), endpoint=True)
    columns = {
        "id": FIRST_ID + np.arange(len(seq)),
        "seller": FIRST_ID + seller,
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, len(seq)),
        "initial_bid": initial,
        "reserve": initial + _prices(len(seq), rng),
        "expires": _times(ts + life),
    }
    return _table(columns, seq, ts)


def _bids(seq: Ints, ts: Ints, rng: np.random.Generator) -> pa.Table:
    last_auction, last_person = AUCTIONS_PER_ROUND * (seq // ROUND + 1) - 1, seq // ROUND
    hot_auction = last_auction - last_auction % HOT_EVERY
    hot_bidder = np.minimum(last_person - last_person % HOT_EVERY + 1, last_person)
    auction = np.where(rng.random(len(seq)) < HOT_AUCTIONS, hot_auction, _recent(last_auction, RECENT_AUCTIONS, rng))
    bidder = np.where(rng.random(len(seq)) < HOT_BIDDERS, hot_bidder, _recent(last_person, RECENT_PERSONS, rng))
    columns = {
        "auction": FIRST_ID + auction,
        "bidder": FIRST_ID + bidder,
        "price": _prices(len(seq), rng),
        "channel": rng.choice(CHANNELS, len(seq)),
    }
    return _table(columns, seq, ts)


def _recent(latest: Ints, reach: int, rng: np.random.Generator) -> Ints:
    return latest - rng.integers(0, np.minimum(latest + 1, reach))


def _prices(count: int, rng: np.random.Generator) -> Ints:
    return np.rint(100 * 10 ** (5 * rng.random(count))).astype(np.int64)


def _times(micros: Ints) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def _table(columns: dict[str, Any], seq: Ints, ts: Ints) -> pa.Table:
    return pa.table(columns | {"ts": _times(ts), "seq": seq})
