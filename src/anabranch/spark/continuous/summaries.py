"""Summaries: a stream that is summed up as it comes, where sums are all that its readers want to know.

Where a window slides, rows that enter and leave it together count together. A summary is a text that turns the rows of
a batch into such sums. They are put in the buffer instead of the rows, under a name of their own, and are far fewer.

>>> stream_of("calls"), stream_of(summary_name("calls", "SELECT 1"))
('calls', 'calls')
"""

from __future__ import annotations

import hashlib
import re

BATCH = "anabranch_batch"
"""In the text of a summary, the rows of a batch."""
OLDEST, NEWEST = "_oldest", "_newest"
"""Columns of a summary: the first and last time of the rows."""

_BATCH = re.compile(rf"`[^`]*`|'(?:[^'\\]|\\.)*'|\b{BATCH}\b")


def of_batch(text: str, source: str) -> str:
    """A text over the rows of some source, where it says `BATCH`; a column may be called so, too.

    >>> of_batch("SELECT `anabranch_batch` FROM anabranch_batch", "calls")
    'SELECT `anabranch_batch` FROM calls'
    """
    return _BATCH.sub(lambda found: source if found[0] == BATCH else found[0], text)


def summary_name(stream: str, text: str) -> str:
    """The name of what a text makes of a stream."""
    return f"{stream}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def stream_of(buffer: str) -> str:
    """The stream whose rows, or a summary of them, go by a name."""
    return buffer.split(".")[0]
