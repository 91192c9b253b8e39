"""Which candidates to use: those that together save most, and of which no two stand for the same operator.

Without shared caches candidates of a pipeline that overlap are nested, and the best choice is found from the innermost
out: a cache, or the best of those in it (`best_of_forest`). Caches that several pipelines share pay for their upkeep
once, and then the problem is NP-hard: `greedy_cover` chooses them like sets that have to cover all operators,
`best_of_all` looks at every choice.

>>> one, two, both = Candidate(3, 0, (0, 1)), Candidate(3, 2, (2, 4)), Candidate(3, 0, (0, 1, 2, 4))
>>> estimates = {one: Estimate(5, 1), two: Estimate(4, 1), both: Estimate(9, 3)}
>>> best_of_forest(estimates) == {one, two}
True

Notes
-----
Theorem 5.5.1 -> `best_of_forest`; Theorem 5.5.3 -> `greedy_cover`; m -> `MOST_EXHAUSTIVE`.

Differs from the paper
----------------------
The greedy algorithm for shared caches is in a technical report; this one is the usual one for weighted set cover, where
an operator by itself is a set of one. Choices have to cover all operators, without which nothing would be cheapest.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from anabranch.joins.cache_candidates import Candidate, Identity
from anabranch.joins.cache_cost import Estimate

MOST_EXHAUSTIVE = 12

Operators = frozenset[tuple[int, int]]
Estimates = Mapping[Candidate, Estimate]


def select(estimates: Estimates, work: Mapping[tuple[int, int], float]) -> set[Candidate]:
    """The best choice as far as that is quick to find.

    Parameters
    ----------
    estimates
        What is expected of each candidate.
    work
        What each operator takes without caches, by pipeline and place.
    """
    if not any_shared(estimates) and all_nested(estimates):
        return best_of_forest(estimates)
    if len(estimates) <= MOST_EXHAUSTIVE:
        return best_of_all(estimates)
    return greedy_cover(estimates, work)


def gain_of(chosen: Iterable[Candidate], estimates: Estimates) -> float:
    """What a choice saves: shared caches pay for their upkeep once."""
    found = list(chosen)
    upkeep = {each.identity: estimates[each].cost for each in found}
    return sum(estimates[each].benefit for each in found) - sum(upkeep.values())


def any_shared(candidates: Iterable[Candidate]) -> bool:
    """Whether two candidates are one cache."""
    identities = [each.identity for each in candidates]
    return len(set(identities)) < len(identities)


def all_nested(candidates: Iterable[Candidate]) -> bool:
    """Whether of two that overlap one is always in the other."""
    found = list(candidates)
    return all(
        one.operators <= other.operators or other.operators <= one.operators
        for place, one in enumerate(found)
        for other in found[:place]
        if one.overlaps(other)
    )


def best_of_forest(estimates: Estimates) -> set[Candidate]:
    """The best choice where nothing is shared: each cache, or the best of those in it."""
    best: dict[Candidate, tuple[float, frozenset[Candidate]]] = {}
    inside: dict[Candidate | None, list[Candidate]] = {}
    ordered = sorted(estimates, key=lambda each: len(each.windows))
    for each in ordered:
        inside.setdefault(parent_of(each, ordered), []).append(each)
    for each in ordered:
        below = [best[child] for child in inside.get(each, [])]
        gain, chosen = sum(part[0] for part in below), frozenset[Candidate]().union(*(part[1] for part in below))
        own = estimates[each].gain
        best[each] = (own, frozenset({each})) if own > gain else (gain, chosen)
    return {each for root in inside.get(None, []) for each in best[root][1]}


def parent_of(candidate: Candidate, candidates: Iterable[Candidate]) -> Candidate | None:
    """The smallest candidate of the same pipeline around one: its parent in the tree of caches."""
    around = (each for each in candidates if candidate.operators < each.operators)
    return min(around, key=lambda each: len(each.windows), default=None)


def best_of_all(estimates: Estimates) -> set[Candidate]:
    """The best of all choices without overlaps."""
    best: set[Candidate] = set()
    most = 0.0
    for chosen in _choices(list(estimates), frozenset()):
        gain = gain_of(chosen, estimates)
        if gain > most:
            best, most = set(chosen), gain
    return best


def _choices(candidates: list[Candidate], covered: Operators) -> Iterator[tuple[Candidate, ...]]:
    if not candidates:
        yield ()
        return
    first, *rest = candidates
    yield from _choices(rest, covered)
    if not first.operators & covered:
        for others in _choices(rest, covered | first.operators):
            yield first, *others


def greedy_cover(estimates: Estimates, work: Mapping[tuple[int, int], float]) -> set[Candidate]:
    """Cover all operators with caches and operators by themselves, the cheapest per operator first.

    Costs at most ln(n (n-1)) times as much as the best cover of n pipelines.
    """
    left = dict(work)
    chosen: set[Candidate] = set()
    while left:
        price, group = min(_groups(estimates, left, chosen), key=lambda each: each[0], default=(float("inf"), ()))
        alone = min(left, key=lambda operator: left[operator])
        if not group or price >= left[alone]:
            del left[alone]
            continue
        chosen.update(group)
        for operator in frozenset[tuple[int, int]]().union(*(each.operators for each in group)):
            left.pop(operator, None)
    outermost = [each for each in chosen if not any(each.operators < other.operators for other in chosen)]
    return _without_losses(_without_overlaps(outermost, estimates), estimates)


def _groups(
    estimates: Estimates, left: Mapping[tuple[int, int], float], chosen: set[Candidate]
) -> Iterator[tuple[float, tuple[Candidate, ...]]]:
    """Shared caches in some of their pipelines, with what they take per operator that they newly cover."""
    shared: dict[Identity, list[Candidate]] = {}
    for each in estimates:
        if each not in chosen and any(operator in left for operator in each.operators):
            shared.setdefault(each.identity, []).append(each)
    paid = {each.identity for each in chosen}
    for identity, members in shared.items():
        fresh = {each: sum(operator in left for operator in each.operators) for each in members}
        ordered = sorted(members, key=lambda each: estimates[each].processing / fresh[each])
        for count in range(1, len(ordered) + 1):
            part = tuple(ordered[:count])
            upkeep = 0.0 if identity in paid else estimates[part[0]].cost
            taken = upkeep + sum(estimates[each].processing for each in part)
            yield taken / sum(fresh[each] for each in part), part


def _without_overlaps(chosen: list[Candidate], estimates: Estimates) -> set[Candidate]:
    """Of those that still overlap, the ones that save more."""
    kept: list[Candidate] = []
    for each in sorted(chosen, key=lambda each: -estimates[each].benefit):
        if not any(each.overlaps(other) for other in kept):
            kept.append(each)
    return set(kept)


def _without_losses(chosen: set[Candidate], estimates: Estimates) -> set[Candidate]:
    """Without caches that save less than they cost, all who share one together."""
    groups: dict[Identity, list[Candidate]] = {}
    for each in chosen:
        if estimates[each].benefit > 0:
            groups.setdefault(each.identity, []).append(each)
    return {each for group in groups.values() if gain_of(group, estimates) > 0 for each in group}


def trees(candidates: Iterable[Candidate]) -> dict[Candidate, Candidate | None]:
    """The parent of each candidate.

    >>> small, large = Candidate(3, 1, (0, 1)), Candidate(3, 1, (0, 1, 2))
    >>> trees([small, large])[small] == large
    True
    """
    found = list(candidates)
    return {each: parent_of(each, found) for each in found}


def bounded(chosen: Mapping[Candidate, Estimate], limit: float) -> dict[Candidate, float]:
    """How many bytes each cache gets of a limit, by priority: the first get what they want while there is some.

    >>> one, two = Candidate(0, 0, (1, 2)), Candidate(1, 0, (0, 2))
    >>> given = bounded({one: Estimate(5, 1, nbytes=100), two: Estimate(50, 1, nbytes=100)}, 150)
    >>> given[one], given[two]
    (50.0, 100.0)
    """
    ordered = sorted(chosen, key=lambda each: -chosen[each].priority)
    ends = [0.0]
    for each in ordered:
        ends.append(min(limit, ends[-1] + chosen[each].nbytes))
    return {each: end - begin for each, (begin, end) in zip(ordered, pairwise(ends), strict=True)}
