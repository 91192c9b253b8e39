"""The formats of files and of other sources."""

from __future__ import annotations

FILE_FORMATS = ("parquet", "csv", "json")
"""Files that sinks write and replays read."""
DESCRIBES_ITSELF = ("rate", "rate-micro-batch", "socket", "kafka", "delta", "iceberg")
"""Sources whose columns are given: to declare others would be in vain."""
REPLAY = "replay"
"""Files whose rows come as they once came."""
SOURCE_FORMATS = (*FILE_FORMATS, "orc", "text", REPLAY, *DESCRIBES_ITSELF)
"""What `Create Stream` and `Create Relation` suggest; Spark may know others."""
