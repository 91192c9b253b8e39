"""Predicates that call models and services, against a server of our own that counts what it is asked and paid for."""

from __future__ import annotations

import statistics
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches import connect_rounds, harness, killing
from anabranch.benches.model_server import ask, number_of, running, state_of
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most

CONCURRENCY = 64
TOKEN_PRICE = 1e-6
PRICES = {"dear": 0.010, "middle": 0.003, "cheap": 0.001}
WINDOWS = 60
WARM_UPS = 2


def main(*, quick: bool = False, json_path: Path | None = None) -> int:
    """All bars."""
    benches = [_speed, _money, _budget, _rate, _kills, _connect]
    return harness.run(benches, quick=quick, json_path=json_path)


def _texts(spark: SparkSession, rows: int, prefix: str) -> DataFrame:
    return spark.range(0, rows, 1, 2).select("id", F.concat(F.lit(prefix), F.col("id").cast("string")).alias("text"))


def _scored(address: str, name: str, **options: Any) -> Any:
    async def score(text: str) -> ab.Reply:
        value, tokens = await ask(address, text)
        return ab.Reply(value, tokens=tokens, money=tokens * TOKEN_PRICE)

    usual = {"returns": "double", "test": lambda s: s > 0.5, "concurrency": CONCURRENCY, "cost": "money"}
    return ab.predicate(score, "text", name=name, **{**usual, **options})


def _ids(df: DataFrame) -> set[int]:
    return {row.id for row in df.select("id").collect()}


def _expect(found: object, wanted: object, who: str) -> None:
    if found != wanted:
        raise InternalError(f"{who} gave another answer")


