"""Which queries with state that differ in constants run as one, and which operators hold what there is of them.

An operator for such queries keeps what belongs to each of them apart, by the number of the query
(`planning/query_templates.py`). So those that are equally far always go on together: what several operators hold of
them is united. One that stands still while others go on keeps what there was under a name of its own, as `network.py`
does it, and what is held of it elsewhere is forgotten. A query that begins joins those that run, and sees rows from its
own time on.

>>> manifest = Manifest(cells=2)
>>> for number, name in enumerate("abc"):
...     manifest.queries[name] = QueryState("", number=number)
>>> wanted = {name: Foldable("s.17", {1: "f00d"}) for name in "abc"}
>>> [first] = join_folds(manifest, {"a": 9, "b": 9}, wanted)
>>> first.names, first.nodes
(('a', 'b'), {1: 'fold_f00d.0'})
>>> for name in "ab":
...     manifest.queries[name].position = 9
>>> [alone] = join_folds(manifest, {"a": 20}, wanted)
>>> alone.nodes, manifest.queries["b"].nodes
({1: 'fold_f00d.0'}, {1: 'fold_f00d.1'})
>>> manifest.queries["a"].position, manifest.queries["c"].position = 20, 30
>>> [alone] = join_folds(manifest, {"b": 20}, wanted)
>>> manifest.queries["b"].position = 20
>>> [all_] = join_folds(manifest, {"a": 40, "b": 40, "c": 40}, wanted)
>>> all_.names, all_.position, [each.names for each in all_.held]
(('a', 'c', 'b'), 20, [('a', 'c'), ('b',)])
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.engine.manifest import Logs, Manifest, QueryState
from anabranch.engine.network import forget_nodes, new_nodes, part

FOLDED = "fold_"
"""Prefix of the signatures of operators for queries that differ in constants."""


@dataclass(frozen=True)
class Foldable:
    """A query that may run with others.

    Parameters
    ----------
    template
        Equal for those that differ in constants.
    signatures
        What the operators for all of them do, by stage.
    owner
        Of one that does not share, its name.
    """

    template: str
    signatures: Mapping[int, str]
    owner: str = ""


@dataclass(frozen=True)
class Held:
    """Some queries, and the logs of the operators that hold what there is of them, by stage; `fresh` ones begin."""

    names: tuple[str, ...]
    fresh: tuple[str, ...]
    logs: Mapping[int, Logs]


@dataclass(frozen=True)
class FoldGroup:
    """Queries that go on together, from where those are that have begun.

    Parameters
    ----------
    template
        What they have in common.
    position, until
        Where they are, and how far they go.
    nodes
        The operators that run, by stage.
    held
        What is held of them: first by these operators.
    """

    template: str
    position: int
    until: int
    nodes: Mapping[int, str]
    held: tuple[Held, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The queries."""
        return tuple(name for each in self.held for name in each.names)


def is_folded(state: QueryState) -> bool:
    """Whether the operators of a query are such for queries that differ in constants."""
    return any(node.startswith(FOLDED) for node in state.nodes.values())


def fold_signatures(signatures: Mapping[int, str]) -> dict[int, str]:
    """Signatures of operators for queries that differ in constants."""
    return {stage: FOLDED + each for stage, each in signatures.items()}


def join_folds(manifest: Manifest, until: Mapping[str, int], foldable: Mapping[str, Foldable]) -> list[FoldGroup]:
    """Let queries that differ in constants go on together, as far as it is said; each is `foldable`, and folded or new.

    A query that has not begun joins those that are not farther than it is: it sees no rows before its own time.
    """
    begun: dict[tuple[str, str, int, int], list[str]] = defaultdict(list)
    fresh: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for name, end in until.items():
        state, known = manifest.queries[name], foldable[name]
        if is_folded(state) and state.position != state.since:
            begun[known.template, known.owner, end, state.position].append(name)
        else:
            fresh[known.template, known.owner, end].append(name)
    for (template, owner, end), names in fresh.items():
        for name in sorted(names, key=lambda each: manifest.queries[each].position):
            own = manifest.queries[name].position
            before = [key for key in begun if key[:3] == (template, owner, end) and key[3] <= own]
            joined = max(before, key=lambda key: len(begun[key]), default=(template, owner, end, own))
            begun[joined].append(name)
    groups = [_joined(manifest, key, names, foldable, until) for key, names in begun.items()]
    forget_nodes(manifest)
    return groups


def _joined(
    manifest: Manifest,
    key: tuple[str, str, int, int],
    names: list[str],
    foldable: Mapping[str, Foldable],
    until: Mapping[str, int],
) -> FoldGroup:
    template, owner, end, position = key
    apart: dict[tuple[tuple[int, str], ...], list[str]] = defaultdict(list)
    fresh = []
    for name in names:
        state = manifest.queries[name]
        if is_folded(state) and state.position != state.since:
            apart[tuple(sorted(state.nodes.items()))].append(name)
        else:
            fresh.append(name)
    if apart:
        first = max(apart, key=lambda nodes: len(apart[nodes]))
        nodes = dict(first)
    else:
        first = tuple(sorted(new_nodes(fold_signatures(foldable[names[0]].signatures), manifest, owner).items()))
        nodes = dict(first)
        manifest.nodes |= {node: {} for node in nodes.values()}
    others = [state for name, state in manifest.queries.items() if name not in names]
    for node in nodes.values():
        part(manifest, node, others)
    ordered = [first, *(each for each in apart if each != first)]
    held = tuple(
        Held(
            (*apart.get(each, ()), *(fresh if each == first else ())),
            tuple(fresh) if each == first else (),
            {stage: dict(manifest.nodes.get(node, {})) for stage, node in each},
        )
        for each in ordered
    )
    for name in names:
        manifest.queries[name].nodes = dict(nodes)
    return FoldGroup(template, position, end, nodes, held)
