"""What a query answers: a small file per query in the checkpoint, for readers without an engine."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from anabranch import storage
from anabranch.engine.layout import QUERIES


@dataclass(frozen=True)
class Description:
    """What a query answers.

    Parameters
    ----------
    text
        As it was written.
    is_stream
        Whether its answer is a stream; else it is a relation.
    schema
        Of its answer, with `_ts`, and `_op` if it is a relation.
    """

    text: str
    is_stream: bool
    schema: pa.Schema

    def save(self, checkpoint: Path, name: str, fingerprint: str) -> None:
        """Write it down before the first manifest that names the query; another under its name has another file."""
        path = _path(checkpoint, name, fingerprint)
        if storage.is_there(path):
            return
        storage.make_folder(path.parent)
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        about = {"text": self.text, "answer": "stream" if self.is_stream else "relation", "schema": schema}
        storage.write_text(path, json.dumps(about))

    @classmethod
    def load(cls, checkpoint: Path, name: str, fingerprint: str) -> Description | None:
        """Read it; None if the query has not run since there are such files."""
        path = _path(checkpoint, name, fingerprint)
        if not storage.is_there(path):
            return None
        saved = json.loads(storage.read_text(path))
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(saved["schema"])))
        return cls(saved["text"], saved["answer"] == "stream", schema)


def _path(checkpoint: Path, name: str, fingerprint: str) -> Path:
    return checkpoint / QUERIES / name / f"{fingerprint}.json"
