"""Every Python block of the README and of the documentation runs, in order, one namespace per page.

A block that opens with ```python no-run is left out. Blocks of CQL are one script per page, and can be explained.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]


def blocks_of(page: str, language: str, end: str = "") -> str:
    """Blank out all but the blocks of a language, so that line numbers in a traceback are those of the page.

    >>> fence = "`" * 3
    >>> blocks_of(f"text\\n{fence}python\\nx = 1\\n{fence}\\n{fence}python no-run\\nboom\\n{fence}\\n", "python")
    '\\n\\nx = 1\\n\\n\\n\\n'
    """
    kept, inside, runs = [], False, False
    for line in page.splitlines():
        if line.startswith("```"):
            kept.append(end if runs else "")
            inside = not inside
            runs = inside and line.removeprefix("```").strip() == language
        else:
            kept.append(line if runs else "")
    return "\n".join(kept)


def with_their_needs(pages: list[Path]) -> list[Any]:
    """The pages, marked if their examples take a session."""
    needs = {True: [pytest.mark.spark], False: []}
    return [pytest.param(page, marks=needs["spark" in blocks_of(page.read_text(), "python")]) for page in pages]


@pytest.mark.parametrize("page", with_their_needs(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_page_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = blocks_of(page.read_text(), "python")
    # Functions of `__main__` travel to Spark's workers by value, as they do from a user's own script.
    namespace: dict[str, object] = {"__name__": "__main__"}
    if "spark" in source:
        namespace["spark"] = request.getfixturevalue("spark")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(source, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_cql_of_the_page_can_be_explained(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    pytest.importorskip("pyspark")
    from anabranch.cli.explain import explain

    said: list[str] = []
    script = tmp_path / "page.cql"
    script.write_text(blocks_of(page.read_text(), "cql", end=";"))
    explain(script, said.append)
    assert all("flowchart" in plan for plan in said)
    assert said or "```cql" not in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_cql_say_that_they_are(page: Path) -> None:
    assert not re.search(r"^(Select|Create) ", blocks_of(page.read_text(), ""), re.MULTILINE | re.IGNORECASE)
