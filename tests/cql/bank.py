"""A bank: transfers between accounts, and queries by which balances are computed; all of them together are always 0.

A query over two streams of its own answers that do not belong to the same instant would show money that has left one
account and not yet reached the other. See J. Brandon, *Internal consistency in streaming systems*, 2021.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from cql.streams import SECOND, Row, Stream

ACCOUNTS = 10
COLUMNS = (("sender", "bigint"), ("receiver", "bigint"), ("amount", "bigint"))
CREDITS = "(Select receiver As account, Sum(amount) As credit From transfers [Range Unbounded] Group By receiver)"
DEBITS = "(Select sender As account, Sum(amount) As debit From transfers [Range Unbounded] Group By sender)"
MOVES = (
    "(Select receiver As account, amount As change From transfers [Range Unbounded]"
    " Union All Select sender As account, 0 - amount As change From transfers [Range Unbounded])"
)
BALANCES = {
    "joined": f"Select c.account, c.credit - d.debit As balance From {CREDITS} As c, {DEBITS} As d"
    " Where c.account = d.account",
    "united": f"Select m.account, Sum(m.change) As balance From {MOVES} As m Group By m.account",
}
TOTALS = {name: f"Select Sum(b.balance) As total From ({text}) As b" for name, text in BALANCES.items()}


def transfers(count: int, rng: random.Random, skew: int = 0) -> Stream:
    """So many transfers between all accounts, some at the same time, which arrive disordered within a skew.

    At first every account sends to the next, all at once: from then on all of them have sent and received.
    """
    rows: list[Row] = [(n, 0, n, (n + 1) % ACCOUNTS, 100) for n in range(ACCOUNTS)]
    time = 0
    for number in range(len(rows), count):
        time += rng.choice((0, 1, SECOND // 2, SECOND))
        sender, receiver = rng.sample(range(ACCOUNTS), 2)
        rows.append((number, time, sender, receiver, rng.randint(1, 50)))
    comes = [row[1] + rng.randint(0, skew) for row in rows]
    arrival = tuple(sorted(range(count), key=lambda place: (comes[place], place)))
    return Stream("transfers", COLUMNS, tuple(rows), arrival=arrival, skew=skew)


def sums(changes: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """The sum of all balances after each instant of a changelog of (balance, time, +1 or -1)."""
    moved: Counter[int] = Counter()
    for balance, time, weight in changes:
        moved[time] += balance * weight
    total, found = 0, {}
    for time in sorted(moved):
        total += moved[time]
        found[time] = total
    return found
