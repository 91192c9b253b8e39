"""`anabranch reproduce filters`: figures 4.11 to 4.24 and tables 4.2 and 4.3 of Babu's thesis, claim by claim."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from anabranch.measure import exit_code, table, write_json
from anabranch.reproduce.thesis import adaptivity, breakdown, convergence, examples, overhead, rates
from anabranch.reproduce.thesis.claims import CLAIMS
from anabranch.reproduce.thesis.exhibit import Exhibit
from anabranch.reproduce.thesis.page import introduction, write_page
from anabranch.reproduce.thesis.summary import summary

GROUPS = (rates, overhead, convergence, breakdown, adaptivity, examples)
FOLDER = Path("reproduction/filters")
PROCESSES = 2


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    exhibits: list[Exhibit] = []
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for found in pool.map(partial(_experiment, quick), [group.__name__ for group in GROUPS]):
            print(table([bar for exhibit in found for bar in exhibit.bars]), end="\n\n", flush=True)
            exhibits += found
    exhibits = sorted([*exhibits, summary(exhibits)], key=lambda exhibit: list(CLAIMS).index(exhibit.name))
    bars = [bar for exhibit in exhibits for bar in exhibit.bars]
    page = write_page(exhibits, out, introduction(quick=quick))
    if json_path is not None:
        write_json(bars, json_path)
    claims = [bar for bar in bars if bar.target != "-"]
    print(table(exhibits[-1].bars))
    print(f"\n{sum(bar.holds for bar in claims)} of {len(claims)} claims hold; the figures are in {page}")
    return exit_code(bars)


def _experiment(quick: bool, group: str) -> list[Exhibit]:
    """Run one group of experiments, in a process of its own."""
    found: list[Exhibit] = import_module(group).exhibits(quick=quick)
    return found
