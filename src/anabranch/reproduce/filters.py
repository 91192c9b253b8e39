"""`anabranch reproduce filters`: figures 4.11 to 4.24 and tables 4.2 and 4.3 of Babu's thesis, claim by claim."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from anabranch.measure import table
from anabranch.reproduce.experiments import conclude
from anabranch.reproduce.thesis import adaptivity, breakdown, convergence, examples, overhead, rates
from anabranch.reproduce.thesis.claims import CLAIMS
from anabranch.reproduce.thesis.exhibit import Exhibit
from anabranch.reproduce.thesis.page import introduction
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
    overall = summary(exhibits)
    print(table(overall.bars), end="\n\n")
    return conclude([*exhibits, overall], CLAIMS, introduction(quick=quick), out, json_path)


def _experiment(quick: bool, group: str) -> list[Exhibit]:
    """Run one group of experiments, in a process of its own."""
    found: list[Exhibit] = import_module(group).exhibits(quick=quick)
    return found