def _speed(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Calls of 50 ms: a plain UDF makes one at a time per core."""
    few, many = (60, 1500) if quick else (120, 6000)
    with running(folder / "speed", least_seconds=0.05, most_seconds=0.05) as address:
        url = f"http://{address}/v1/chat/completions"

        def plainly(text: str) -> bool:
            body = f'{{"model": "small", "messages": [{{"content": "{text}"}}]}}'.encode()
            with urllib.request.urlopen(urllib.request.Request(url, body)) as reply:
                said: str = reply.read().decode()
            return float(said.split('"content": "')[1].split('"')[0]) > 0.5

        plain, fast = F.udf(plainly, "boolean"), ab.Filter(_scored(address, "fast"))
        for number, kept in enumerate((fast.apply(_texts(spark, 20, "w")), _texts(spark, 4, "v").where(plain("text")))):
            _expect(_ids(kept) <= set(range(20)), True, f"warm-up {number}")
        rates: dict[str, list[float]] = {"plain": [], "ours": []}
        for number in range(1 if quick else 3):
            for who, rows in (("plain", few), ("ours", many)):
                prefix = f"{who}{number}-"
                frame = _texts(spark, rows, prefix)
                began = time.perf_counter()
                kept = frame.where(plain("text")) if who == "plain" else fast.apply(frame)
                found = _ids(kept)
                rates[who].append(rows / (time.perf_counter() - began))
                _expect(found, {n for n in range(rows) if number_of(f"{prefix}{n}", "small") > 0.5}, who)
    ratio = statistics.median(o / p for o, p in zip(rates["ours"], rates["plain"], strict=True))
    detail = ", ".join(f"{who} {statistics.median(found):.0f} rows/s" for who, found in rates.items())
    return [at_least(f"calls of 50 ms, concurrency {CONCURRENCY}: plain UDF / ours", ratio, 20, detail)]


def _passes(text: str, model: str) -> bool:
    """Whether a row passes a predicate; what the middle one says depends on what the cheap one says."""
    cheap = number_of(text, "cheap") < 0.4
    if model == "cheap":
        return cheap
    return number_of(text, model) < (0.6 if model == "dear" else 0.2 if cheap else 0.4)


def _cost(order: Sequence[str], texts: Sequence[str]) -> float:
    """Money of an order, by the definition."""
    spent = 0.0
    for text in texts:
        for model in order:
            spent += PRICES[model]
            if not _passes(text, model):
                break
    return spent


def _money(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three predicates of different prices, the dearest written first."""
    rows = 5000 if quick else 12_000
    with running(folder / "money", least_seconds=0.02, most_seconds=0.2) as address:

        def calling(model: str) -> Any:
            async def said(text: str) -> ab.Reply:
                _, tokens = await ask(address, text, model)
                return ab.Reply(_passes(text, model), tokens=tokens, money=PRICES[model])

            return ab.predicate(said, "text", name=model, concurrency=CONCURRENCY, cost="money")

        f = ab.Filter(*map(calling, PRICES), minimize="money")
        texts = [f"m{n}" for n in range(rows)]
        found = _ids(f.apply(_texts(spark, rows, "m")))
    _expect(found, {n for n, text in enumerate(texts) if all(_passes(text, m) for m in PRICES)}, "ours")
    ours = f.report().money
    written, best = _cost(tuple(PRICES), texts), min(_cost(order, texts) for order in permutations(PRICES))
    detail = f"written {written:.2f}, ours {ours:.2f}, best {best:.2f}, order {' '.join(f.report().order)}"
    return [
        at_least("three calling predicates: money as written / ours", written / ours, 1.8, detail),
        at_most("three calling predicates: money of ours / best order", ours / best, 1.1, detail),
    ]


def _budget(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    rows = 600 if quick else 3000
    mean = 80 * TOKEN_PRICE
    budget = rows * mean / 3
    with running(folder / "budget", least_seconds=0.02, most_seconds=0.2) as address:
        f = ab.Filter(_scored(address, "bounded"), budget=budget)
        frame = _texts(spark, rows, "b")
        kept, left = _ids(f.apply(frame)), _ids(f.undecided())
        spent = f.report().money
    wanted = {n for n in range(rows) if number_of(f"b{n}", "small") > 0.5}
    _expect((kept <= wanted, kept | left >= wanted, kept & left), (True, True, set()), "ours")
    batch = 2 * CONCURRENCY * mean
    detail = f"budget {budget:.4f}, spent {spent:.4f}, {len(left)} of {rows} rows undecided"
    return [at_most("spend over the budget, in batches of calls", max(0.0, spent - budget) / batch, 1, detail)]


def _rate(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The server's own record, in windows that start all over the run."""
    rows, requests, tokens = (200, 30, 2400) if quick else (1200, 60, 4800)
    rate = ab.Rate(requests=f"{requests}/s", tokens=f"{tokens}/s", call_tokens=120)
    with running(folder / "rate", least_seconds=0.02, most_seconds=0.2) as address:
        found = _ids(ab.where(_texts(spark, rows, "r"), _scored(address, "rated", rate=rate)))
        arrivals: Any = state_of(address)["arrivals"]
    _expect(found, {n for n in range(rows) if number_of(f"r{n}", "small") > 0.5}, "ours")
    first, last = min(at for at, _ in arrivals), max(at for at, _ in arrivals)
    over = 0
    for number in range(WINDOWS):
        start = first + (last - first) * number / WINDOWS
        within = [took for at, took in arrivals if start <= at < start + 1.0]
        over += len(within) > requests or sum(within) > tokens
    took = last - first
    detail = f"{rows} calls in {took:.1f} s under {requests} requests and {tokens} tokens a second"
    return [at_most(f"windows over the declared rate, of {WINDOWS}", over, 0, detail)]


def _kills(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Workers and drivers are killed while calls are under way; the program is started again after a driver's end."""
    kills = killing.TEN[:2] if quick else killing.TEN
    (folder / "kills").mkdir()
    found = killing.paid_through(kills, folder / "kills")
    _expect(found.paid, found.rows, "the server")
    detail = f"{len(kills)} kills, {found.starts} starts, {found.rows} texts, {found.paid} calls paid"
    return [at_most("calls paid twice, workers and drivers killed", found.twice, 0, detail)]


def _connect(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The same filters on a classic session and on Spark Connect, in turns; Connect twice, as a control."""
    rows, cheap, rounds = (30_000, 600_000, 2) if quick else (100_000, 6_000_000, 6)
    place = folder / "connect"
    connect_rounds.prepare(spark, place, rows)
    bars = []
    with (
        connect_rounds.program("classic", place, cheap) as classic,
        connect_rounds.program("connect", place, cheap) as connect,
    ):
        programs = {"classic": classic, "Connect": connect, "Connect again": connect}
        for workload in connect_rounds.NAMES:
            found = _in_turns(programs, workload, rounds)
            control = found.ratio("Connect again", "Connect")
            detail = f"{found.describe(*programs)}, A/A {control:.2f}"
            bars.append(
                at_least(f"filters, {workload}: classic / Connect", found.ratio("classic", "Connect"), 0.95, detail)
            )
    return bars


def _in_turns(programs: dict[str, subprocess.Popen[str]], workload: str, rounds: int) -> harness.Race:
    """Rounds of all on a workload, behind two that warm up; who runs behind whom changes."""
    result = harness.Race({name: [] for name in programs})
    for number in range(rounds + WARM_UPS):
        if harness.settled(result.seconds):
            break
        for name in harness.turns(list(programs), number):
            took, found = connect_rounds.one_round(programs[name], workload)
            _expect(found, result.answer or found, name)
            result.answer = found
            if number >= WARM_UPS:
                result.seconds[name].append(took)
    return result
