"""`anabranch reproduce routing`: the experiments of *Content-Based Routing: Different Plans for Different Data*."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.content import adaptivity, costs, selectivities, skew
from anabranch.reproduce.content.claims import CLAIMS
from anabranch.reproduce.content.page import INTRODUCTION

GROUPS = (skew, selectivities, adaptivity, costs)
FOLDER = Path("reproduction/routing")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
