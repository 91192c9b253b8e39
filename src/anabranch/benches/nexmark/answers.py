"""NEXMark's queries 0 to 8 in CQL, and their answers by DuckDB.

The answers are written by hand in SQL over the whole history, and share nothing with our engine. An answer covers the
instants up to the last event.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from anabranch.benches.nexmark.events import LONGEST_LIFE, SECOND, ZERO, Nexmark

Row: TypeAlias = tuple[Any, ...]

_FINAL_PRICES = """
    (Select A.id, A.category, Max(B.price) As price
     From auction As A, bid As B
     Where A.id = B.auction And B.ts >= A.ts And B.ts <= A.expires
     Group By A.id, A.category)"""
_BIDS_PER_AUCTION = """
    (Select auction, Count(*) As n From bid [Range 10 Seconds Slide 2 Seconds] Group By auction)"""

QUERIES = {
    # Pass through: the same as Beam's query 0; the event number stands for the time.
    "q0": "Select auction, bidder, price, channel, seq From bid",
    # Currency: the same, but in thousandths of a euro, so that every engine computes the same whole number.
    "q1": "Select auction, bidder, price * 908 As milli_euro, seq From bid",
    # Selection: the same; the event number tells equal bids apart.
    "q2": "Select auction, price, seq From bid Where auction % 123 = 0",
    # Local items: the same.
    "q3": """
Select P.name, P.city, P.state, A.id
From auction As A, person As P
Where A.seller = P.id And A.category = 10 And (P.state = 'OR' Or P.state = 'ID' Or P.state = 'CA')""",
    # Average final price per category. The same valid bids (in time) and the same maximum; but an auction counts from
    # its first valid bid with the price it has reached, where the original waits until it closes. Reserves are ignored.
    "q4": f"""
Select M.category, Avg(M.price) As average, Count(*) As auctions
From {_FINAL_PRICES} As M
Group By M.category""",
    # Hot items: the same windows, but they include both of their ends; auctions that share the first place all win.
    "q5": f"""
Select Rstream(C.auction, C.n)
From {_BIDS_PER_AUCTION} As C,
    (Select Max(D.n) As m From {_BIDS_PER_AUCTION} As D) As M
Where C.n = M.m""",
    # Average price of a seller's last ten closed auctions. The same average; but an auction is seen as closed when the
    # longest life of an auction (4 seconds) is over, not at its own end. Auctions of one seller that close together
    # count in the order of their ids. An auction without a valid bid is not sold. Reserves are ignored.
    "q6": f"""
Select W.seller, Avg(W.price) As average, Count(*) As auctions
From (Select Istream(C.seller, C.id, M.price)
      From (Select Dstream(id, seller) From auction [Range 4 Seconds]) [Now] As C,
        {_FINAL_PRICES} As M
      Where C.id = M.id) [Partition By seller Rows 10] As W
Group By W.seller""",
    # Highest bid: every 10 seconds the best of the last 10, as in the original, but the window includes both of its
    # ends, and a bid exactly between two periods that wins both is emitted once. Equal bids all win.
    "q7": """
Select Istream(B.auction, B.bidder, B.price, B.seq)
From bid [Range 10 Seconds Slide 10 Seconds] As B,
    (Select Max(price) As top From bid [Range 10 Seconds Slide 10 Seconds]) As M
Where B.price = M.top""",
    # New users who sell. The original looks at fixed periods; here it is any 10 seconds, and every auction is emitted.
    "q8": """
Select Istream(P.id, P.name, A.id As auction)
From person [Range 10 Seconds] As P, auction [Range 10 Seconds] As A
Where P.id = A.seller""",
}
RELATIONS = ("q4", "q6")

_SLIDES = "(Select unnest(range({first}, $end + 1, {slide})) As w)"
_PRICES_SQL = """
    (Select a.id, a.seller, a.category, a.t, max(b.price) As price
     From auction a Join bid b On b.auction = a.id And b.t Between a.t And a.expires_at
     Where a.t <= $end And b.t <= $end Group By all)"""

# Each asks for the answers at the instants up to $end; of a relation, for its rows at $end.
_ANSWERS = {
    "q0": "Select auction, bidder, price, channel, seq, t From bid Where t <= $end",
    "q1": "Select auction, bidder, price * 908, seq, t From bid Where t <= $end",
    "q2": "Select auction, price, seq, t From bid Where auction % 123 = 0 And t <= $end",
    "q3": """
        Select p.name, p.city, p.state, a.id, greatest(a.t, p.t) As t
        From auction a Join person p On a.seller = p.id
        Where a.category = 10 And p.state In ('OR', 'ID', 'CA') And greatest(a.t, p.t) <= $end""",
    "q4": f"Select category, sum(price)::Double / count(*), count(*) From {_PRICES_SQL} Group By category",
    "q5": f"""
        Select auction, count(*) As n, w
        From {_SLIDES.format(first=ZERO, slide=2 * SECOND)} Join bid On t Between w - 10 * {SECOND} And w
        Group By auction, w Qualify n = max(n) Over (Partition By w)""",
    "q6": f"""
        With sold As (Select * From {_PRICES_SQL} Where t + {LONGEST_LIFE + 1} <= $end),
        latest As (Select * From sold Qualify row_number() Over (Partition By seller Order By t Desc, id Desc) <= 10)
        Select seller, sum(price)::Double / count(*), count(*) From latest Group By seller""",
    "q7": f"""
        With best As (
            Select auction, bidder, price, seq, w
            From {_SLIDES.format(first=ZERO, slide=10 * SECOND)} Join bid On t Between w - 10 * {SECOND} And w
            Qualify price = max(price) Over (Partition By w))
        From best Where (seq, w - 10 * {SECOND}) Not In (Select (seq, w) From best)""",
    "q8": f"""
        Select p.id, p.name, a.id, greatest(p.t, a.t) As t
        From person p Join auction a On p.id = a.seller
        Where abs(p.t - a.t) <= 10 * {SECOND} And greatest(p.t, a.t) <= $end""",
}


def expected(name: str, data: Nexmark) -> Counter[Row]:
    """The whole answer of a query that streams: a bag of rows, each followed by its time in microseconds."""
    if name in RELATIONS:
        raise ValueError(f"{name} answers with a relation: ask for it at an instant, with `at`")
    return _ask(name, data, data.end)


def at(name: str, data: Nexmark, t: int) -> Counter[Row]:
    """The answer of a query with a relation (4 and 6), as it is at an instant in microseconds."""
    if name not in RELATIONS:
        raise ValueError(f"{name} answers with a stream: ask for the whole of it, with `expected`")
    return _ask(name, data, t)


def _ask(name: str, data: Nexmark, end: int) -> Counter[Row]:
    with duckdb.connect() as db:
        for stream in ("person", "auction", "bid"):
            table: pa.Table = getattr(data, stream)
            micros = {"t": table["ts"].cast(pa.int64())}
            if stream == "auction":
                micros["expires_at"] = table["expires"].cast(pa.int64())
            kept = [c for c in table.column_names if c not in ("ts", "expires")]
            db.register(stream, pa.table({**{c: table[c] for c in kept}, **micros}))
        return Counter(db.execute(_ANSWERS[name], {"end": end}).fetchall())
