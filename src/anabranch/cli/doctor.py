"""`anabranch doctor`: what is wrong with Java, Python, Spark, memory or disk, and how to fix it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from anabranch.cli.files import nearest
from anabranch.errors import AnabranchError

OLDEST_PYTHON = (3, 11)
ENOUGH_MEMORY_GIB = 4
ENOUGH_DISK_GIB = 2
OLDEST_SPARK, FIRST_UNKNOWN_SPARK = (4, 0), (4, 4)
EXTRAS = {
    "pyspark": "spark",
    "pandas": "spark",
    "sqlglot": "cql",
    "sklearn": "mesh",
    "river": "mesh",
    "matplotlib": "plot",
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


@dataclass(frozen=True)
class Finding:
    """Something that was looked at; without a remedy it is well."""

    what: str
    found: str
    remedy: str | None = None


def findings(folder: Path) -> Iterator[Finding]:
    """Look at everything that a run needs; `folder` is where a checkpoint would be."""
    yield _python()
    yield _java()
    yield from _packages()
    yield _spark()
    yield _memory()
    yield _disk("temporary files", Path(tempfile.gettempdir()))
    yield _disk("checkpoints", folder)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info[:2] < OLDEST_PYTHON
    return Finding("Python", found, "install Python 3.11 or newer" if old else None)


def _java() -> Finding:
    from anabranch.spark.java import find_java

    try:
        java = find_java()
    except AnabranchError as error:
        return Finding("Java", error.what, error.hint)
    return Finding("Java", f"{java.major}, from {java.source}")


def _packages() -> Iterator[Finding]:
    for module, extra in EXTRAS.items():
        name = DISTRIBUTIONS.get(module, module)
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", f"pip install 'anabranch[{extra}]'")


def _spark() -> Finding:
    """Start it and let a Python worker answer."""
    try:
        release = tuple(int(part) for part in version("pyspark").split(".")[:2])
        if not OLDEST_SPARK <= release < FIRST_UNKNOWN_SPARK:
            return Finding("Spark", ".".join(map(str, release)), "4.0 to 4.3 are tested: pip install 'pyspark>=4,<4.4'")
        from anabranch.spark.session import local_session

        spark = local_session("anabranch-doctor", cores=1)
        answer = spark.range(3).mapInArrow(lambda batches: batches, "id long").count()
        return Finding("Spark", f"runs, and so do its Python workers ({answer} of 3 rows came back)")
    except PackageNotFoundError:
        return Finding("Spark", "not installed", "pip install 'anabranch[spark]'")
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return Finding(
            "Spark", f"does not run: {first}", "see the other findings first; then unset SPARK_HOME and PYSPARK_PYTHON"
        )


def _memory() -> Finding:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return _enough("memory", gib, ENOUGH_MEMORY_GIB, "close other programs, or use fewer cores: local_session(cores=1)")


def _disk(what: str, folder: Path) -> Finding:
    existing = nearest(folder)
    if not existing.is_dir():
        return Finding(f"disk for {what}", f"{existing} is not a folder", "choose another folder")
    if not os.access(existing, os.W_OK):
        return Finding(f"disk for {what}", f"{existing.name or '/'} cannot be written", "choose another folder")
    free = shutil.disk_usage(existing).free / 2**30
    return _enough(f"disk for {what}", free, ENOUGH_DISK_GIB, "free some space, or choose another folder")


def _enough(what: str, gib: float, wanted: float, remedy: str) -> Finding:
    return Finding(what, f"{gib:.1f} GiB", remedy if gib < wanted else None)


def run(folder: Path, say: Callable[[str], None], *, as_json: bool = False) -> int:
    """Tell what was found; 0 if all is well, 3 otherwise."""
    if as_json:
        found = list(findings(folder))
        say(json.dumps([asdict(each) for each in found], indent=2))
        return 3 if any(each.remedy is not None for each in found) else 0
    ill = 0
    for each in findings(folder):
        say(f"{'ok ' if each.remedy is None else 'NO '} {each.what}: {each.found}")
        if each.remedy is not None:
            ill += 1
            say(f"     {each.remedy}")
    say("all is well" if not ill else f"{ill} to fix")
    return 3 if ill else 0
