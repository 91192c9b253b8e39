"""Asks a predicate's function about many rows at a time.

Equal rows are asked once for all tasks, and what was answered before not at all. A call waits for a place among those
under way, for money, and for the rate; it is made, made again where the service says so, and its answer is kept before
it counts. A call that has begun ends, though who asked may have gone meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from anabranch.calls.answer_cache import AnswerCache
from anabranch.calls.keys import key_of
from anabranch.calls.messages import message
from anabranch.calls.meter import Meter
from anabranch.calls.rate import RateWindow
from anabranch.calls.reply import Bill, Reply, Unasked
from anabranch.calls.retry import RetryRules, passing
from anabranch.calls.rules import CallRules
from anabranch.calls.secrets import redacted
from anabranch.calls.shared_table import SharedTable

BUDGET_SPENT = Unasked("the budget is spent")
LONGEST_WAIT = 0.05
"""Seconds between two looks at the rate: an answer may have made room meanwhile."""
AFTERWARDS = 1.0
"""Seconds after its time-out in which a call has ended for sure."""

Keys = list[bytes]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """The value for a row; or why there is none, which is an error unless the row was not asked (`Unasked`)."""

    value: Any = None
    problem: str | None = None


@dataclass(frozen=True)
class Asking:
    """Who asks: what limits the calls under way, what counts them, and for which filter failures are remembered."""

    slots: asyncio.Semaphore
    meter: Meter
    scope: str = ""


class Asker:
    """Calls the function of one predicate.

    Parameters
    ----------
    name, function, rules
        Of the predicate.
    cache
        Answers so far; None where they must not be used again (a volatile predicate).
    places
        Places of calls under the rate.
    under_way
        Calls of all predicates whose answers are kept together, by key: two that keep theirs under one name ask once.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        rules: CallRules,
        cache: AnswerCache | None,
        places: Callable[[int], SharedTable],
        under_way: dict[bytes, asyncio.Future[Answer]] | None = None,
    ) -> None:
        self.name, self.function, self.rules = name, function, rules
        self._cache = cache
        self._window = RateWindow(rules.rate, rules.timeout + AFTERWARDS) if rules.rate else None
        self._places = places(self._window.places) if self._window else None
        self._retry = RetryRules(rules.retries)
        self._under_way = {} if under_way is None else under_way
        self._tasks: set[asyncio.Task[Bill]] = set()
        self._line = asyncio.Lock()
        self._paid, self._calls = 0.0, 0
        threaded = not inspect.iscoroutinefunction(function)
        self._threads = ThreadPoolExecutor(rules.concurrency) if threaded else None

    @property
    def busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._tasks)

    async def ask(self, rows: Sequence[Row], by: Asking) -> tuple[list[Answer], Bill]:
        """An answer for every row, and what they have cost."""
        if self._cache is None:
            keys = [b"%d" % at for at in range(len(rows))]  # rows that are equal are asked each
        else:
            keys = [key_of(self.rules.kept_as or self.name, self.rules.version, row) for row in rows]
        distinct = dict(zip(keys, rows, strict=True))
        found = self._known(list(distinct), by.scope)
        new = [key for key in distinct if key not in found]
        step = self.rules.batch or 1
        groups = [{key: distinct[key] for key in new[at : at + step]} for at in range(0, len(new), step)]
        bill = Bill()
        for answers, spent in await asyncio.gather(*(self._in_turn(group, by) for group in groups)):
            found |= answers
            bill.add(spent)
        given = [found[key] for key in keys]
        bill.unasked = sum(isinstance(each.problem, Unasked) for each in given)
        bill.hits = len(rows) - bill.unasked - bill.hits  # where rows were counted that a call was made for
        by.meter.settle(0.0, Bill(hits=bill.hits, unasked=bill.unasked))
        by.meter.write()
        return given, bill

    def _known(self, keys: Keys, scope: str) -> dict[bytes, Answer]:
        if self._cache is None:
            return {}
        failed = self._cache.failures(keys, scope) if scope else {}
        found = self._cache.find([key for key in keys if key not in failed])
        return {key: Answer(value) for key, value in found.items()} | {
            key: Answer(problem=said) for key, said in failed.items()
        }

    async def _in_turn(self, group: dict[bytes, Row], by: Asking) -> tuple[dict[bytes, Answer], Bill]:
        """Answers for some rows, by one call at most; another worker may have asked about them meanwhile."""
        async with by.slots:
            if self._cache is None:
                return await self._begin(group, by)
            others = {key: self._under_way[key] for key in group if key in self._under_way}
            found = self._known([key for key in group if key not in others], by.scope)
            new = {key: row for key, row in group.items() if key not in others and key not in found}
            answers, bill = await self._begin(new, by) if new else ({}, Bill())
        answers |= found | {key: await asyncio.shield(future) for key, future in others.items()}
        return await self._own(answers, group, others, by, bill)

    async def _own(
        self, answers: dict[bytes, Answer], group: dict[bytes, Row], others: Iterable[bytes], by: Asking, bill: Bill
    ) -> tuple[dict[bytes, Answer], Bill]:
        """What others got instead of an answer is theirs: a spent budget is another one's, a failure is remembered."""
        failed = [key for key in others if answers[key].problem is not None]
        spared = {key: group[key] for key in failed if isinstance(answers[key].problem, Unasked)}
        for key in failed:
            if key not in spared:
                answers |= self._failed([key], answers[key].problem or "", by)
        if spared:
            again, more = await self._in_turn(spared, by)
            answers |= again
            bill.add(more)
        return answers, bill

    async def _begin(self, group: dict[bytes, Row], by: Asking) -> tuple[dict[bytes, Answer], Bill]:
        futures = {key: asyncio.get_running_loop().create_future() for key in group}
        if self._cache is not None:
            self._under_way |= futures
        task = asyncio.create_task(self._call(group, futures, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        bill = await asyncio.shield(task)
        return {key: future.result() for key, future in futures.items()}, bill

    async def _call(self, group: dict[bytes, Row], futures: dict[bytes, asyncio.Future[Answer]], by: Asking) -> Bill:
        """One call, paid, kept and counted."""
        bill, expected = Bill(), self._expected_money()
        answers: dict[bytes, Answer]
        try:
            if self._cache is not None:
                self._cache.keep_owed()  # where answers cannot be kept, no more of them are paid
            if by.meter.reserve(expected):
                try:
                    values = await self._values(list(group.values()), bill)
                    answers = {key: Answer(value) for key, value in zip(group, values, strict=True)}
                    self._keep(answers, bill)
                except Exception as error:
                    answers = self._failed(group, redacted(message(error)), by)
                finally:
                    by.meter.settle(expected, bill)
                    bill.hits = len(group)  # see `ask`
            else:
                answers = self._failed(group, BUDGET_SPENT, by)
        except BaseException as error:
            answers = dict.fromkeys(group, Answer(problem=redacted(message(error))))
        for key, future in futures.items():
            if self._under_way.get(key) is future:
                del self._under_way[key]
            future.set_result(answers[key])
        return bill

    def _failed(self, group: Iterable[bytes], said: str, by: Asking) -> dict[bytes, Answer]:
        if by.scope and self._cache is not None:
            for key in group:
                self._cache.fail(key, by.scope, said)
        return {key: Answer(problem=said) for key in group}

    def _keep(self, answers: dict[bytes, Answer], bill: Bill) -> None:
        if self._cache is not None:
            tokens, money = bill.tokens / len(answers), bill.money / len(answers)
            for key, answer in answers.items():
                self._cache.keep(key, Reply(answer.value, tokens, money))

    async def _values(self, rows: Sequence[Row], bill: Bill) -> list[Any]:
        """The function's answers on some rows; refusals of the moment are tried again."""
        attempt = 0
        while True:
            try:
                reply = await self._attempt(rows, bill)
                break
            except Exception as error:
                delay = self._retry.delay(error, attempt=attempt, draw=random.random())
                if delay is None:
                    raise
                attempt += 1
                bill.retries += 1
                await asyncio.sleep(delay)
        if self.rules.batch is None:
            return [reply.value]
        if not isinstance(reply.value, list | tuple) or len(reply.value) != len(rows):
            size = len(reply.value) if isinstance(reply.value, list | tuple) else type(reply.value).__name__
            raise ValueError(f"with batch it returns a list with a value for each of {len(rows)} rows, not {size}")
        return list(reply.value)

    async def _attempt(self, rows: Sequence[Row], bill: Bill) -> Reply:
        place = await self._place()
        took: float | None = None
        try:
            reply = await self._within_time(rows)
            took = reply.tokens
        except Exception as error:
            took = 0.0 if passing(error) else None
            raise
        finally:
            self._give_back(place, took)
        money = self.rules.price if reply.money is None else reply.money
        bill.calls += 1
        bill.tokens += reply.tokens
        bill.money += money or 0.0
        self._paid, self._calls = self._paid + (money or 0.0), self._calls + 1
        if money is None and self.rules.cost == "money":
            raise ValueError('it has cost="money", and its reply does not tell: return ab.Reply(value, money=...)')
        return reply

    async def _within_time(self, rows: Sequence[Row]) -> Reply:
        arguments = rows[0] if self.rules.batch is None else [list(column) for column in zip(*rows, strict=True)]
        limit = self.rules.timeout
        try:
            async with asyncio.timeout(limit) as alarm:
                if self._threads is None:
                    answer = await self.function(*arguments)
                else:
                    loop = asyncio.get_running_loop()
                    answer = await loop.run_in_executor(self._threads, lambda: self.function(*arguments))
                    if inspect.isawaitable(answer):  # a callable object, or a lambda around an async function
                        answer = await answer
        except TimeoutError:
            if alarm.expired():
                raise TimeoutError(f"no answer in {limit:g} s") from None
            raise
        return answer if isinstance(answer, Reply) else Reply(answer)

    async def _place(self) -> int | None:
        """A place under the rate; who came first is first."""
        if self._window is None or self._places is None:
            return None
        async with self._line:
            while True:
                with self._places.changing() as table:
                    now = time.time()
                    place = self._window.take(table, now)
                    wait = self._window.wait(table, now)
                if place is not None:
                    return place
                await asyncio.sleep(min(max(wait, 0.001), LONGEST_WAIT))

    def _give_back(self, place: int | None, tokens: float | None) -> None:
        if place is not None and self._window is not None and self._places is not None:
            with self._places.changing() as table:
                self._window.give_back(table, place, time.time(), tokens)

    def _expected_money(self) -> float:
        """What a call costs, as it was said or as calls have cost so far."""
        if self.rules.price is not None:
            return self.rules.price
        return self._paid / self._calls if self._calls else 0.0
