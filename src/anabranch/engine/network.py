"""Which operators run for which queries: those that are equal and equally far are one.

An operator is a function of the rows of its inputs. Two with the same signature that have seen the same rows, from the
same time on and up to the same time, have the same state: one of them serves all queries. When a query stands still
while others go on, it gets a name of its own for the state as it is; when it has caught up, it joins the others again.
Nothing is copied but names of files.

>>> manifest = Manifest(cells=2)
>>> for name in ("a", "b"):
...     manifest.queries[name] = QueryState("", nodes=new_nodes({1: "f00d"}, manifest))
>>> manifest.queries["b"].nodes
{1: 'f00d.1'}
>>> join_nodes(manifest, ["a", "b"], {"a": {1: "changes"}, "b": {1: "elements"}})
>>> sharing(manifest)
{'f00d.0': ['a', 'b']}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from anabranch.engine.manifest import Manifest, QueryState

Taps = Mapping[str, Mapping[int, str]]
"""What queries want of their operators, by query and stage."""


def new_nodes(signatures: Mapping[int, str], manifest: Manifest, owner: str = "") -> dict[int, str]:
    """Nodes for the operators of a query, by stage, which no other has; equal operators of the query are one.

    With an owner, a query that does not share, they stay its own.
    """
    own = f"-{owner}" if owner else ""
    found = {signature: _unused(signature + own, manifest) for signature in signatures.values()}
    return {stage: found[signature] for stage, signature in signatures.items()}


def change_nodes(manifest: Manifest, query: str, signatures: Mapping[int, str], owner: str = "") -> None:
    """Give a query other nodes with the state of those that it has: its own ones, or such as may be shared again.

    >>> manifest = Manifest(cells=1)
    >>> for name in ("a", "b"):
    ...     manifest.queries[name] = QueryState("", nodes={1: "f00d.0"})
    >>> change_nodes(manifest, "b", {1: "f00d"}, owner="b")
    >>> join_nodes(manifest, ["a", "b"], {"a": {1: "changes"}, "b": {1: "changes"}})
    >>> manifest.queries["b"].nodes, sharing(manifest)
    ({1: 'f00d-b.0'}, {})
    >>> change_nodes(manifest, "b", {1: "f00d"})
    >>> join_nodes(manifest, ["a", "b"], {"a": {1: "changes"}, "b": {1: "changes"}})
    >>> sharing(manifest)
    {'f00d.0': ['a', 'b']}
    """
    state = manifest.queries[query]
    nodes = new_nodes(signatures, manifest, owner)
    for stage, node in nodes.items():
        _copy(manifest, state.nodes[stage], node)
    manifest.queries[query] = replace(state, nodes=nodes)  # the state as it was is the one that was committed
    forget_nodes(manifest)


def has_own_nodes(state: QueryState) -> bool:
    """Whether the nodes of a query are its own, whatever others do."""
    return any("-" in node for node in state.nodes.values())


def join_nodes(manifest: Manifest, together: Collection[str], taps: Taps) -> None:
    """Let queries that are equally far, and go on together, use one operator where theirs are equal.

    The state of an operator has that of its taps with it. It can take one more as long as its log has all that came
    in, since then that can be replayed; later only those that want what others want of it can join.
    """
    going = {name: manifest.queries[name] for name in together}
    uses = [(name, stage, node) for name, state in going.items() for stage, node in state.nodes.items()]
    wanted: dict[str, set[str]] = defaultdict(set)
    for name, stage, node in uses:
        wanted[node].add(taps[name][stage])
    alike: dict[str, list[str]] = defaultdict(list)
    for node in sorted(wanted):
        alike[signature_of(node)].append(node)
    open_ = {node for nodes in alike.values() if len(nodes) > 1 for node in nodes if _replayable(manifest, node)}
    chosen = {
        (name, stage): next(
            other for other in alike[signature_of(node)] if other in open_ or taps[name][stage] in wanted[other]
        )
        for name, stage, node in uses
    }
    for node in set(chosen.values()):
        part(manifest, node, [state for name, state in manifest.queries.items() if name not in together])
    for (name, stage), node in chosen.items():
        going[name].nodes[stage] = node
    forget_nodes(manifest)


def _replayable(manifest: Manifest, node: str) -> bool:
    """Whether the log of an operator has all that ever came in."""
    return all(segment.kind == "inputs" for log in manifest.nodes.get(node, {}).values() for segment in log)


def part(manifest: Manifest, node: str, others: Sequence[QueryState]) -> None:
    """Those who do not go on keep the state of an operator as it is, under another name."""
    apart: dict[tuple[int, int], str] = {}
    for state in others:
        for stage in [stage for stage, used in state.nodes.items() if used == node]:
            far = (state.since, state.position)
            if far not in apart:
                apart[far] = _unused(signature_of(node), manifest)
                _copy(manifest, node, apart[far])
            state.nodes[stage] = apart[far]


def _copy(manifest: Manifest, node: str, name: str) -> None:
    """The state of an operator, and where its rows go, under another name."""
    manifest.nodes[name] = dict(manifest.nodes.get(node, {}))
    if node in manifest.placements:
        manifest.placements[name] = manifest.placements[node]


def forget_nodes(manifest: Manifest) -> None:
    """Forget operators that no query uses."""
    used = {node for state in manifest.queries.values() for node in state.nodes.values()}
    manifest.nodes = {node: manifest.nodes.get(node, {}) for node in sorted(used)}
    manifest.placements = {node: placement for node, placement in manifest.placements.items() if node in used}


def signature_of(node: str) -> str:
    """What a node does, and for whom if it is not shared."""
    return node.split(".")[0]


def sharing(manifest: Manifest) -> dict[str, list[str]]:
    """The queries that use each node that several use."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, state in manifest.queries.items():
        for node in dict.fromkeys(state.nodes.values()):
            users[node].append(name)
    return {node: names for node, names in users.items() if len(names) > 1}


def _unused(signature: str, manifest: Manifest) -> str:
    taken = {node for state in manifest.queries.values() for node in state.nodes.values()} | set(manifest.nodes)
    return next(name for number in count() if (name := f"{signature}.{number}") not in taken)
