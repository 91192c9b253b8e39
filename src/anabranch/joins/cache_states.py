"""Adaptive selection of caches: used, profiled, unused, and when they change from one to the other.

All candidates begin *profiled*. Once all that is asked about them has been observed often enough, the best ones are
*used* and the others *unused*. After an interval they are profiled again. A used cache that costs more than it saves
becomes unused at once; one with nothing unused in it stays used while it is looked at, as nothing is hidden by it.
Where no estimate has changed by much the choice stays as it was.

>>> cache = Candidate(0, 0, (1, 2))
>>> states = CacheStates([cache], CacheConfig(observations=2, interval=100))
>>> states.state(cache)
'profiled'
>>> for _ in range(2):
...     states.observe(cache)
>>> states.decide({cache: Estimate(5, 1)}, {})
[CacheChange(candidate=Candidate(pipeline=0, place=0, windows=(1, 2), key=(), support=frozenset()), \
added=True, why='saves 5 for 1')]
>>> states.state(cache)
'used'
>>> states.watch({cache: Estimate(1, 2)})[0].why
'saves 1, costs 2'

Notes
-----
I -> `interval`; W -> `observations`; p -> `change_share`.

Differs from the paper
----------------------
A choice is made as soon as enough is known of the candidates of one pipeline, among all of which enough is known; the
others stay profiled. Inputs need not come equally often.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.5.5 and figure 5.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from anabranch.joins.cache_candidates import MOST_CANDIDATES, Candidate
from anabranch.joins.cache_cost import Estimate
from anabranch.joins.cache_selection import gain_of, select

State = Literal["used", "profiled", "unused"]


@dataclass(frozen=True)
class CacheConfig:
    """How caches are chosen.

    Parameters
    ----------
    observations
        So many of each statistic are needed for a choice.
    interval
        Rows, or chunks of rows, after a choice until candidates are profiled again.
    change_share
        The choice stays while no benefit or cost has changed by more.
    most_candidates
        Segments that need the support of other windows are considered while there are fewer.
    dropping
        Whether a used cache that costs more than it saves goes at once.
    """

    observations: int = 10
    interval: int = 10_000
    change_share: float = 0.2
    most_candidates: int = MOST_CANDIDATES
    dropping: bool = True


@dataclass(frozen=True)
class CacheChange:
    """A cache that is used from now on, or is not any more."""

    candidate: Candidate
    added: bool
    why: str


class CacheStates:
    """The states of all candidates.

    Parameters
    ----------
    candidates
        For the present orders.
    config
        How they are chosen.

    Attributes
    ----------
    selections
        How often the choice was computed.
    """

    def __init__(self, candidates: Iterable[Candidate], config: CacheConfig) -> None:
        self._config = config
        self._states: dict[Candidate, State] = dict.fromkeys(candidates, "profiled")
        self._observed: dict[Candidate, int] = dict.fromkeys(self._states, 0)
        self._before: dict[Candidate, Estimate] = {}
        self._passed = 0
        self._paused: frozenset[Candidate] = frozenset()  # used until they are profiled again
        self.selections = 0

    def state(self, candidate: Candidate) -> State:
        """Of a candidate."""
        return self._states[candidate]

    @property
    def used(self) -> list[Candidate]:
        """Those in use."""
        return [each for each, state in self._states.items() if state == "used"]

    @property
    def profiled(self) -> list[Candidate]:
        """Those that are profiled."""
        return [each for each, state in self._states.items() if state == "profiled"]

    @property
    def candidates(self) -> list[Candidate]:
        """All."""
        return list(self._states)

    def reorder(self, candidates: Iterable[Candidate]) -> list[CacheChange]:
        """There are other candidates, as an order has changed; those that are no more go."""
        new = list(candidates)
        were = [*self.used, *self._paused]
        gone = [CacheChange(each, False, "the probe order has changed") for each in were if each not in new]
        self._paused = self._paused.intersection(new)
        self._states = {each: self._states.get(each, "profiled") for each in new}
        self._observed = {each: self._observed.get(each, 0) for each in new}
        self._before = {each: known for each, known in self._before.items() if each in self._states}
        return gone

    def observe(self, candidate: Candidate) -> None:
        """All statistics of a candidate were observed once."""
        self._observed[candidate] += 1

    def ready(self, pipeline: int) -> bool:
        """Whether enough is known of the candidates of a pipeline for a choice, and one is due."""
        own = [each for each in self.profiled if each.pipeline == pipeline]
        return bool(own) and all(map(self._known, own))

    def _known(self, candidate: Candidate) -> bool:
        """Whether it can be judged: a profiled one by then."""
        return self._states[candidate] != "profiled" or self._observed[candidate] >= self._config.observations

    def decide(
        self, estimates: Mapping[Candidate, Estimate], work: Mapping[tuple[int, int], float]
    ) -> list[CacheChange]:
        """Choose among those that are known, if something has changed; returns which caches come and go."""
        known = {each: estimates[each] for each in self._states if self._known(each)}
        if all(
            each in self._before and not now.differs(self._before[each], self._config.change_share)
            for each, now in known.items()
        ):
            return self._settle({each for each in known if self._states[each] == "used"} | self._paused, known)
        self._before |= known
        self.selections += 1
        return self._settle(select(known, work), known)

    def force(self, chosen: Iterable[Candidate], why: str) -> list[CacheChange]:
        """Use these and no others, until the next choice."""
        wanted, were = set(chosen), {*self.used, *self._paused}
        self._passed, self._paused = 0, frozenset()
        for each in self._states:
            self._states[each] = "used" if each in wanted else "unused"
        return [CacheChange(each, each in wanted, why) for each in self._states if (each in wanted) != (each in were)]

    def watch(self, estimates: Mapping[Candidate, Estimate]) -> list[CacheChange]:
        """Drop used caches that cost more than they save; all who share one together."""
        gone: list[CacheChange] = []
        if not self._config.dropping:
            return gone
        for identity in {each.identity for each in self.used}:
            group = [each for each in self.used if each.identity == identity]
            if all(each in estimates for each in group) and gain_of(group, estimates) < 0:
                for each in group:
                    self._states[each] = "unused"
                    told = f"saves {estimates[each].benefit:.3g}, costs {estimates[each].cost:.3g}"
                    gone.append(CacheChange(each, False, told))
        return gone

    def pass_by(self, count: int) -> bool:
        """Rows, or chunks, were processed; after an interval candidates are profiled again, which it tells."""
        self._passed += count
        if not self._states or self._passed < self._config.interval:
            return False
        self._passed = 0
        unused = [each for each, state in self._states.items() if state == "unused"]
        hiding = [each for each in self.used if any(other.operators < each.operators for other in unused)]
        self._paused = self._paused.union(hiding)
        for each in (*unused, *hiding):
            self._states[each], self._observed[each] = "profiled", 0
        return True

    def _settle(self, chosen: Iterable[Candidate], estimates: Mapping[Candidate, Estimate]) -> list[CacheChange]:
        wanted = set(chosen)
        were = {each for each in self._states if self._states[each] == "used"} | self._paused
        self._paused = self._paused.difference(estimates)
        changes = []
        for each in estimates:
            self._states[each] = "used" if each in wanted else "unused"
            found = estimates[each]
            if each in wanted and each not in were:
                changes.append(CacheChange(each, True, f"saves {found.benefit:.3g} for {found.cost:.3g}"))
            elif each not in wanted and each in were:
                changes.append(CacheChange(each, False, "others save more"))
        return changes
