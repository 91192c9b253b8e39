"""Runs rules in Siddhi, in a Python that has PySiddhi: `python siddhi_program.py RULES.json ROWS.json`.

It prints a line of JSON: seconds for all rows, how many were answered, and the sum of their numbers. Siddhi counts
them itself, so that no answer has to come back to Python one by one.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WARM_UP = 2000


def send_rows(rules: Path, rows: Path) -> None:
    """Load Siddhi, send the rows one by one, and ask for the totals."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SIDDHISDK_HOME"] = str(gathered(Path(folder)))
        importlib.import_module("PySiddhi.SiddhiLoader").loadLibrary()
        manager = importlib.import_module("PySiddhi.core.SiddhiManager").SiddhiManager()
        runtime = manager.createSiddhiAppRuntime(app(json.loads(rules.read_text())))
        handler = runtime.getInputHandler("s")
        totals: list[list[int]] = []
        runtime.addCallback("answer", _collecting(totals))
        runtime.start()
        given = json.loads(rows.read_text())
        for seq, v in given[:WARM_UP]:
            handler.send([seq, -1 - v])  # which no rule wants
        began = time.perf_counter()
        for row in given:
            handler.send(row)
        seconds = time.perf_counter() - began
        runtime.getInputHandler("ask").send([1])
        count, total = totals[-1]
        print(json.dumps({"seconds": seconds, "count": count, "total": total}), flush=True)
    os._exit(0)  # its Java machine does not end by itself


def _collecting(totals: list[list[int]]) -> Any:
    """A callback that keeps what it is given."""
    base = importlib.import_module("PySiddhi.core.stream.output.StreamCallback").StreamCallback

    class Collecting(base):  # type: ignore[misc, valid-type]
        def receive(self, events: Any) -> None:
            totals.extend([int(each) for each in event.getData()] for event in events)

    return Collecting()


def gathered(folder: Path) -> Path:
    """A folder as PySiddhi wants it: all of its jars in `lib`."""
    spec = find_spec("PySiddhi")
    assert spec is not None
    assert spec.origin is not None
    (folder / "lib").mkdir()
    for jar in (Path(spec.origin).parents[1] / "__PySiddhiProxy").rglob("*.jar"):
        (folder / "lib" / jar.name).symlink_to(jar)
    return folder


def app(rules: list[tuple[int, int]]) -> str:
    """A query per rule, from one value to before another, and one that counts what they all answer."""
    each = [f"from s[v >= {low} and v < {high}] select seq insert into answers;" for low, high in rules]
    counted = "from answers select 1 as one, count() as n, sum(seq) as total"
    return "\n".join(
        [
            "define stream s (seq int, v int);",
            "define stream ask (one int);",
            "define table totals (one int, n long, total long);",
            *each,
            f"{counted} update or insert into totals on totals.one == one;",
            "from ask join totals on totals.one == ask.one select totals.n, totals.total insert into answer;",
        ]
    )


if __name__ == "__main__":
    send_rows(Path(sys.argv[1]), Path(sys.argv[2]))
