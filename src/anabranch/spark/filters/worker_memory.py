"""What a Python worker has learned about filters, for its next tasks; the filters it used last.

Workers of Spark run one task at a time. Servers of Spark Connect without Java run them in threads: each is a worker.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict

from anabranch.routing.chunk_pipeline import ChunkPipeline

REMEMBERED_FILTERS = 64


class _Memory(threading.local):
    def __init__(self) -> None:
        self.pipelines: OrderedDict[str, ChunkPipeline] = OrderedDict()


_memory = _Memory()


def new_identity() -> str:
    """A name under which workers remember one filter."""
    return uuid.uuid4().hex


def recall(identity: str) -> ChunkPipeline | None:
    """The pipeline of a filter, if this worker has run it lately."""
    known = _memory.pipelines.get(identity)
    if known is not None:
        _memory.pipelines.move_to_end(identity)
    return known


def remember(identity: str, pipeline: ChunkPipeline) -> None:
    """Keep a pipeline; the one that was used longest ago makes room."""
    _memory.pipelines[identity] = pipeline
    while len(_memory.pipelines) > REMEMBERED_FILTERS:
        _memory.pipelines.popitem(last=False)
