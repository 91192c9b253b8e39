"""Random requests by schemathesis to a running console: python tests/console/fuzz_with_schemathesis.py PATH/TO/st.

Schemathesis stays in an environment of its own. Exit code 0 means that no request ended in an error of the service, and
that none took longer than it may.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import anabranch as ab
from anabranch.console.service import serve
from console.stage import FAST, SCHEMA, Stage

EXAMPLES_OF_AN_ADDRESS = 260
"""Some forty addresses: more than 10,000 requests."""
MOST_SECONDS = 60


def main(program: str, examples: int) -> int:
    """Run schemathesis against an engine that answers growing files."""
    spark = ab.local_session("anabranch-fuzz", cores=2, **{"spark.sql.shuffle.partitions": 2})
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        engine = ab.Engine(spark, folder / "state", cells=2)
        engine.stream("calls", spark.readStream.schema(SCHEMA).parquet(str(folder / "in")), timestamp="ts")
        engine.function("large", lambda size: size > 20)
        engine.function("odd", lambda size: size % 2 == 1)
        engine.query("Select host, Count(*) As n From calls [Range 1 Minute] Group By host", name="busy").start()
        engine.query("Select host, size From calls Where large(size) And odd(size)", name="picked").start()
        with serve(engine, port=0, home=folder / "home", allow=[folder / "shared"], limits=FAST) as service:
            stage, stopping = Stage(engine, service, folder, spark), threading.Event()
            stage.bring()
            feed = threading.Thread(target=_feed, args=(stage, stopping), daemon=True)
            feed.start()
            done = _fuzz(program, service.address, service._access.operator, examples, folder)
            stopping.set()
            feed.join()
            answered = stage.viewer.ask("GET", "/api/overview").status
        engine.stop()
    spark.stop()
    print(f"schemathesis ends with {done}; afterwards the console answers {answered}")
    return done or (answered != 200)


def _fuzz(program: str, address: str, token: str, examples: int, folder: Path) -> int:
    checks = ["--checks", "not_a_server_error", "--phases", "coverage,fuzzing"]
    about = ["--max-examples", str(examples), "--request-timeout", str(MOST_SECONDS), "--continue-on-failure"]
    call = [program, "run", f"{address}/api/openapi.json", "-H", f"Authorization: Bearer {token}", *checks, *about]
    return subprocess.run([*call, "--suppress-health-check", "all"], cwd=folder, check=False).returncode


def _feed(stage: Stage, stopping: threading.Event) -> None:
    while not stopping.wait(5):
        stage.bring(20)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else EXAMPLES_OF_AN_ADDRESS))
