"""What the pages of the console cost a browser: first paint, frames per second, and memory over time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NODES = 200
FRAMES = """seconds => new Promise(done => {
  const drawing = document.querySelector('.drawing'), began = performance.now();
  let frames = 0;
  const frame = now => {
    drawing.scrollTop = (now / 4) % Math.max(1, drawing.scrollHeight - drawing.clientHeight);
    drawing.scrollLeft = (now / 4) % Math.max(1, drawing.scrollWidth - drawing.clientWidth);
    frames += 1;
    if (now - began > 1000 * seconds) done(1000 * frames / (now - began)); else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, or None where there is none or nothing that drives it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


def first_paint(opened: Any, url: str, rounds: int) -> list[float]:
    """Seconds until something is drawn, for a browser that knows nothing of the console but its token."""
    found = []
    for _ in range(rounds):
        context = opened.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("nav a")
        page.reload()
        page.wait_for_selector("main h1")
        paints = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(each => each.startTime)")
        found.append(paints[0] / 1000)
        context.close()
    return found


def listed(opened: Any, url: str, rounds: int) -> list[float]:
    """Seconds from the start of a load until the list of queries is drawn."""
    found = []
    for _ in range(rounds):
        context = opened.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector(".item")
        page.reload()
        page.wait_for_selector(".item")
        found.append(page.evaluate("performance.now()") / 1000)
        context.close()
    return found


def frames_per_second(opened: Any, url: str, address: str, seconds: float) -> tuple[float, int]:
    """Frames of the page of the plan while 200 nodes are moved, and their figures change every second."""
    context = opened.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.route("**/api/plans?**", lambda route: route.fulfill(json=network(NODES)))
    page.goto(url)
    page.wait_for_selector("nav a")
    page.goto(f"{address}/#/plan")
    page.wait_for_selector(".node")
    rate = float(page.evaluate(FRAMES, seconds))
    nodes = int(page.locator(".node").count())
    context.close()
    return rate, nodes


def network(nodes: int) -> dict[str, Any]:
    """A network of streams, operators and queries whose figures change with every call."""
    streams, queries = nodes // 10, 4 * nodes // 10
    operators = nodes - streams - queries
    now = int(time.time() * 1000)
    found = [
        {"id": f"stream:{n}", "kind": "stream", "title": f"stream {n}", "rows": now % 10_000 + n, "buffered": n}
        for n in range(streams)
    ]
    found += [
        {
            "id": f"operator:{n}",
            "kind": "operator",
            "title": f"group by {n}",
            "queries": ["a", "b"] if n % 3 else ["a"],
            "rows_in": now % 10_000,
            "rows_out": n,
            "seconds": 0.1 * n,
            "held_bytes": 1_000 * n,
        }
        for n in range(operators)
    ]
    found += [
        {
            "id": f"query:{n}",
            "kind": "query",
            "title": f"query {n}",
            "rows": n,
            "status": "running",
            "queries": [str(n)],
        }
        for n in range(queries)
    ]
    edges = [[f"stream:{n % streams}", f"operator:{n}"] for n in range(operators)]
    edges += [[f"operator:{n % operators}", f"query:{n}"] for n in range(queries)]
    return {"nodes": found, "edges": edges, "total": nodes, "ticks": 10, "minutes": 5}


@dataclass
class Memory:
    """What the pages of a browser hold together, after a collection of garbage."""

    minute: float
    heap: float
    nodes: float
    listeners: float
    updates: int


class Watched:
    """Pages that stay open."""

    def __init__(self, opened: Any, url: str, address: str, names: tuple[str, ...]) -> None:
        self._began = time.monotonic()
        self._asked = 0
        self._sessions = []
        context = opened.new_context(viewport={"width": 1280, "height": 800})
        for name in names:
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector("nav a")
            page.goto(f"{address}/#/{name}")
            session = context.new_cdp_session(page)
            session.send("Performance.enable")
            self._sessions.append(session)
            self._page = page
        page.on("request", self._count)

    def _count(self, request: Any) -> None:
        self._asked += "/api/filters/" in request.url

    def wait(self, seconds: float) -> None:
        """Let the pages run."""
        self._page.wait_for_timeout(1000 * seconds)

    def memory(self) -> Memory:
        """What they hold now; updates are those of the last page since the last call."""
        sums = {"JSHeapUsedSize": 0.0, "Nodes": 0.0, "JSEventListeners": 0.0}
        for session in self._sessions:
            session.send("HeapProfiler.collectGarbage")
            for each in session.send("Performance.getMetrics")["metrics"]:
                if each["name"] in sums:
                    sums[each["name"]] += each["value"]
        updates, self._asked = self._asked, 0
        heap, nodes, listeners = sums.values()
        return Memory((time.monotonic() - self._began) / 60, heap, nodes, listeners, updates)
