"""What the console costs, and what it bears: many clients, pages in a browser, half an hour without growing."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.benches import console_pages, harness
from anabranch.benches.console_stage import Running, running
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed

CLIENTS = 200
SETTLING_SECONDS = 10.0
NAMED = 100
QUICK_MINUTES, MINUTES, LONG_MINUTES = 1, 3, 30
"""How long pages stay open; the last one if `ANABRANCH_SOAK` is set."""
SOAK_PAGES = ("queries", "plan", "river")
"""The last one is the page whose updates are counted."""


def main(*, quick: bool = False, json_path: Path | None = None) -> int:
    """All bars."""
    return harness.run([_looks, _clients, _pages, _soak], quick=quick, json_path=json_path)


def _looks(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """What a console costs that nobody looks at: its thread's time, of that of the ticks."""
    with running(spark, folder / "looks", rows=2_000, period_seconds=0.5) as found:
        time.sleep(SETTLING_SECONDS)
        hub = found.service._hub
        looked, tick, began = hub.looked_seconds, found.engine.tick, time.perf_counter()
        time.sleep(10 if quick else 60)
        spent, passed = hub.looked_seconds - looked, time.perf_counter() - began
        detail = f"{spent:.2f} s of {passed:.0f} s, {found.engine.tick - tick} ticks"
    return [at_most("looks of the console, percent of one core", 100 * spent / passed, 1.0, detail)]


def _clients(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Ticks without clients, with 200, and without again; answers are compared with the definition."""
    seconds = 10 if quick else 60
    with running(spark, folder / "clients", rows=20_000, period_seconds=1.0) as found:
        time.sleep(SETTLING_SECONDS)
        before = _ticks(found, seconds / 2)
        with _asking(found, CLIENTS, seconds) as report:
            during = _ticks(found, seconds)
        asked = report()
        time.sleep(2)
        after = _ticks(found, seconds / 2)
        found.feed.stop()
        for query in found.engine.queries.values():
            query.await_idle(120)
        _check(spark, found, folder / "clients")
    alone = statistics.median([*before, *after])
    control = statistics.median(after) / statistics.median(before)
    detail = (
        f"ticks {1000 * alone:.0f} ms alone, {1000 * statistics.median(during):.0f} ms with clients; "
        f"alone after / before {control:.2f}; {asked['answers']} answers, p95 {1000 * asked['p95']:.0f} ms"
    )
    return [
        at_most(f"{CLIENTS} clients: a tick with them / without", statistics.median(during) / alone, 1.2, detail),
        at_most(f"{CLIENTS} clients: answers other than 200", asked["failed"], 0, f"{asked['open']} live streams"),
    ]


def _ticks(found: Running, seconds: float) -> list[float]:
    first = found.engine.tick
    time.sleep(seconds)
    return list(found.tick_seconds(first).values())


class _asking:  # noqa: N801 - reads as a word
    """Clients in a process of their own; the report comes when they are through."""

    def __init__(self, found: Running, clients: int, seconds: float) -> None:
        call = [
            sys.executable,
            "-m",
            "anabranch.benches.console_clients",
            found.service.address,
            str(clients),
            str(seconds),
        ]
        given = os.environ | {"ANABRANCH_TOKEN": found.service._access.viewer}
        self._process = subprocess.Popen(call, env=given, stdout=subprocess.PIPE, text=True)

    def __enter__(self):  # type: ignore[no-untyped-def]
        return lambda: json.loads(self._out)

    def __exit__(self, *_: object) -> None:
        self._out = self._process.communicate()[0]
        if self._process.returncode:
            raise InternalError("the clients have failed")


def _check(spark: SparkSession, found: Running, folder: Path) -> None:
    """The answers are those of Spark over all rows."""
    rows = spark.read.parquet(str(folder / "in"))
    wanted = rows.where("size > 20 and size % 2 = 1").count()
    if found.engine.queries["picked"].to_dataframe().count() != wanted:
        raise InternalError("the query gave another answer")


def _pages(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """What a browser shows, and when."""
    rounds = 3 if quick else 7
    with console_pages.browser() as opened, running(spark, folder / "pages", rows=100, period_seconds=5) as found:
        if opened is None:
            print("there is no Chromium, or no Playwright: pages are left out")
            return []
        url, address = found.service.url, found.service.address
        paints = console_pages.first_paint(opened, url, rounds)
        rate, nodes = console_pages.frames_per_second(opened, url, address, 5 if quick else 15)
        for number in range(NAMED - len(found.engine.queries)):
            found.engine.query(f"Select host, size From calls Where size > {number}", name=f"q{number}")
        found.service._hub.look()
        loads = console_pages.listed(opened, url, rounds)
    return [
        at_most("first paint, seconds", statistics.median(paints), 1.0, f"{rounds} loads, slowest {max(paints):.2f}"),
        at_most("a list of 100 queries, seconds", statistics.median(loads), 1.0, f"slowest {max(loads):.2f}"),
        at_least(f"frames per second, {nodes} nodes", rate, 30, "drawn in software"),
    ]


def _soak(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    minutes = QUICK_MINUTES if quick else LONG_MINUTES if "ANABRANCH_SOAK" in os.environ else MINUTES
    return soak(spark, folder / "soak", minutes)


def soak(spark: SparkSession, folder: Path, minutes: float) -> list[Bar]:
    """Pages stay open while something is new every second; the last third is compared with the one before."""
    watched = ab.Filter(
        ab.predicate(lambda n: n % 3 == 0, "id", name="third"), ab.predicate(lambda n: n > 5, "id", name="high")
    )
    passing, stopping = watched.apply(spark.range(0, 200, 1, 1)), threading.Event()

    def go_on() -> None:
        while not stopping.wait(0.7):
            passing.count()

    with console_pages.browser() as opened, running(spark, folder, rows=50, period_seconds=4) as found:
        if opened is None:
            return []
        found.service.watch("numbers", watched)
        threading.Thread(target=go_on, daemon=True).start()
        pages = console_pages.Watched(opened, found.service.url, found.service.address, SOAK_PAGES)
        pages.memory()
        samples = []
        for _ in range(max(6, round(2 * minutes))):
            pages.wait(60 * minutes / max(6, round(2 * minutes)))
            samples.append((pages.memory(), resident_mb()))
            print(samples[-1], flush=True)
        stopping.set()
        ticks = found.engine.tick
    return soaked(samples, minutes, ticks)


def soaked(samples: list[tuple[console_pages.Memory, float]], minutes: float, ticks: int) -> list[Bar]:
    """The bars of a soak."""
    third = len(samples) // 3
    last, before = samples[-third:], samples[-2 * third : -third]
    heap = statistics.median(each.heap for each, _ in last) / statistics.median(each.heap for each, _ in before)
    nodes = statistics.median(each.nodes for each, _ in last) / statistics.median(each.nodes for each, _ in before)
    process = statistics.median(mb for _, mb in last) / statistics.median(mb for _, mb in before)
    updates = sum(each.updates for each, _ in samples) / minutes
    sizes = f"{before[0][0].heap / 1e6:.1f} -> {last[-1][0].heap / 1e6:.1f} MB, {minutes:g} minutes, {ticks} ticks"
    return [
        at_least("updates of a page per minute", updates, 57, "once a second at most"),
        at_most("memory of open pages, last third / the one before", heap, 1.05, sizes),
        at_most("elements of open pages, last third / the one before", nodes, 1.05),
        informed("memory of the engine's process, last third / the one before", process, f"{samples[-1][1]:.0f} MB"),
    ]


def resident_mb() -> float:
    """What this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
