"""What all tests share: one Spark session, the folder of real data, the profiles of Hypothesis."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from anabranch.spark.session import local_session
from seeds import VARIABLE, daily_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
WORKERS = Path(__file__).with_name("workers")
REAL_DATA = ROOT.parent / "shared" / "data"
CONNECT = os.environ.get("CONNECT", "")
"""Asks for a session of Spark Connect: the address of a server (`sc://...`), or anything else for one of its own."""

# Queries are many and small here, in the programs that tests start, too: the compiler's last steps cost more than they
# save. Without them Java has little room for compiled code, and stops to compile when that is full. To collect garbage
# beside the program takes cores from it. Classes come from the archive that `workers/java_classes.py` has written.
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
CLASSES = Path(sys.prefix, "classes.jsa")
FROM_CLASSES = f" -XX:SharedArchiveFile={CLASSES} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL_JAVA + (FROM_CLASSES if CLASSES.exists() else ""))

# Deadlines measure a busy machine more than our code. A change is judged by the same examples wherever it is tested;
# the profile `soak` looks for new ones.
settings.register_profile(
    "fast", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("full", settings.get_profile("fast"), max_examples=60)
settings.register_profile("soak", settings.get_profile("fast"), max_examples=2000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_report_header() -> str:
    """Random cases are other ones every day: say which."""
    return f"seed of random cases: {daily_seed()} (repeat this run with {VARIABLE}={daily_seed()})"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the session, by its fixtures or in its docstring; and see that what is left out says why."""
    for item in items:
        example = (item.dtest.docstring or "") if isinstance(item, pytest.DoctestItem) else ""
        if "spark" in getattr(item, "fixturenames", ()) or "local_session(" in example:
            item.add_marker(pytest.mark.spark)
        for marker in item.iter_markers("full"):
            if not marker.kwargs.get("reason"):
                raise pytest.UsageError(f"{item.nodeid}: say why with full(reason='...')")
        classic = item.get_closest_marker("classic")
        if classic is not None and CONNECT:
            item.add_marker(pytest.mark.skip(reason=f"not on Spark Connect: {classic.kwargs['reason']}"))
    long = {item.path for item in items if item.get_closest_marker("spark") is not None}
    items.sort(key=lambda item: item.path not in long)  # short modules fill what long ones leave at the end


@pytest.fixture(autouse=True)
def no_session_unless_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that starts Spark without the marker would make the run without Spark slow."""
    if request.node.get_closest_marker("spark") is None:

        def refuse(_: object) -> NoReturn:
            pytest.fail("this test starts Spark: mark it with pytest.mark.spark, or take the fixture `spark`")

        monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", refuse)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the test run: starting it takes longer than most tests."""
    if CONNECT:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        remote = SparkSession.builder.remote(CONNECT if CONNECT.startswith("sc://") else "local[2]")
        remote.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
        yield remote.getOrCreate()  # it ends with the process: Spark warns if it is stopped while somebody listens
        return
    with pytest.MonkeyPatch.context() as patch:  # Java keeps the environment in which it starts, and so do its workers
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(WORKERS), os.environ.get("PYTHONPATH")])))
        session = local_session("anabranch-tests", cores=2, **{"spark.python.daemon.module": "ready_workers"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data next to the project."""
    if not REAL_DATA.is_dir():
        pytest.skip("the real data are not here: they belong into shared/data, next to the project's folder")
    return REAL_DATA
