"""`anabranch reproduce joins`: the experiments on join plans and caches, chapter 5 of the thesis."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.joins import adaptivity, caching, many, plans
from anabranch.reproduce.joins.claims import CLAIMS
from anabranch.reproduce.joins.page import INTRODUCTION

GROUPS = (plans, adaptivity, caching, many)
FOLDER = Path("reproduction/joins")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
