"""`anabranch reproduce constraints`: the experiments on k-constraints, chapter 6 of the thesis."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.constraints import combining, costs, linear_road, memory, monitoring, network
from anabranch.reproduce.constraints.claims import CLAIMS
from anabranch.reproduce.constraints.page import INTRODUCTION

GROUPS = (network, memory, monitoring, costs, combining, linear_road)
FOLDER = Path("reproduction/constraints")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
