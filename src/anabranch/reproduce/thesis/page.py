"""The page of a reproduction: what the paper says, what we measured, why they differ, and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.measure import Bar
from anabranch.reproduce.thesis.claims import Claim
from anabranch.reproduce.thesis.exhibit import Exhibit
from anabranch.reproduce.thesis.plots import draw

INTRODUCTION = """# Adaptive ordering of pipelined filters

Figures 4.11 to 4.24 and Tables 4.2 and 4.3 of S. Babu, *Adaptive Query Processing in Data Stream Management Systems*
(Stanford 2005), re-created with the pipeline and the policies of this package by `anabranch reproduce filters{flag}`.

- Unless marked as timed, the unit is one evaluation of a filter of cost 1: counted, and the same in every run.
- Decisions are made every 500 tuples (2,000 in Figures 4.11 to 4.14{chunks}), in the paper after every tuple.
- The paper's policies decide on full profile windows here; the paper does not say, the product's default is 30 tuples.
  `auto` is the product's default policy, as shipped, on chunks of 500 tuples that do not grow.
- The values of the paper's curves are not available to us; its prose and tables are.
"""


def write_page(exhibits: Sequence[Exhibit], claims: Mapping[str, Claim], folder: Path, introduction: str) -> Path:
    """Write the pictures and `README.md` into a folder, and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    bars = [bar for exhibit in exhibits for bar in exhibit.bars]
    parts = [introduction, _verdict(bars)]
    parts.append(
        _rows([("", "paper", "ours", "why different"), *(_overview(each, claims[each.name]) for each in exhibits)])
    )
    for exhibit in exhibits:
        title = claims[exhibit.name].title
        parts.append(_section(exhibit, title, draw(exhibit, title, folder)))
    path = folder / "README.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def introduction(*, quick: bool) -> str:
    """What the page begins with."""
    flag, chunks = (" --quick", "; up to 2,500 elsewhere in a quick run") if quick else ("", "")
    return INTRODUCTION.format(flag=flag, chunks=chunks)


def _verdict(bars: Sequence[Bar]) -> str:
    claims = [bar for bar in bars if bar.target != "-"]
    missed = [bar for bar in claims if not bar.holds]
    text = f"**{len(claims) - len(missed)} of {len(claims)} claims hold.**"
    if missed:
        text += " Those that do not:\n\n" + "\n".join(
            f"- {b.bar}: {b.value:.2f}, wanted {b.target} ({b.detail})" for b in missed
        )
    return text + "\n"


def _overview(exhibit: Exhibit, claim: Claim) -> tuple[str, ...]:
    anchor = exhibit.slug.replace(".", "")
    return f"[{exhibit.name}](#{anchor})", claim.paper, exhibit.ours, claim.why


def _section(exhibit: Exhibit, title: str, picture: Path | None) -> str:
    lines = [f"## {exhibit.name}", "", f"{title}.", ""]
    if picture is not None:
        lines += [f"![{exhibit.name}]({picture.name})", ""]
    if exhibit.table:
        lines += [_rows(exhibit.table)]
    if exhibit.bars:
        head = ("claim", "value", "target", "holds", "detail")
        lines += [_rows([head, *((b.bar, f"{b.value:.3f}", b.target, _holds(b), b.detail) for b in exhibit.bars)])]
    return "\n".join(lines)


def _holds(bar: Bar) -> str:
    if bar.target == "-":
        return ""
    return "yes" if bar.holds else "**no**"


def _rows(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:], ""])
