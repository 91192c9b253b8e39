"""Queries that only ever gain rows: what enters their answer is a stream without being told."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.continuous import Aggregate, Member, Plan, SetOperation, ToStream, Window


def grows(plan: Plan) -> bool:
    """Whether rows enter a relation and never leave it; with a slide they enter later, and stay as well."""
    for node in _above_streams(plan):
        bounded = isinstance(node, Window) and not (node.span is None and node.rows is None)
        shrinks = isinstance(node, Aggregate) or (isinstance(node, SetOperation) and node.kind == "except")
        if bounded or shrinks or (isinstance(node, Member) and node.negated):
            return False
    return True


def _above_streams(plan: Plan) -> Iterator[Plan]:
    """The nodes down to streams: whatever makes a stream, the stream itself only grows."""
    if isinstance(plan, ToStream):
        return
    yield plan
    for each in plan.inputs:
        yield from _above_streams(each)
