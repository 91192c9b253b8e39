"""Predicates that call: rates, retries, kept answers, budgets, and how questions become calls."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.calls.answer_cache import FILE, AnswerCache
from anabranch.calls.asking import Asker, Asking
from anabranch.calls.client import CallClient
from anabranch.calls.keys import key_of
from anabranch.calls.meter import Meter
from anabranch.calls.rate import Rate, RateWindow
from anabranch.calls.reply import Bill, Reply, Unasked
from anabranch.calls.retry import RetryRules, retry_after
from anabranch.calls.rules import CallRules, call_rules
from anabranch.calls.shared_table import SharedTable
from anabranch.errors import DataError, QueryError, ResourceError
from anabranch.model.arrays import BoolMatrix, Rows
from anabranch.ordering import make
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.pipeline import FilterPipeline, Verdict
from anabranch.ordering.profile_price import ProfilePrice

# -- rates


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.4), st.floats(0, 0.5), st.integers(1, 30)), min_size=1, max_size=60))
def test_no_window_has_more_than_the_rate_whenever_the_service_counts(
    calls: list[tuple[float, float, int]],
) -> None:
    window = RateWindow(Rate(requests="5/s", tokens="60/s", call_tokens=30), most_seconds=1.0)
    table, now = window.new_table(), 0.0
    open_calls: list[tuple[float, int, int]] = []
    counted: list[tuple[float, int]] = []
    for pause, takes, tokens in calls:
        now += pause
        while True:
            for ends, place, took in [c for c in open_calls if c[0] <= now]:
                window.give_back(table, place, ends, took)
                open_calls.remove((ends, place, took))
            found = window.take(table, now)
            if found is not None:
                break
            now += 0.05
        open_calls.append((now + takes, found, tokens))
        counted.append((now + takes * 0.7, tokens))  # somewhere between start and end
    for start, _ in counted:
        within = [tokens for at, tokens in counted if start <= at < start + 1.0]
        assert len(within) <= 5
        assert sum(within) <= 60


def test_a_place_of_a_call_that_never_ended_is_free_in_the_end() -> None:
    window = RateWindow(Rate(requests="1/s"), most_seconds=2.0)
    table = window.new_table()
    assert window.take(table, now=10.0) == 0
    assert window.take(table, now=12.9) is None
    assert window.take(table, now=13.0) == 0


def test_until_tokens_are_known_calls_go_one_at_a_time() -> None:
    window = RateWindow(Rate(tokens="100/s"), most_seconds=2.0)
    table = window.new_table()
    first = window.take(table, now=0.0)
    assert first is not None
    assert window.take(table, now=0.0) is None
    window.give_back(table, first, now=0.1, tokens=20)
    assert [window.take(table, now=0.1) is not None for _ in range(5)] == [True] * 4 + [False]


@pytest.mark.parametrize("text", ["600", "0/min", "ten/min", "5/fortnight"])
def test_a_rate_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="rate of requests"):
        Rate(requests=text)


# -- retries


class ServiceError(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


def test_only_refusals_of_the_moment_are_tried_again() -> None:
    rules = RetryRules(retries=2)
    again = [rules.delay(error, attempt=0, draw=0.0) for error in (ServiceError(429), ServiceError(503))]
    assert all(delay is not None and delay > 0 for delay in again)
    assert rules.delay(ConnectionRefusedError(), attempt=0, draw=0.0) is not None
    never = [ServiceError(400), ServiceError(404), ValueError(), TimeoutError()]
    assert [rules.delay(error, attempt=0, draw=0.0) for error in never] == [None] * 4
    assert rules.delay(ServiceError(429), attempt=2, draw=0.0) is None


def test_delays_grow_and_heed_retry_after() -> None:
    rules = RetryRules(retries=20)
    delays = [rules.delay(ServiceError(500), attempt=n, draw=1.0) for n in range(12)]
    assert delays == sorted(delays, key=lambda d: d or math.inf)
    assert delays[-1] == 60.0
    assert rules.delay(ServiceError(429, Retry_After="7"), attempt=0, draw=0.0) == 7.0
    assert retry_after(ServiceError(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")) == 0.0


# -- answers


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(values, values)
def test_keys_are_equal_where_arguments_are(one: Any, other: Any) -> None:
    same = key_of("p", "1", (one,)) == key_of("p", "1", (other,))
    assert same == (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return ("map", sorted((repr(k), _sorted(v)) for k, v in value.items()))
    return [_sorted(v) for v in value] if isinstance(value, list) else value


def test_an_argument_that_has_no_key_is_refused() -> None:
    with pytest.raises(DataError, match="no answer can be kept"):
        key_of("p", "1", (object(),))


def test_answers_survive_and_the_first_one_stays(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path)
    cache.keep(b"a", Reply([1, {"x": 2.5}], tokens=3))
    cache.keep(b"a", Reply("another"))
    cache.close()
    keys = [b"a", *(b"%d" % n for n in range(2000))]
    assert AnswerCache(tmp_path).find(keys) == {b"a": [1, {"x": 2.5}]}


# -- budgets


def _spend(path: Path, times: int) -> None:
    meter = Meter(path, budget=1.0)
    for _ in range(times):
        if meter.reserve(0.01):
            meter.settle(0.01, Bill(calls=1, money=0.01))


def test_processes_together_keep_within_the_budget(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    spenders = [context.Process(target=_spend, args=(tmp_path / "meter", 60)) for _ in range(3)]
    for each in spenders:
        each.start()
    for each in spenders:
        each.join()
    total = Meter(tmp_path / "meter").total()
    assert 99 <= total.calls <= 100
    assert total.money <= 1.0 + 1e-9


# -- asking


class Service:
    """Counts what it is asked; a text that starts with a digit is refused so many times first."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.asked: Counter[str] = Counter()
        self.most_at_once = self._now = 0
        self._seconds = seconds

    async def score(self, text: str) -> Reply:
        self.asked[text] += 1
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(60.0 if text == "hangs" else self._seconds)
        finally:
            self._now -= 1
        if text == "bad":
            raise ValueError("no JSON")
        if text[0].isdigit() and self.asked[text] <= int(text[0]):
            raise ServiceError(429, Retry_After="0.01")
        return Reply(len(text), tokens=10, money=0.01)


