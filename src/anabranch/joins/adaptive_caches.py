"""A-Caching: caches in the probe pipelines of a join that come when they pay and go when they do not.

Chunks of rows run without caches are observed: what each window takes, how many partners there are, and with which
codes a segment is asked for. From that follows what each candidate would save and cost, in *steps*: a probe, a partner
listed, a comparison, a combination put into a cache. Steps are counted, not timed, so that the same rows lead to the
same caches. Where caches are used most chunks run with them, and one in `PLAIN_EVERY` without.

New rows of a window in a cached segment are joined with the others in it, and what belongs to codes that are there is
put in, before rows of the next input come: a cache always has the join of what its pipeline sees.

Notes
-----
Executor -> `combinations` and `update`; Profiler -> `_observe`, `MissProfile`; Re-optimizer -> `CacheStates`.

Differs from the paper
----------------------
A chunk of rows is one observation. Caches always hold the complete join of their segment, so that those without the
prefix invariant need no support counts; what they pay for instead are probes for their upkeep, which is part of their
cost. A used cache is judged by the steps that it took, not by estimates; it has to save a tenth of its segment.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 5.4 to 5.7.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from anabranch.joins.cache_candidates import Candidate, Identity, keeps_itself_right, segments
from anabranch.joins.cache_cost import CachePrice, Estimate, PipelineWork, benefit, expected_bytes, processing
from anabranch.joins.cache_states import CacheChange, CacheConfig, CacheStates
from anabranch.joins.cache_store import CacheStore, slot_bits
from anabranch.joins.cached_pipeline import CachedPipeline
from anabranch.joins.cached_segment import CachedSegment
from anabranch.joins.miss_profile import MissProfile
from anabranch.joins.probe_pipeline import Combinations, Holds, JoinRules, ProbePipeline, ProbeSteps
from anabranch.joins.segment_join import SegmentJoin
from anabranch.joins.window_store import LONG_OVER, Key, WindowStore
from anabranch.model.arrays import Mask, Order

PLAIN_EVERY = 32
UPDATE_STEPS = 2.0
MARGIN = 0.1
JUDGED_CHUNKS = 16
PAGE_BYTES = 4096
FADING = 0.5
GROWTH = 2


@dataclass(frozen=True)
class CacheUse:
    """What a cache has done for a pipeline.

    Parameters
    ----------
    windows
        What is joined in it.
    probes, misses
        Look-ups, and codes that had to be joined first.
    entries, nbytes
        Its size now.
    plain, taken
        Steps that the segment would have taken without it, and those it took, with upkeep.
    """

    windows: Order
    probes: int = 0
    misses: int = 0
    entries: int = 0
    nbytes: int = 0
    plain: float = 0.0
    taken: float = 0.0

    def after(self, before: CacheUse | None, *, elsewhere: bool = False) -> CacheUse:
        """With what was before it, or is in another cell, where sizes add up."""
        if before is None:
            return self
        added = {each: getattr(self, each) + getattr(before, each) for each in ("probes", "misses", "plain", "taken")}
        if elsewhere:
            added |= {each: getattr(self, each) + getattr(before, each) for each in ("entries", "nbytes")}
        return replace(self, **added)


@dataclass
class _Observed:
    """A chunk without caches."""

    rows: int
    windows: dict[int, ProbeSteps]


@dataclass
class _Account:
    """What a used cache has taken in a pipeline since it was judged last."""

    rows: int = 0
    steps: int = 0
    upkeep: int = 0
    all_rows: int = 0
    chunks: int = 0
    plain_rows: float = 0.0
    plain_steps: float = 0.0
    warm: bool = False
    told: CacheUse | None = None

    @property
    def judged(self) -> bool:
        """Whether it can be: it was there for long enough, and some rows went without it."""
        return self.chunks >= JUDGED_CHUNKS and self.plain_rows > 0


@dataclass
class _Lane:
    """One input."""

    plain: ProbePipeline
    order: Order
    observed: deque[_Observed]
    cached: CachedPipeline | None = None
    chunks: int = 0
    rows: float = 0.0
    fresh: bool = False
    cached_rows: int = 0
    changes: list[CacheChange] = field(default_factory=list)


class AdaptiveCaches:
    """The caches of one join.

    Parameters
    ----------
    pipelines
        Of all inputs.
    stores
        All windows.
    rules, holds
        What is joined.
    limit
        Bytes that all caches may take together.
    config
        How they are chosen.

    Attributes
    ----------
    steps
        Taken so far by rows that were joined with caches, and by the upkeep of caches.
    """

    def __init__(
        self,
        pipelines: Sequence[ProbePipeline],
        stores: Sequence[WindowStore],
        rules: JoinRules,
        holds: Holds,
        limit: int,
        config: CacheConfig,
    ) -> None:
        self._stores, self._rules, self._holds = stores, rules, holds
        self.limit, self._config = limit, config
        self._lanes = [_Lane(each, each.order, deque(maxlen=config.observations)) for each in pipelines]
        self._joins: dict[frozenset[int], SegmentJoin] = {}
        self._caches: dict[Identity, CacheStore] = {}
        self._accounts: dict[Candidate, _Account] = {}
        self._profiles: dict[Candidate, MissProfile] = {}
        self._estimates: dict[Candidate, Estimate] = {}
        self._now = LONG_OVER
        self.steps = 0
        self._states = CacheStates(self._candidates(), config)
        self._watch()

    @property
    def used(self) -> list[Candidate]:
        """Those in use."""
        return self._states.used

    @property
    def candidates(self) -> list[Candidate]:
        """What could be used, in the present orders."""
        return self._states.candidates

    @property
    def nbytes(self) -> int:
        """Bytes of all caches."""
        return sum(each.nbytes for each in self._caches.values())

    def combinations(self, number: int, first: int, until: int) -> Iterator[Combinations]:
        """All combinations with new rows of an input."""
        lane = self._lanes[number]
        lane.fresh = lane.fresh or until > first
        while first < until:
            lane.chunks += 1
            if lane.cached is None or lane.chunks % PLAIN_EVERY == 0 or self._wants_plain(lane):
                size, found = self._observe(number, lane, first, until)
            else:
                size, found = self._look_up(lane, first, until)
            if found is not None:
                yield found
            first += size
            lane.rows += size
            for account in self._accounts.values():
                account.chunks += 1
            if self._states.pass_by(1):
                self._apply([])
                self._watch()
            if self._states.ready(number):
                self._decide()

    def update(self, number: int, first: int, until: int) -> None:
        """Rows have come to a window: put what follows from them into the caches that have it."""
        if first == until:
            return
        for (windows, key, _), cache in self._caches.items():
            if number not in windows:
                continue
            join, rows = self._join(windows), np.arange(first, until)
            before = join.steps
            if all(number in self._rules.classes[each] for each in key):
                rows = rows[cache.knows(self._stores[number].codes_of(key, rows))]
            steps = until - first
            if len(rows):
                parts = join.from_rows(number, rows)
                steps += join.steps - before + int(UPDATE_STEPS) * cache.insert(join.keyed(key, parts), parts)
            self.steps += steps
            users = [each for each in self._accounts if each.identity == (windows, key, frozenset())]
            for each in users:
                self._accounts[each].upkeep += steps // len(users)
        for account in self._accounts.values():
            account.all_rows += until - first

    def tidied(self, number: int, settled: bool, gone: int | Mask | None) -> None:
        """Rows of a window have other ends now, or other numbers."""
        for (windows, _, _), cache in self._caches.items():
            if number in windows:
                if gone is not None:
                    cache.renumber(number, gone)
                if settled:
                    cache.refresh(number, self._stores[number].end)

    def end_tick(self, now: int) -> None:
        """What was over by now does not matter any more; judge the caches."""
        self._now = now
        for cache in self._caches.values():
            cache.tidy(now)
        for number, lane in enumerate(self._lanes):
            if lane.cached is not None:
                for each in lane.cached.segments.values():
                    each.now = now
            if not lane.fresh:
                for candidate in self._states.profiled:
                    if candidate.pipeline == number:
                        self._states.observe(candidate)
            lane.fresh, lane.rows = False, lane.rows * FADING
        if any(self._states.ready(number) for number, lane in enumerate(self._lanes) if not lane.rows):
            self._decide()
        gone = self._states.watch({each: found for each in self.used if (found := self._judged(each))})
        if gone:
            self._apply(gone)
        self._allot()

    def use(self, chosen: Collection[Candidate], why: str = "asked for") -> None:
        """Use these caches and no others until the next choice."""
        self._apply(self._states.force(chosen, why))

    def take_changes(self, number: int) -> list[CacheChange]:
        """Hand over which caches of a pipeline came and went since the last call."""
        lane = self._lanes[number]
        taken, lane.changes = lane.changes, []
        return taken

    def take_cached_rows(self, number: int) -> int:
        """Hand over how many rows of an input were joined with caches since the last call."""
        lane = self._lanes[number]
        taken, lane.cached_rows = lane.cached_rows, 0
        return taken

    def take_use(self, number: int) -> list[CacheUse]:
        """Hand over what the caches of a pipeline have done since the last call."""
        lane = self._lanes[number]
        found = []
        for each, segment in lane.cached.segments.items() if lane.cached else ():
            account = self._accounts[each]
            now = self._total(lane, each, segment)
            before = account.told or CacheUse(each.windows)
            account.told = now
            steps = (now.plain - before.plain, now.taken - before.taken)
            counts = (now.probes - before.probes, now.misses - before.misses)
            found.append(CacheUse(each.windows, *counts, now.entries, now.nbytes, *steps))
        return found

    # --- the Executor

    def _look_up(self, lane: _Lane, first: int, until: int) -> tuple[int, Combinations | None]:
        assert lane.cached is not None
        before = {each: lane.cached.steps(each) for each in lane.cached.segments}
        begin = lane.cached.all_steps
        size, found = lane.cached.chunk(first, until)
        self.steps += lane.cached.all_steps - begin
        lane.cached_rows += size
        for each, steps in before.items():
            account = self._accounts[each]
            account.rows += size
            account.steps += lane.cached.steps(each) - steps
        return size, found

    def _apply(self, changes: Sequence[CacheChange]) -> None:
        """Use the caches that are to be used now, and forget the others."""
        wanted = {each.identity for each in self.used}
        self._caches = {identity: cache for identity, cache in self._caches.items() if identity in wanted}
        self._accounts = {each: self._accounts.get(each, _Account()) for each in self.used}
        for each in changes:
            self._lanes[each.candidate.pipeline].changes.append(each)
        for number, lane in enumerate(self._lanes):
            own = [each for each in self.used if each.pipeline == number]
            known = {} if lane.cached is None else lane.cached.segments
            if list(known) == own and (lane.cached is None or lane.cached.order == lane.order):
                continue
            found = {each: known[each] if each in known else self._segment(each) for each in own}
            lane.cached = CachedPipeline(lane.plain, self._stores, found) if own else None

    def _segment(self, candidate: Candidate) -> CachedSegment:
        if candidate.identity not in self._caches:
            profile = self._profiles.get(candidate)
            most = self.limit // max(len({each.identity for each in self.used}), 1)
            store = (
                CacheStore(sorted(candidate.windows), most, profile.entries)
                if profile
                else CacheStore(sorted(candidate.windows), most)
            )
            self._caches[candidate.identity] = store
        cache, join = self._caches[candidate.identity], self._join(frozenset(candidate.windows))
        segment = CachedSegment(cache, join, candidate.key, candidate.windows[0], self._stores)
        segment.now = self._now
        return segment

    def _join(self, windows: frozenset[int]) -> SegmentJoin:
        if windows not in self._joins:
            self._joins[windows] = SegmentJoin(windows, self._stores, self._rules, self._holds)
        return self._joins[windows]

    def _wants_plain(self, lane: _Lane) -> bool:
        """Whether a cache cannot be judged because no rows went without it."""
        accounts = [self._accounts[each] for each in lane.cached.segments] if lane.cached else []
        return any(each.chunks >= JUDGED_CHUNKS and not each.plain_rows for each in accounts)

    # --- the Profiler

    def _observe(self, number: int, lane: _Lane, first: int, until: int) -> tuple[int, Combinations | None]:
        if lane.cached is None and not lane.plain.watched:
            size, found = lane.plain.chunk(first, until)
        else:
            size, found = self._profile(number, lane, first, until)
        if lane.plain.order != lane.order:
            lane.order = lane.plain.order
            self._apply(self._states.reorder(self._candidates()))
            self._watch()
        return size, found

    def _profile(self, number: int, lane: _Lane, first: int, until: int) -> tuple[int, Combinations | None]:
        plain = lane.plain
        before = {other: replace(steps) for other, steps in plain.steps.items()}
        plain.codes.clear()
        size, found = plain.chunk(first, until)
        took = {other: plain.steps[other].since(was) for other, was in before.items()}
        lane.observed.append(_Observed(size, took))
        for each in lane.cached.segments if lane.cached else ():
            account = self._accounts[each]
            account.plain_rows += size
            account.plain_steps += sum(took[window].steps for window in each.windows)
        for each in self._states.profiled:
            if each.pipeline == number:
                codes = plain.codes.get(each.windows[0])
                if codes is not None:
                    self._profiles[each].observe(codes)
                self._states.observe(each)
        return size, found

    def _watch(self) -> None:
        """Look at the codes that profiled candidates would be asked for."""
        profiled = self._states.profiled
        bits = slot_bits(self.limit)
        self._profiles = {each: self._profiles.get(each) or MissProfile(bits) for each in profiled}
        for number, lane in enumerate(self._lanes):
            lane.plain.watched = frozenset(each.windows[0] for each in profiled if each.pipeline == number)

    def _candidates(self) -> list[Candidate]:
        """Segments in the present orders, first those that keep themselves right, then the longest others."""
        orders = [lane.order for lane in self._lanes]
        found = list(segments(orders, self._key))
        ready = [each for each in found if keeps_itself_right(each.windows, orders)]
        others = sorted((each for each in found if each not in ready), key=lambda each: -len(each.windows))
        used = [each for each in others if each in self._accounts]
        others = [*used, *(each for each in others if each not in used)]
        return [*ready, *others[: max(len(used), self._config.most_candidates - len(ready))]]

    def _key(self, pipeline: int, before: Order, windows: Order) -> Key | None:
        key = self._lanes[pipeline].plain.tree.keys[windows[0]]
        return key if key and self._join(frozenset(windows)).connected else None

    def _sums(self, lane: _Lane) -> tuple[int, dict[int, ProbeSteps]]:
        rows = sum(each.rows for each in lane.observed)
        none = {other: ProbeSteps() for other in lane.plain.tree.others}
        for each in lane.observed:
            none = {other: steps + each.windows[other] for other, steps in none.items()}
        return rows, none

    def _rate(self, number: int) -> float:
        """Rows of an input, of all that come."""
        return self._lanes[number].rows / max(sum(lane.rows for lane in self._lanes), 1e-9)

    def _plain_steps(self, candidate: Candidate) -> float:
        """Steps that a segment takes without a cache, per row of its pipeline."""
        rows, windows = self._sums(self._lanes[candidate.pipeline])
        return sum(windows[each].steps for each in candidate.windows) / max(rows, 1)

    def _estimate(self, candidate: Candidate) -> Estimate:
        """What a candidate would save and cost, in steps per row of any input."""
        rows, windows = self._sums(self._lanes[candidate.pipeline])
        rate, profile = self._rate(candidate.pipeline), self._profiles.get(candidate)
        asked = rate * windows[candidate.windows[0]].asked / max(rows, 1)
        work = rate * self._plain_steps(candidate)
        if not asked or profile is None:
            return Estimate(0.0, MARGIN * work)
        size = prod(windows[each].reach for each in candidate.windows)
        places = len(candidate.windows)
        entering = (*[0.0] * candidate.place, asked, *[0.0] * (places - 1), asked * size)
        flow = PipelineWork(entering, (*[0.0] * candidate.place, work / asked, *[0.0] * (places - 1)))
        price = CachePrice(1.0 + size, UPDATE_STEPS, profile.miss)
        upkeep = sum(self._rate(each) * self._follow_up(candidate, each) for each in candidate.windows)
        return Estimate(
            benefit(candidate, flow, price),
            upkeep + MARGIN * work,
            processing(candidate, flow, price),
            expected_bytes(candidate, flow, profile.entries),
        )

    def _follow_up(self, candidate: Candidate, member: int) -> float:
        """Steps to put what follows from a new row of a window into a cache."""
        _, windows = self._sums(self._lanes[member])
        others = [each for each in candidate.windows if each != member]
        return 1.0 + len(others) + (1.0 + UPDATE_STEPS) * prod(windows[each].reach for each in others)

    # --- the Re-optimizer

    def _decide(self) -> None:
        for each in self._states.candidates:
            known = self._measured(each) or (self._estimate(each) if each in self._profiles else None)
            self._estimates[each] = known or self._estimates.get(each) or Estimate(0.0, 0.0)
        work = {
            (number, place): self._rate(number) * self._plain_steps(Candidate(number, place, (other,)))
            for number, lane in enumerate(self._lanes)
            for place, other in enumerate(lane.order)
        }
        self._apply(self._states.decide(self._estimates, work))
        self._allot()
        self._watch()

    def _allot(self) -> None:
        """Share the memory out: caches that save most per byte get what they want first, and the first what is left."""
        wants: dict[Identity, Estimate] = {}
        for each in self.used:
            known, cache = self._estimates.get(each, Estimate(0.0, 0.0)), self._caches[each.identity]
            most = max(known.nbytes, GROWTH * cache.nbytes, PAGE_BYTES)
            wants[each.identity] = Estimate(known.benefit, known.cost, nbytes=most)
        ordered = sorted(wants, key=lambda each: -wants[each].priority)
        left = self.limit
        for identity in ordered:
            cache = self._caches[identity]
            cache.limit = max(0, min(left, int(wants[identity].nbytes)))
            left -= cache.limit
        if ordered:
            self._caches[ordered[0]].limit += max(0, left)
        for cache in self._caches.values():
            if cache.nbytes > cache.limit:
                cache.clear()

    def _measured(self, candidate: Candidate) -> Estimate | None:
        """What a used cache saves and costs, if it was used for long enough, with rows that went without it."""
        account = self._accounts.get(candidate)
        if account is None or not account.warm or not account.judged:
            return None
        rate, plain = self._rate(candidate.pipeline), account.plain_steps / account.plain_rows
        took = account.steps / account.rows if account.rows else plain
        upkeep = account.upkeep / max(account.all_rows, 1)
        nbytes = self._caches[candidate.identity].nbytes
        return Estimate(rate * (plain - took), upkeep, rate * took, nbytes)

    def _judged(self, candidate: Candidate) -> Estimate | None:
        """The same, each time that there is enough to judge; a cache that has just begun is given time to fill."""
        account = self._accounts[candidate]
        if not account.judged:
            return None
        found = self._measured(candidate)
        plain = FADING * account.plain_rows, FADING * account.plain_steps
        self._accounts[candidate] = _Account(plain_rows=plain[0], plain_steps=plain[1], warm=True, told=account.told)
        if found is not None:
            self._estimates[candidate] = found
        return found

    def _total(self, lane: _Lane, candidate: Candidate, segment: CachedSegment) -> CacheUse:
        assert lane.cached is not None
        cache, rows = segment.cache, lane.cached.rows
        taken = lane.cached.steps(candidate)
        counts = (segment.probes, segment.misses, cache.entries, cache.nbytes)
        return CacheUse(candidate.windows, *counts, rows * self._plain_steps(candidate), float(taken))
