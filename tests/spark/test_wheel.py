"""The wheel, installed into a fresh environment: the first example of the README runs, and hints of errors hold."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
OURS = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")

pytestmark = [pytest.mark.spark, pytest.mark.full(reason="builds a wheel, and starts Java once more")]


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and what it depends on, but not the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, str(ROOT), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "fresh", with_pip=False)
    python = folder / "fresh" / "bin" / "python"
    (packages,) = (folder / "fresh" / "lib").glob("python*/site-packages")
    # Only the folders are added: the checkout, which is installed by a .pth file in them, is not.
    (packages / "running.pth").write_text("\n".join(site.getsitepackages()))
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    return python


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OURS}


def test_the_first_example_of_the_readme_runs(fresh: Path, tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    (tmp_path / "example.py").write_text(example + "\nprint(ab.__file__)\n")
    printed = run(fresh, "example.py", cwd=tmp_path, env=environment()).splitlines()
    assert printed[0] == "3012 rows"
    assert printed[1].split()[:2] == ["predicate", "place"]
    assert Path(printed[-1]).is_relative_to(fresh.parents[1]), "the checkout ran, not the wheel"


def test_a_missing_extra_can_be_installed_as_the_hint_says(fresh: Path, tmp_path: Path) -> None:
    """Without an index: the installed wheel is what pip takes for `anabranch`, and it knows its extras."""
    said = run(*PIP, "--python", fresh, "install", "--no-index", "--dry-run", "anabranch[spark]", cwd=tmp_path)
    assert "Requirement already satisfied: anabranch[spark]" in said
    assert "Requirement already satisfied: pyspark" in said
