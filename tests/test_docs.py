"""Every Python block of the README and of the documentation runs, in order, one namespace per page.

A block that opens with ```python no-run is left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]


def python_of(page: str) -> str:
    """Blank out all but the Python blocks, so that line numbers in a traceback are those of the page.

    >>> fence = "`" * 3
    >>> python_of(f"text\\n{fence}python\\nx = 1\\n{fence}\\n{fence}python no-run\\nboom\\n{fence}\\n")
    '\\n\\nx = 1\\n\\n\\n\\n'
    """
    kept, inside, runs = [], False, False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = not inside
            runs = inside and line.removeprefix("```").strip() == "python"
            kept.append("")
        else:
            kept.append(line if runs else "")
    return "\n".join(kept)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_page_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = python_of(page.read_text())
    # Functions of `__main__` travel to Spark's workers by value, as they do from a user's own script.
    namespace: dict[str, object] = {"__name__": "__main__"}
    if "spark" in source:
        namespace["spark"] = request.getfixturevalue("spark")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(source, str(page), "exec"), namespace)
