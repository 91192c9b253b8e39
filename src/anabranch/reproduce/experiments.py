"""What all reproductions do: run groups of experiments, tell paper / ours / why, write the page and the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from anabranch.measure import exit_code, table, write_json
from anabranch.reproduce.thesis.claims import Claim
from anabranch.reproduce.thesis.exhibit import Exhibit
from anabranch.reproduce.thesis.page import write_page


class Group(Protocol):
    """A module with some of the experiments."""

    def exhibits(self, *, quick: bool) -> Sequence[Exhibit]:
        """Run them."""


def run(
    groups: Iterable[Group],
    claims: Mapping[str, Claim],
    introduction: str,
    out: Path,
    *,
    quick: bool,
    json: Path | None,
) -> int:
    """Run all groups; 0 when every claim holds, 3 otherwise. `{flag}` in the introduction says how they were run."""
    exhibits: list[Exhibit] = []
    for group in groups:
        found = group.exhibits(quick=quick)
        for exhibit in found:
            print(_told(exhibit, claims[exhibit.name]), end="\n\n")
        print(table([bar for exhibit in found for bar in exhibit.bars]), end="\n\n", flush=True)
        exhibits += found
    return conclude(exhibits, claims, introduction.format(flag=" --quick" if quick else ""), out, json)


def conclude(
    exhibits: Sequence[Exhibit], claims: Mapping[str, Claim], introduction: str, out: Path, json: Path | None
) -> int:
    """Write page and JSON, in the order of the paper, and say how many claims hold."""
    ordered = sorted(exhibits, key=lambda exhibit: list(claims).index(exhibit.name))
    bars = [bar for exhibit in ordered for bar in exhibit.bars]
    page = write_page(ordered, claims, out, introduction)
    if json is not None:
        write_json(bars, json)
    targets = [bar for bar in bars if bar.target != "-"]
    print(f"{sum(bar.holds for bar in targets)} of {len(targets)} claims hold; the figures are in {page}")
    return exit_code(bars)


def _told(exhibit: Exhibit, claim: Claim) -> str:
    return f"{exhibit.name}: {claim.title}\n  paper: {claim.paper}\n  ours:  {exhibit.ours}\n  why:   {claim.why}"
