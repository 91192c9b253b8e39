"""The pages in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch.console.service import serve
from console.stage import FAST, Stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pyspark.sql import SparkSession

pytest.importorskip("playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PAGES = ["queries", "decisions", "river", "trace", "plan", "time", "state", "monitors", "steer", "snapshot"]
LONG = pytest.mark.full(reason="a browser takes seconds for each page")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, stage: Stage) -> Iterator[Callable[..., Page]]:
    """Opens the console; errors on a page fail the test."""
    wrong: list[str] = []
    contexts = []

    def open_console(url: str | None = None, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(url or stage.service.url)
        return page

    yield open_console
    for context in contexts:
        context.close()
    assert not [each for each in wrong if "401" not in each and "ERR_" not in each and "400" not in each]


def until(page: Page, expression: str) -> None:
    """Wait until something is true of a page, whose policy lets nobody evaluate a text in it but from outside."""
    end = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def test_a_query_is_registered_and_its_rows_arrive(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.get_by_role("button", name="New query").click()
    field = page.get_by_label("Text of the query")
    field.fill("Select hots From calls [Now]")
    page.wait_for_selector("text=unknown column 'hots'")
    field.fill("Select Istream(host, size) From calls [Now] Where size > 30")
    page.wait_for_selector("text=This is a query.")
    page.get_by_label("Name of the query").fill("typed")
    page.get_by_role("button", name="Register").click()
    page.wait_for_selector("h1:has-text('typed')")
    stage.bring(40)
    page.wait_for_selector("td:has-text('h1')")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Drop").click()
    until(page, "!document.querySelector('.list').textContent.includes('typed')")
    assert "typed" not in stage.engine.queries


@LONG
def test_every_page_shows_something_at_both_widths_and_in_both_themes(
    stage: Stage, opened: Callable[..., Page]
) -> None:
    for width, scheme in ((1280, "dark"), (400, "light")):
        page = opened(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_selector("nav a")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        for name in PAGES:
            page.goto(f"{stage.service.address}/#/{name}")
            page.wait_for_selector("nav [aria-current]")
            until(page, "document.querySelector('main').innerText.length > 40")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@LONG
def test_the_slider_shows_past_decisions(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened(f"{stage.service.url}")
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/river")
    page.wait_for_selector("text=Now:")
    page.get_by_label("Earlier decision").click()
    page.wait_for_selector("text=/Decision \\d+ of \\d+/")
    page.get_by_label("Past decisions").press("Home")
    page.wait_for_selector("text=Decision 1 of")
    assert page.locator("svg text.strong", has_text="large(size)").count() >= 1


@LONG
def test_a_monitor_is_added_edited_and_removed(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/monitors")
    page.get_by_role("button", name="Add").click()
    page.wait_for_selector("h2:has-text('monitor_1')")
    stage.bring(20)
    stage.engine.queries["busy"].await_idle(600)
    stage.bring(20)
    page.wait_for_selector("section svg path.line")
    page.get_by_role("button", name="Edit").click()
    text = "Select Istream(entity, value) From SysStream [Now] Where property = 'late'"
    page.get_by_label("Text of monitor_1").fill(text)
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("button:has-text('Edit')")
    assert stage.engine.queries["monitor_1"].text == text
    page.get_by_role("button", name="Remove").click()
    page.wait_for_selector("text=No monitor yet")


@LONG
def test_steering_takes_effect_and_is_taken_back(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/steer")
    (of,) = stage.engine.queries["picked"].filters()
    page.get_by_label("Policy of picked/1").select_option("sweep")
    page.get_by_role("button", name="Apply").first.click()
    page.wait_for_selector("td:has-text('filter picked/1')")
    assert of.policy == "sweep"
    page.get_by_role("button", name="Undo the last change").click()
    page.wait_for_selector("text=Nothing has been changed here.")
    assert of.policy == "auto"


@LONG
def test_a_row_is_traced_and_picked(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/trace")
    page.wait_for_selector("text=Nothing is traced.")
    page.get_by_label("Share of rows that are traced").select_option("all rows")
    stage.bring(60)
    page.wait_for_selector(".traced")
    assert page.locator(".journey li").count() >= 1
    last = page.locator(".traced").last
    last.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".traced:last-child[aria-pressed=true]")
    size = int(re.findall(r"size (\d+)", last.inner_text())[0])
    said = page.locator(".journey li:has-text('large(size)') .badge")
    if said.count():
        assert said.first.inner_text() == ("passed" if size > 20 else "dropped")
    page.get_by_label("Share of rows that are traced").select_option("no rows")
    (of,) = stage.engine.queries["picked"].filters()
    end = time.monotonic() + 60
    while of.trace_share:
        assert time.monotonic() < end
        page.wait_for_timeout(50)


@LONG
def test_two_plans_are_compared_and_the_other_one_is_used(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/steer")
    rows = "[...document.querySelectorAll('section')].at(-1).querySelectorAll('tbody tr').length"
    page.get_by_label("Order of the other plan of picked/1").wait_for()
    earlier = page.evaluate(rows)
    page.get_by_label("Order of the other plan of picked/1").fill("odd(size) -> large(size)")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("text=control: in use / in use")
    page.get_by_role("button", name="Use the other plan").click()
    page.wait_for_selector("button:has-text('Compare')")
    (of,) = stage.engine.queries["picked"].filters()
    assert (of.policy, of.order, of.rival) == ("fixed", ("odd(size)", "large(size)"), None)
    for left in (2, 1, 0):
        page.get_by_role("button", name="Undo the last change").click()
        until(page, f"{rows} === {earlier + left}")
    assert (of.policy, of.order, of.rival) == ("auto", None, None)


@LONG
def test_skew_and_sharing_are_steered_and_taken_back(stage: Stage, opened: Callable[..., Page]) -> None:
    def shares() -> bool:
        return stage.engine.queries["twin"].share

    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/steer")
    box = page.get_by_label("twin shares operators")
    box.focus()
    page.keyboard.press("Space")
    page.wait_for_selector("td:has-text('sharing of twin')")
    assert not shares()
    until(page, "document.activeElement.getAttribute('aria-label') === 'twin shares operators'")
    page.get_by_label("Skew of calls", exact=True).fill("4 seconds")
    page.get_by_role("button", name="Set the skew of calls").click()
    page.wait_for_selector("td:has-text('skew of calls')")
    assert stage.viewer.get("/api/streams")[-1]["skew"] == 4_000_000
    page.get_by_label("Skew of calls", exact=True).fill("soon")
    page.get_by_role("button", name="Set the skew of calls").click()
    page.wait_for_selector("text=is not a duration")
    for what in ("skew of calls", "sharing of twin"):
        page.get_by_role("button", name="Undo the last change").click()
        page.wait_for_selector(f"td:has-text('{what}')", state="detached")
    assert shares()
    assert stage.viewer.get("/api/streams")[-1]["skew"] == 0


@LONG
def test_a_row_of_a_join_is_traced(stage: Stage, opened: Callable[..., Page]) -> None:
    text = "Select Istream(a.host, b.size) From calls [Now] a, calls [Range 1 Minute] b Where a.size = b.size"
    query = stage.engine.query(text, name="met").start()
    stage.service._hub.look()
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/trace/joins/met")
    page.wait_for_selector("text=Nothing is traced.")
    page.get_by_label("Share of rows that are traced").select_option("all rows")
    page.wait_for_selector("text=No row has been traced yet")
    stage.bring(60)
    page.wait_for_selector(".traced")
    page.wait_for_selector("h2:has-text('Partners')")
    page.wait_for_selector(".journey li:has-text('calls')")
    assert query.joined_rows()
    page.goto("about:blank")
    stage.engine.drop("met")


@LONG
def test_rules_are_added_and_removed(stage: Stage, opened: Callable[..., Page]) -> None:
    rules = stage.engine.rules("watch", "Select Istream(host, size) From calls [Now] Where size > :limit")
    rules.start()
    stage.service._hub.look()
    page = opened()
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/queries/watch")
    page.get_by_role("button", name="Rules").click()
    page.wait_for_selector("text=No rules yet.")
    page.get_by_label("rule of the new rule").fill("high")
    page.get_by_label("limit of the new rule").fill("90")
    page.get_by_role("button", name="Add the rule").click()
    page.wait_for_selector("td:has-text('high')")
    assert [(row["rule"], row["limit"]) for row in rules.to_dataframe().collect()] == [("high", 90)]
    page.get_by_role("button", name="Remove the rule high").click()
    page.wait_for_selector("text=No rules yet.")
    page.goto("about:blank")
    stage.engine.drop("watch")


@LONG
def test_what_has_failed_is_said_on_every_page(stage: Stage, opened: Callable[..., Page]) -> None:
    query = stage.engine.query("Select 100 / (size - 14) As x From calls [Now]", name="failing").start()
    page = opened()
    page.wait_for_selector("nav a")
    stage.bring(100)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        query.await_idle(600)
    page.get_by_role("link", name="1 failed").click()
    page.wait_for_selector("text=1 query")
    page.wait_for_selector(".bad:has-text('DIVIDE_BY_ZERO')")
    page.goto(f"{stage.service.address}/#/decisions")
    stage.engine.drop("failing")
    until(page, "!document.querySelector('#status').textContent.includes('failed')")
    assert not page.locator("#failure").is_visible()
    stage.engine._loop.failure = OSError("the disk is full")  # as the thread of ticks says it
    page.wait_for_selector("#failure:has-text('the disk is full')")
    stage.engine._loop.failure = None
    until(page, "document.querySelector('#failure').hidden")


NAMED = "e => (e.getAttribute('aria-label') || e.textContent).trim() || (e.labels && e.labels.length)"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@LONG
def test_texts_stand_out_and_controls_have_names(stage: Stage, opened: Callable[..., Page]) -> None:
    """WCAG AA: contrast of 4.5 (3 if large), and a name for everything that can be operated."""
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme)
        page.wait_for_selector("nav a")
        for name in PAGES:
            page.goto(f"{stage.service.address}/#/{name}")
            until(page, "document.querySelector('main').innerText.length > 40")
            assert page.evaluate(CONTRAST) == [], f"{name}, {scheme}"
            for role in ("button", "textbox", "combobox", "link", "slider", "spinbutton"):
                found = page.get_by_role(role, include_hidden=False)
                for at in range(found.count()):
                    assert found.nth(at).evaluate(NAMED), f"{role} {at} of {name} has no name"
        page.close()


@LONG
def test_an_order_that_changes_is_seen(spark: SparkSession, opened: Callable[..., Page], tmp_path: Path) -> None:
    """A drift: the other predicate becomes the one that drops rows."""
    first = ab.predicate(lambda n: n % 50 == 0 if n < 100_000 else n > 0, "id", name="first")
    second = ab.predicate(lambda n: n % 50 == 0 if n >= 100_000 else n >= 0, "id", name="second")
    watched = ab.Filter(second, first)
    with ab.watch(watched, "drifting", home=tmp_path, limits=FAST) as service:
        page = opened(service.url)
        page.wait_for_selector("nav a")
        page.goto(f"{service.address}/#/river")
        watched.apply(spark.range(0, 30_000, 1, 1)).count()
        page.wait_for_selector("svg[aria-label='Routes: first, then second']")
        watched.apply(spark.range(100_000, 160_000, 1, 1)).count()
        page.wait_for_selector("svg[aria-label='Routes: second, then first']")
        page.goto(f"{service.address}/#/decisions")
        page.wait_for_selector("article.card.Reordered")
        assert page.locator(".chip.up").first.inner_text() in ("first", "second")


@LONG
def test_a_wrong_token_does_not_open_the_console(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened(f"{stage.service.address}/login#guess")
    page.wait_for_selector("text=this is not the token")
    assert "guess" not in page.url
    page.get_by_label("Token").fill(stage.service._access.viewer)
    page.get_by_role("button", name="Open the console").click()
    page.wait_for_selector("nav a")
    assert page.get_by_role("button", name="New query").count() == 0


@LONG
def test_the_connection_is_lost_and_comes_back(stage: Stage, opened: Callable[..., Page]) -> None:
    home = stage.folder / "other-home"
    service = serve(stage.engine, port=0, home=home, limits=FAST)
    page = opened(service.url)
    page.wait_for_selector("text=/tick \\d+/")
    service.stop()
    page.wait_for_selector("text=connection lost")
    port = int(service.address.rpartition(":")[2])
    again = serve(stage.engine, port=port, home=home, limits=FAST)
    page.wait_for_selector("text=/tick \\d+/")
    again.stop()


@LONG
def test_a_snapshot_opens_without_the_engine(stage: Stage, opened: Callable[..., Page], tmp_path: Path) -> None:
    file = tmp_path / "snapshot.html"
    file.write_bytes(stage.viewer.ask("GET", "/api/snapshot").body)
    page = opened(file.as_uri(), offline=True)
    page.wait_for_selector("text=snapshot")
    page.wait_for_selector(".list >> text=busy")
    page.wait_for_selector("td:has-text('h0')")
    for name in PAGES[1:-1]:
        page.evaluate(f"location.hash = '#/{name}'")
        until(page, "document.querySelector('main').innerText.length > 30")
        assert page.locator("h1").first.inner_text().lower() == name


@LONG
def test_pages_can_be_used_with_the_keyboard_alone(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector(".item")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "item":
            break
    name = page.evaluate("document.activeElement.querySelector('.name span').textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h1:has-text('{name}')")
    assert page.url.endswith(f"#/queries/{name}")


@LONG
def test_ten_thousand_queries_stay_usable(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector(".item")
    one = stage.viewer.get("/api/queries/busy")
    many = [{**one, "name": f"q{n:05}"} for n in range(10_000)]

    def answer(route: Any) -> None:
        from urllib.parse import parse_qs, urlsplit

        given = parse_qs(urlsplit(route.request.url).query)
        first = int(given.get("offset", ["0"])[0])
        route.fulfill(json={"total": len(many), "offset": first, "queries": many[first : first + 200]})

    page.route(re.compile(r".*/api/queries\?.*"), answer)
    page.get_by_label("Search queries").fill("q")
    page.wait_for_selector("text=10,000 queries")
    page.evaluate("document.querySelector('.list').scrollTop = 56 * 9000")
    page.wait_for_selector("text=q09000")
    assert page.locator(".item").count() < 40


CHURN = (Path(__file__).parent / "churn.js").read_text()
UPDATES = 300
"""Of each page, by turns; 1,800 of each take half an hour where a page updates once a second."""


@LONG
@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_no_more_after_many_updates(stage: Stage, opened: Callable[..., Page], name: str) -> None:
    page = opened("about:blank")
    page.add_init_script(CHURN)
    page.goto(stage.service.url)
    page.wait_for_selector("nav a")
    page.goto(f"{stage.service.address}/#/{name}")
    until(page, "document.querySelector('main').innerText.length > 40")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def held(updates: int) -> dict[str, float]:
        """What is left after some updates, when nothing more can be collected, beside what is shown."""
        page.evaluate("churn", updates)
        left: dict[str, float] = {}
        while True:
            session.send("HeapProfiler.collectGarbage")
            found = session.send("Performance.getMetrics")["metrics"]
            counts = {each["name"]: each["value"] for each in found if each["name"] in ("Nodes", "JSEventListeners")}
            if left and all(counts[kind] >= left[kind] for kind in left):
                return left | {"shown": page.evaluate("document.querySelectorAll('*').length")}
            left = counts

    held(30)
    before, after = held(30), held(UPDATES)
    assert after["shown"] == before["shown"]  # the same figures, so that axes have as many ticks
    for kind in ("Nodes", "JSEventListeners"):
        assert after[kind] <= before[kind] + 20, (kind, before, after)
