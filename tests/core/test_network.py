"""Which queries go on with which operator."""

from __future__ import annotations

from typing import Literal

from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.network import join_nodes, sharing
from anabranch.operators.segments import Segment


def network(kind: Literal["inputs", "snapshot"], **nodes: str) -> Manifest:
    """Queries that each use an operator, whose logs have a segment."""
    manifest = Manifest(cells=1)
    for name, node in nodes.items():
        manifest.queries[name] = QueryState("", nodes={1: node})
        manifest.nodes[node] = {0: (Segment(f"{node}/0", kind, 9),)}
    return manifest


def test_an_operator_takes_what_it_can_replay() -> None:
    manifest = network("inputs", a="f.0", b="f.1", c="e.0")
    join_nodes(manifest, ["a", "b", "c"], {"a": {1: "changes"}, "b": {1: "elements"}, "c": {1: "changes"}})
    assert sharing(manifest) == {"f.0": ["a", "b"]}
    assert set(manifest.nodes) == {"f.0", "e.0"}


def test_later_only_those_join_who_want_what_it_has() -> None:
    manifest = network("snapshot", a="f.0", b="f.1", c="f.2", d="f.3")
    wanted = {"a": {1: "changes"}, "b": {1: "elements"}, "c": {1: "changes"}, "d": {1: "elements"}}
    join_nodes(manifest, list(wanted), wanted)
    assert sharing(manifest) == {"f.0": ["a", "c"], "f.1": ["b", "d"]}


def test_those_who_stand_still_keep_the_state_with_all_that_is_wanted_of_it() -> None:
    manifest = network("snapshot", a="f.0", b="f.0", c="f.0")
    wanted = {"a": {1: "changes"}, "b": {1: "elements"}, "c": {1: "changes"}}
    join_nodes(manifest, ["a"], wanted)
    apart = manifest.queries["b"].nodes[1]
    assert manifest.queries["c"].nodes[1] == apart != "f.0"
    assert manifest.nodes[apart] == manifest.nodes["f.0"]
    join_nodes(manifest, ["a", "b", "c"], wanted)
    assert sharing(manifest) == {"f.0": ["a", "c"]}
    assert manifest.queries["b"].nodes[1] == apart