def asker_of(folder: Path, function: Any, **rules: Any) -> Asker:
    return Asker(
        "score",
        function,
        CallRules(**rules),
        AnswerCache(folder),
        lambda places: SharedTable(folder / "places", places, 3),
    )


def no_places(places: int) -> SharedTable:
    raise AssertionError("there is no rate")


def asking(folder: Path, slots: int = 8, budget: float | None = None, scope: str = "") -> Asking:
    return Asking(asyncio.Semaphore(slots), Meter(folder / "meter", budget), scope)


def test_equal_rows_are_asked_once_and_never_again(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker, by = asker_of(tmp_path, service.score), asking(tmp_path)
        rows = [("a",), ("bb",), ("a",), ("a",)]
        both = await asyncio.gather(asker.ask(rows, by), asker.ask(rows, by))
        for answers, _ in both:
            assert [each.value for each in answers] == [1, 2, 1, 1]
        bill = Bill()
        for _, each in both:
            bill.add(each)
        assert (bill.calls, bill.hits) == (2, 6)
        again, bill = await asker_of(tmp_path, service.score).ask(rows, by)
        assert (bill.calls, bill.hits, [each.value for each in again]) == (0, 4, [1, 2, 1, 1])

    asyncio.run(run())
    assert service.asked == {"a": 1, "bb": 1}


def test_refusals_are_tried_again_and_errors_stay_with_their_rows(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker = asker_of(tmp_path, service.score, retries=3, timeout=0.2)
        answers, bill = await asker.ask([("2x",), ("bad",), ("hangs",), ("ok",), ("9x",)], asking(tmp_path))
        assert [each.value for each in answers] == [2, None, None, 2, None]
        said = [each.problem for each in answers if each.problem]
        assert re.fullmatch(r"ValueError: no JSON \(test_calls.py, line \d+\)", said[0])
        assert said[1] == "TimeoutError: no answer in 0.2 s"
        assert "ServiceError" in said[2]
        assert (bill.calls, bill.retries) == (2, 5)

    asyncio.run(run())
    assert service.asked == {"2x": 3, "bad": 1, "hangs": 1, "ok": 1, "9x": 4}


def test_failures_are_remembered_for_a_filter_that_asks_about_them_again(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker = asker_of(tmp_path, service.score)
        for scope, times in (("f", 1), ("f", 1), ("g", 2), ("", 3), ("", 4)):
            (answer,), _ = await asker.ask([("bad",)], asking(tmp_path, scope=scope))
            assert answer.problem is not None
            assert answer.problem.startswith("ValueError: no JSON (test_calls.py, line ")
            assert service.asked["bad"] == times

    asyncio.run(run())


def test_concurrency_holds_and_lists_are_given_with_batch(tmp_path: Path) -> None:
    service, sizes = Service(seconds=0.02), []

    async def many(texts: list[str]) -> Reply:
        sizes.append(len(texts))
        return Reply([len(text) for text in texts], money=0.5)

    async def run() -> None:
        await asker_of(tmp_path, service.score).ask([(f"t{n}",) for n in range(40)], asking(tmp_path, slots=5))
        batching = asker_of(tmp_path / "b", many, batch=4)
        answers, bill = await batching.ask([("x" * n,) for n in range(1, 11)], asking(tmp_path))
        assert [each.value for each in answers] == list(range(1, 11))
        assert (bill.calls, bill.money) == (3, 1.5)

    asyncio.run(run())
    assert service.most_at_once == 5
    assert sorted(sizes) == [2, 4, 4]


def test_a_plain_function_runs_in_threads(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def meets(number: int) -> int:
        barrier.wait(10)  # returns only if four calls are under way
        return number + 1

    async def run() -> None:
        asker = asker_of(tmp_path, meets, concurrency=4)
        answers, _ = await asker.ask([(n,) for n in range(4)], asking(tmp_path))
        assert [each.value for each in answers] == [1, 2, 3, 4]

    asyncio.run(run())


class Model:
    """A function that is an object, and asynchronous."""

    async def __call__(self, text: str) -> int:
        await asyncio.sleep(0)
        return len(text)


def test_whatever_returns_something_to_await_is_awaited(tmp_path: Path) -> None:
    async def run() -> None:
        answers, _ = await asker_of(tmp_path, Model()).ask([("abc",)], asking(tmp_path))
        assert [each.value for each in answers] == [3]

    asyncio.run(run())


def test_a_bill_that_is_none_is_an_error_of_its_row(tmp_path: Path) -> None:
    async def confused(money: Any) -> Reply:
        return Reply(True, money=money)

    async def run() -> None:
        asker = asker_of(tmp_path, confused, cost="money")
        for money in ("0.1", -1.0, math.nan, True):
            (answer,), _ = await asker.ask([(money,)], asking(tmp_path, budget=1.0))
            assert answer.problem is not None
            assert f"a reply has money={money!r}" in answer.problem
        (answer,), bill = await asker.ask([(0.1,)], asking(tmp_path, budget=1.0))
        assert (answer.value, bill.money) == (True, 0.1)
        priced = asker_of(tmp_path / "priced", Model(), cost=0.25)
        _, bill = await priced.ask([("a",), ("b",), ("a",)], asking(tmp_path, budget=1.0))
        assert (bill.calls, bill.money) == (2, 0.5)

    asyncio.run(run())


def test_a_spent_budget_leaves_rows_unasked_and_known_answers_known(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker, rows = asker_of(tmp_path, service.score), [(f"t{n}",) for n in range(100)]
        by = asking(tmp_path, slots=4, budget=0.3)
        answers, bill = await asker.ask(rows, by)
        assert 0.3 <= bill.money + 1e-9 <= 0.3 + 4 * 0.01
        assert sum(isinstance(each.problem, Unasked) for each in answers) == bill.unasked == 100 - bill.calls
        again, more = await asker.ask(rows, by)
        assert more.money == 0
        assert again == answers

    asyncio.run(run())


def test_a_call_that_has_begun_ends_though_who_asked_has_gone(tmp_path: Path) -> None:
    service = Service(seconds=0.1)

    async def run() -> None:
        asker = asker_of(tmp_path, service.score)
        gone = asyncio.create_task(asker.ask([(f"t{n}",) for n in range(20)], asking(tmp_path, slots=3)))
        while len(service.asked) < 3:
            await asyncio.sleep(0.005)
        gone.cancel()
        while asker.busy:
            await asyncio.sleep(0.005)
        assert len(service.asked) == 3
        answers, bill = await asker.ask([(f"t{n}",) for n in range(20)], asking(tmp_path))
        assert (bill.calls, bill.hits) == (17, 3)
        assert all(each.problem is None for each in answers)

    asyncio.run(run())
    assert set(service.asked.values()) == {1}


def test_the_rate_holds_over_several_askers(tmp_path: Path) -> None:
    arrivals: list[float] = []

    async def noted(number: int) -> int:
        arrivals.append(time.time())
        return number

    async def run() -> None:
        rate = Rate(requests="10/0.5 s")
        askers = [asker_of(tmp_path / str(n), noted, rate=rate, timeout=0.5) for n in range(2)]
        for each in askers:  # both use one file of places
            each._places = SharedTable(tmp_path / "places", 10, 3)
        rows = [[(n,) for n in range(start, start + 15)] for start in (0, 100)]
        await asyncio.gather(*(a.ask(r, asking(tmp_path)) for a, r in zip(askers, rows, strict=True)))

    asyncio.run(run())
    assert len(arrivals) == 30
    assert max(sum(start <= at < start + 0.5 for at in arrivals) for start in arrivals) <= 10


def test_predicates_that_keep_answers_under_one_name_ask_once(tmp_path: Path) -> None:
    """Two programs have pickled one function: it is another predicate to the caller, and the same question."""
    service = Service(seconds=0.05)

    async def run() -> None:
        cache, under_way = AnswerCache(tmp_path), dict[bytes, Any]()
        rules = [CallRules(concurrency=n) for n in (4, 8)]
        askers = [Asker("score", service.score, each, cache, no_places, under_way) for each in rules]
        rows = [(f"t{n}",) for n in range(6)]
        bills = await asyncio.gather(*(each.ask(rows, asking(tmp_path)) for each in askers))
        assert [[answer.value for answer in answers] for answers, _ in bills] == [[2] * 6] * 2
        assert sum(bill.calls for _, bill in bills) == 6
        assert not under_way

    asyncio.run(run())
    assert set(service.asked.values()) == {1}


def test_the_spent_budget_of_another_filter_is_not_mine(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker = asker_of(tmp_path, service.score)
        budgets = {"poor": 0.005, "rich": 1.0}
        poor, rich = (Asking(asyncio.Semaphore(8), Meter(tmp_path / name, budgets[name]), name) for name in budgets)
        await asker.ask([("a",)], poor)
        rows = [("a",), ("bb",)]
        (some, _), (both, _) = await asyncio.gather(asker.ask(rows, poor), asker.ask(rows, rich))
        assert some[0].value == 1
        assert isinstance(some[1].problem, Unasked)
        assert [each.value for each in both] == [1, 2]

    asyncio.run(run())


def test_a_failure_of_another_filter_is_remembered(tmp_path: Path) -> None:
    service = Service()

    async def run() -> None:
        asker = asker_of(tmp_path, service.score)
        one, other = (Asking(asyncio.Semaphore(8), Meter(tmp_path / name), name) for name in ("one", "other"))
        together = [answers for answers, _ in await asyncio.gather(*(asker.ask([("bad",)], by) for by in (one, other)))]
        again = [(await asker.ask([("bad",)], by))[0] for by in (one, other)]
        assert together == again
        assert all((each.problem or "").startswith("ValueError: no JSON") for (each,) in together)

    asyncio.run(run())
    assert service.asked["bad"] == 1


def test_answers_that_cannot_be_kept_are_owed_and_no_more_are_paid(tmp_path: Path) -> None:
    service = Service()

    async def echo(text: str) -> str:
        service.asked[text] += 1
        return text

    async def run() -> None:
        cache = AnswerCache(tmp_path)
        asker = Asker("echo", echo, CallRules(), cache, no_places)
        (pages,) = cache._file.execute("pragma page_count").fetchone()
        cache._file.execute(f"pragma max_page_count = {pages}")  # the disk is full
        long = [("x" * 3000 + str(n),) for n in range(40)]
        answers, bill = await asker.ask(long, asking(tmp_path, slots=1))
        assert 0 < bill.calls < 40
        assert bill.calls == sum(service.asked.values())
        told = [each.problem for each in answers if each.problem]
        assert told
        assert all("answers cannot be kept in" in each for each in told)
        assert any("disk is full" in each for each in told)
        cache._file.execute("pragma max_page_count = 100000")
        answers, _ = await asker.ask(long, asking(tmp_path))
        assert [each.value for each in answers] == [text for (text,) in long]
        cache.close()
        assert len(AnswerCache(tmp_path).find([key_of("echo", "1", row) for row in long])) == 40

    asyncio.run(run())
    assert set(service.asked.values()) == {1}


# -- the process that calls


def client_of(folder: Path) -> CallClient:
    return CallClient("length", pickle.dumps(len), CallRules(), folder, folder.parent / "meter")


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"answers cannot be kept in '.*file/answers': .*Not a directory"):
        client_of(tmp_path / "file" / "answers")([["a"]], 1)


def test_a_caller_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / FILE).write_text("this is no database" * 100)
    with pytest.raises(ResourceError, match=r"answers cannot be kept in '.*answers': .*file is not a database"):
        client_of(tmp_path / "answers")([["a"]], 1)


PROGRAM = """
import os, sys
from pathlib import Path
from pyspark import cloudpickle
from anabranch.calls.client import CallClient
from anabranch.calls.rules import CallRules

sys.path.append(sys.argv[1])

async def asked(text):
    import their_model
    return os.environ["MODEL_KEY"] + their_model.SUFFIX

folder = Path(sys.argv[2])
ask = CallClient("asked", cloudpickle.dumps(asked), CallRules(), folder / "answers", folder / "meter")
print(ask([[sys.argv[3]]], 1))
"""


def run_program(path: Path, folder: Path, text: str, key: str) -> str:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(path), str(folder), text],
        env={**os.environ, "PYTHONPATH": paths, "MODEL_KEY": key},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_programs_with_one_folder_have_each_their_modules_and_secrets(tmp_path: Path) -> None:
    """The first one has started the process that calls, with its key, and cannot find what the others import."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "their_model.py").write_text("SUFFIX = '!'")
    first = run_program(tmp_path / "nothing", tmp_path, "a", "first-key")
    assert "No module named 'their_model'" in first
    assert run_program(tmp_path / "theirs", tmp_path, "a", "first-key") == "(['first-key!'], {})"
    assert run_program(tmp_path / "theirs", tmp_path, "b", "second-key") == "(['second-key!'], {})"
    assert run_program(tmp_path / "theirs", tmp_path, "a", "second-key") == "(['first-key!'], {})", "it was paid before"


THREADS_PROGRAM = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark import cloudpickle
from anabranch.calls.client import CallClient
from anabranch.calls.rules import CallRules

folder = Path(sys.argv[1])

async def twice(number):
    await asyncio.sleep(0.001)
    return 2 * number

def asks(start):
    ask = CallClient("twice", cloudpickle.dumps(twice), CallRules(), folder / "answers", folder / "meter")
    numbers = [[number] for number in range(start, start + 30)]
    return all(ask([each], 1) == ([2 * each[0]], {}) for each in numbers)

with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(asks, range(0, 120, 30))))
"""


def test_threads_of_one_worker_get_each_their_answers(tmp_path: Path) -> None:
    """Servers without Java run the tasks of a worker in threads."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-W", "ignore", "-c", THREADS_PROGRAM, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[True, True, True, True]\n"


SLOW_PROGRAM = """
import asyncio, sys
from pathlib import Path
from pyspark import cloudpickle
from anabranch.calls.client import CallClient
from anabranch.calls.rules import CallRules

folder = Path(sys.argv[1])

async def slow(number):
    await asyncio.sleep(0.02)
    with (folder / "paid").open("a") as paid:
        paid.write(f"{number}\\n")
    return number

ask = CallClient("slow", cloudpickle.dumps(slow), CallRules(concurrency=4), folder / "answers", folder / "meter")
print(ask([list(range(200))], 200)[0] == list(range(200)))
"""


def test_kills_of_those_who_ask_pay_no_call_twice(tmp_path: Path) -> None:
    """Without Spark, and three of them; ten kills of Spark's workers and drivers are in the full tier."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-W", "ignore", "-c", SLOW_PROGRAM, str(tmp_path)]
    paid = tmp_path / "paid"
    paid.write_text("")
    for _ in range(3):
        before = len(paid.read_text())
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as asking_program:
            while len(paid.read_text()) < before + 20:
                assert asking_program.poll() is None
            asking_program.kill()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert sorted(map(int, paid.read_text().split())) == list(range(200))


# -- what a user says


def test_options_that_cannot_be_are_refused() -> None:
    for option, value in [
        ("concurrency", 0),
        ("retries", -1),
        ("batch", 2.5),
        ("rate", "600/min"),
        ("timeout", "soon"),
    ]:
        with pytest.raises(QueryError, match=r"'p'"):
            call_rules("p", {option: value})


# -- what profiles are worth


def test_profiles_are_bought_while_they_can_earn_their_price() -> None:
    price, rng = ProfilePrice(), np.random.default_rng(0)
    costs = np.array([0.001, 0.01, 0.01])
    unsure = rng.random((60, 3)) < 0.5
    clear = np.column_stack([np.ones(60), rng.random((60, 2)) < 0.1]).astype(bool)
    assert price.worthwhile((0, 1, 2), unsure[:5], costs, rows=10) == 43
    assert price.worthwhile((0, 1, 2), unsure, costs, rows=10_000) > 20
    assert price.worthwhile((0, 1, 2), unsure, costs, rows=10) <= 1
    assert price.worthwhile((0, 1, 2), clear, costs, rows=10_000) == 0
    assert price.worthwhile((1, 2, 0), clear, costs, rows=1_000) > 100


@pytest.mark.parametrize("seed", range(3))
def test_what_learning_costs_is_little_beside_what_the_best_order_costs(seed: int) -> None:
    """Two workers, three predicates, the dearest written first; what the second says depends on the third."""
    rng, prices, clock = np.random.default_rng(seed), [0.010, 0.003, 0.001], [0.0]
    cheap = rng.random(12_000) < 0.4
    passes = np.column_stack([rng.random(12_000) < 0.6, rng.random(12_000) < np.where(cheap, 0.2, 0.4), cheap])
    spent = [0.0]
    for worker in range(2):
        mine, at = passes[worker::2], 0
        pipeline = FilterPipeline(
            make("auto", 3), price=ProfilePrice(), chunk_seconds=5.0, clock=lambda: clock[0], seed=seed + worker
        )
        while at < len(mine):
            chunk = mine[at : at + pipeline.chunk_rows(len(mine) - at)]

            def evaluate(f: int, rows: Rows, chunk: BoolMatrix = chunk) -> Verdict:
                spent[0] += prices[f] * len(rows)
                clock[0] += 0.1 * (1 + len(rows) // 64)
                return Verdict(chunk[rows, f], bill=Bill(calls=len(rows), money=prices[f] * len(rows)))

            pipeline.process(len(chunk), evaluate)
            at += len(chunk)
        assert pipeline.reoptimizer.order == (2, 1, 0)
    best = min(float(row_costs(order, ~passes, np.array(prices)).sum()) for order in permutations(range(3)))
    assert best <= spent[0] <= 1.1 * best


# -- secrets


def test_an_error_is_reported_without_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "tk-0123456789")

    async def refused(text: str) -> bool:
        raise PermissionError(f"{os.environ['SERVICE_TOKEN']} is not valid")

    async def run() -> None:
        (answer,), _ = await asker_of(tmp_path, refused).ask([("a",)], asking(tmp_path, scope="f"))
        assert answer.problem is not None
        assert answer.problem.startswith("PermissionError: *** is not valid (")

    asyncio.run(run())
    assert not [path for path in tmp_path.iterdir() if b"tk-0123456789" in path.read_bytes()]
