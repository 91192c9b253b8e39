"""What a Python worker has learned about filters, for its next tasks; the filters it used last."""

from __future__ import annotations

import uuid
from collections import OrderedDict

from anabranch.routing.chunk_pipeline import ChunkPipeline

REMEMBERED_FILTERS = 64

_pipelines: OrderedDict[str, ChunkPipeline] = OrderedDict()


def new_identity() -> str:
    """A name under which workers remember one filter."""
    return uuid.uuid4().hex


def recall(identity: str) -> ChunkPipeline | None:
    """The pipeline of a filter, if this worker has run it lately."""
    known = _pipelines.get(identity)
    if known is not None:
        _pipelines.move_to_end(identity)
    return known


def remember(identity: str, pipeline: ChunkPipeline) -> None:
    """Keep a pipeline; the one that was used longest ago makes room."""
    _pipelines[identity] = pipeline
    while len(_pipelines) > REMEMBERED_FILTERS:
        _pipelines.popitem(last=False)
