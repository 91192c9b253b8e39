"""Every Python block of the README and of the documentation runs, in order, one namespace per page.

A block that opens with ```python no-run is left out. Blocks of CQL are one script per page, and can be explained.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

import anabranch

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


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page, as links know them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in (one or other for one, other in LINK.findall(text)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{link} of {page.name}"
        if anchor:
            assert anchor in anchors(target), f"{link} of {page.name}"


@pytest.mark.full(reason="builds all pages and the reference")
def test_the_site_is_built_and_its_links_are_right(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "filters.html").read_text()
    assert "anabranch.spark.filters.filter.Filter.apply" in page
    assert '<script src="http' not in page
    assert all((tmp_path / "site" / f"{name.stem}.html").exists() for name in (ROOT / "docs").glob("*.md"))


def test_every_name_of_the_package_is_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name in set(anabranch.__all__) - set(CONSTANTS):
        assert re.search(rf"^::: anabranch\..*\b{name}$|anabranch\.errors$", pages, re.MULTILINE), name
    for module in re.findall(r"^::: (\S+)$", pages, re.MULTILINE):
        assert locate(module), module


CONSTANTS = ("ARRIVAL", "AutoSkew")


def test_examples_of_docstrings_are_code_on_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    examples = import_module("griffe_examples")
    assert not doctest.testmod(examples).failed
    inside = "Examples\n--------\n>>> 2 * 2\n4"
    assert examples.marked(inside) == inside, "griffe knows these as they are"
