"""The promises of the package as such: what it imports, what it pins, what it is called."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

BLOCK_OPTIONAL_PACKAGES = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j", "pandas", "typer", "rich", "matplotlib", "duckdb", "polars"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_without_extras(program: str) -> str:
    source = BLOCK_OPTIONAL_PACKAGES + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_core_imports_with_numpy_and_pyarrow_alone() -> None:
    imported = run_without_extras("""
        import importlib, pkgutil
        for name in ("errors", "config", "events", "calls", "model", "stats", "ordering", "routing", "mesh", "rules"):
            module = importlib.import_module(f"anabranch.{name}")
            for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{module.__name__}."):
                importlib.import_module(found.name)
        print(*sorted(name for name in sys.modules if name.startswith("anabranch.")))
    """).split()
    assert "anabranch.ordering.base" in imported
    assert not [name for name in imported if name.startswith("anabranch.spark")]


def test_facade_imports_without_spark_and_names_the_extra_on_use() -> None:
    message = run_without_extras("""
        import anabranch as ab
        from anabranch.errors import MissingExtra
        try:
            ab.where(None)
        except MissingExtra as error:
            print(error)
    """)
    assert "pip install 'anabranch[spark]'" in message


def test_local_session_without_pyspark_names_the_extra() -> None:
    message = run_without_extras("""
        from anabranch.errors import MissingExtra
        from anabranch.spark.session import local_session
        try:
            local_session()
        except MissingExtra as error:
            print(error)
    """)
    assert "pip install 'anabranch[spark]'" in message


def test_constraints_pin_a_version_that_the_project_accepts() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    declared = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    for requirement in map(Requirement, declared):
        if requirement.name != PROJECT["name"]:
            version = pins.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not pinned"
            assert requirement.specifier.contains(version), f"{requirement} against the pin {version}"


def test_changelog_tells_of_the_current_version() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert PROJECT["version"] in headings
