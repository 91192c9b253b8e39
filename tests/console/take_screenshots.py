"""Takes the pictures of `docs/console.md`: python tests/console/take_screenshots.py docs/images (needs Chromium).

With a second argument it takes all pages in both themes and at both widths.

An engine answers the packets of the demo, an hour of theirs after the other, while a browser looks at each page.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import anabranch as ab
from anabranch.cli import packets

ROWS = 8_000
PIECES = 8
PLACES = {
    "queries": "queries/busy",
    "queries-chart": "queries/traffic",
    "trace-join": "trace/joins/scans",
}
"""Pictures that are not named after their page."""
PAGES = (*PLACES, "decisions", "river", "trace", "plan", "time", "state", "monitors", "steer", "snapshot")
SHOTS = (
    ("", 1280, "light", PAGES),
    ("-dark", 1280, "dark", ("river", "plan")),
    ("-narrow", 400, "light", ("queries",)),
)
EVERY = [(f"-{width}-{scheme}", width, scheme, PAGES) for width in (1280, 400) for scheme in ("light", "dark")]
"""All of them, to be looked at: with a second argument."""
QUERIES = {
    "busy": "Select port, Count(*) As n From packets [Range 10 Minutes] Group By port",
    "traffic": "Select port, Count(*) As packets From packets [Range 10 Minutes] Group By port",
    "suspicious": """Select src, dst, port From packets
Where signature(payload) And encoded(payload) And anonymous(payload)""",
    "scans": """Select Istream(b.src, a.port, b.port As other) From packets [Range 10 Seconds] a, packets [Now] b
Where a.src = b.src And a.port <> b.port""",
    "reached": "Select Istream(p.src, h.role) From packets [Now] p, hosts h Where p.port = h.port",
    "loud": "Select src, Count(*) As n From packets [Range 2 Minutes] Group By src Having Count(*) > 3",
    "monitor_1": "Select Istream(entity, value) From SysStream [Now] Where entity = 'engine' And property = 'seconds'",
    "monitor_2": "Select Istream(query, value) From SysStream [Now] Where entity = 'query' And property = 'rows'",
}


def main(out: Path) -> None:
    """Run an engine, and take a picture of every page."""
    spark = ab.local_session("anabranch-screenshots", cores=2, **{"spark.sql.shuffle.partitions": 2})
    with TemporaryDirectory() as name:
        folder = Path(name)
        pieces = _pieces(folder)
        engine = ab.Engine(spark, folder / "state")
        arriving = spark.readStream.schema(spark.read.parquet(str(pieces[0])).schema)
        arriving = arriving.option("maxFilesPerTrigger", 1)
        engine.stream("packets", arriving.parquet(str(folder / "in")), timestamp="ts", sequence="seq", skew="2 seconds")
        engine.relation(
            "hosts", spark.createDataFrame([(80, "web"), (443, "web"), (25, "mail")], "port int, role string")
        )
        for function in (packets.signature, packets.encoded, packets.anonymous):
            engine.function(function.__name__, function)
        for query, text in QUERIES.items():
            engine.query(text, name=query).start()
        with engine.serve(port=0, home=folder / "home") as service:
            for number, piece in enumerate(pieces):
                os.rename(piece, folder / "in" / f"{number:03}.parquet")
                if not number:
                    _watch(engine)
            for each in engine.queries.values():
                each.await_idle(600)
            _take(service.url, service.address, out, SHOTS if len(sys.argv) < 3 else EVERY)
        engine.stop()
    spark.stop()


def _watch(engine: ab.Engine) -> None:
    """Trace some rows, and compare another order, as soon as there is a filter."""
    query = engine.queries["suspicious"]
    query.await_idle(600)
    (of,) = query.filters()
    engine.between_ticks(lambda: of.trace(0.05))
    engine.between_ticks(lambda: of.compare(order=[p.name for p in reversed(of.predicates)]))
    engine.queries["scans"].trace_joins(0.02)


def _pieces(folder: Path) -> list[Path]:
    """The packets, hour after hour, in small files."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    made: list[Path] = []
    for hour in packets.write(folder / "packets", ROWS):
        table = pq.read_table(hour)
        size = table.num_rows // (PIECES // 4)
        for first in range(0, table.num_rows, size):
            made.append(folder / "out" / f"{len(made):03}.parquet")
            pq.write_table(table.slice(first, size), made[-1])
    return made


def _take(url: str, address: str, out: Path, shots: Sequence[tuple[str, int, str, Sequence[str]]]) -> None:
    with sync_playwright() as playwright:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        _steer(browser, url, address)
        for suffix, width, scheme, names in shots:
            context = browser.new_context(viewport={"width": width, "height": 780}, color_scheme=scheme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector("nav a")
            for name in names:
                page.goto(f"{address}/#/{PLACES.get(name, name)}")
                page.wait_for_timeout(3_000)
                _look_closer(page, name)
                file = out / f"console-{name}{suffix}.png"
                page.screenshot(path=file)
                Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)
            context.close()
        browser.close()


def _look_closer(page: Page, name: str) -> None:
    """Open what a picture is about."""
    if name == "plan":
        page.locator(".node.shared").first.click()
    if name == "queries-chart":
        page.get_by_role("button", name="Chart").click()
    if name in ("plan", "queries-chart"):
        page.wait_for_timeout(1_500)


def _steer(browser: Browser, url: str, address: str) -> None:
    """Change some settings, so that there is something to take back."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("nav a")
    for wanted in ({"stream": "packets", "skew": "5 seconds"}, {"query": "loud", "share": False}):
        done = page.request.patch(f"{address}/api/settings", data=wanted)
        assert done.ok, done.text()
    page.request.post(f"{address}/api/undo", data={})
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
