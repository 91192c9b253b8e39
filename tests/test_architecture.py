"""docs/architecture.md against the code: what it names exists, every room is there once, changes touch few places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch import thresholds

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "anabranch"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MOST_PLACES = 3
NOT_IMPORTED = {"benches", "reproduce"}

FORMER_WORDS = [
    *(r"\b[Ss]hel(f|ved)\b", r"\b[Ii]ntake\b", r"\bstartled\b", r"\bconcerns_all\b", r"\b_[Oo]ffice\b"),
    r"^class (Counting|Contents|Answering|Fed|Did|Allowance|Judged|Cells)\b",
    *(r"is no name\b", r"\b[Ww]hoever\b", r"\blets? go of\b"),
]
"""Words that have given way to those of the field: a reader should need no private vocabulary."""


def tables() -> dict[str, list[list[str]]]:
    """The rows of every table, by its first title."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            rows = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not rows:
            found.setdefault(cells[0].strip(), rows)
            rows = found[cells[0].strip()]
        rows.append(cells)
    return found


def changes() -> list[list[str]]:
    """The rows *to add X: these places*."""
    return [row for row in tables()["to add"] if row[0] not in ("to add", "---", "---|---")]


def paths(text: str) -> list[str]:
    """Python files that a text names, in backticks."""
    return re.findall(r"`([\w/]+\.py)[`:]", text)


def test_every_file_that_the_page_names_exists() -> None:
    names = {path.name for path in SOURCE.rglob("*.py")}
    for path in paths(PAGE):
        here = SOURCE / path, ROOT / path
        assert any(each.exists() for each in here) or ("/" not in path and path in names), path


def test_every_room_is_listed_once() -> None:
    rooms = [name for row in tables()["room"][2:] for name in re.findall(r"`(\w+)`", row[0])]
    there = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    there -= {"__init__", "__pycache__", "py"} | NOT_IMPORTED
    assert len(rooms) == len(set(rooms)), "a room is listed twice"
    assert {*rooms, "logical_plan", "expressions"} == there


def test_packages_of_the_page_for_contributors_are_rooms() -> None:
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    names = [name for row in table for name in re.findall(r"`(\w+)`", row)]
    assert {"engine", "cql", "ordering"} < set(names)
    assert all((SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists() for name in names)


@pytest.mark.parametrize("row", changes(), ids=lambda row: row[0])
def test_a_change_touches_three_places_at_most(row: list[str]) -> None:
    places = {path for path in paths(row[1]) if not path.startswith("tests/")}
    assert len(places) <= MOST_PLACES, places


def test_every_threshold_is_in_the_table() -> None:
    table = thresholds.__doc__ or ""
    for name in (name for name in vars(thresholds) if name.isupper()):
        assert f"`{name}`" in table, name


@pytest.mark.parametrize("word", FORMER_WORDS)
def test_former_words_do_not_come_back(word: str) -> None:
    pages = [*SOURCE.rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = [path.relative_to(ROOT) for path in pages if re.search(word, path.read_text(), re.MULTILINE)]
    assert not found, f"{word}: {found}"
