"""`anabranch reproduce routing`: the experiments of *Content-Based Routing: Different Plans for Different Data*."""

from __future__ import annotations

from pathlib import Path

from anabranch.measure import exit_code, table, write_json
from anabranch.reproduce.content import adaptivity, costs, selectivities, skew
from anabranch.reproduce.content.claims import CLAIMS
from anabranch.reproduce.content.exhibit import Exhibit
from anabranch.reproduce.content.page import introduction
from anabranch.reproduce.thesis.page import write_page

GROUPS = (skew, selectivities, adaptivity, costs)
FOLDER = Path("reproduction/routing")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    exhibits: list[Exhibit] = []
    for group in GROUPS:
        found = group.exhibits(quick=quick)
        for exhibit in found:
            print(_told(exhibit), end="\n\n")
        print(table([bar for exhibit in found for bar in exhibit.bars]), end="\n\n", flush=True)
        exhibits += found
    bars = [bar for exhibit in exhibits for bar in exhibit.bars]
    exhibits.sort(key=lambda exhibit: list(CLAIMS).index(exhibit.name))
    page = write_page(exhibits, out, introduction(quick=quick))
    if json_path is not None:
        write_json(bars, json_path)
    claims = [bar for bar in bars if bar.target != "-"]
    print(f"{sum(bar.holds for bar in claims)} of {len(claims)} claims hold; the figures are in {page}")
    return exit_code(bars)


def _told(exhibit: Exhibit) -> str:
    claim = exhibit.claim
    return f"{exhibit.name}: {claim.title}\n  paper: {claim.paper}\n  ours:  {exhibit.ours}\n  why:   {claim.why}"
