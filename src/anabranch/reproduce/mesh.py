"""`anabranch reproduce mesh`: the experiments of *Multi-route query processing and optimization*."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.querymesh import lab, skew, starts, synthetic, training
from anabranch.reproduce.querymesh.claims import CLAIMS
from anabranch.reproduce.querymesh.page import INTRODUCTION

GROUPS = (synthetic, skew, lab, training, starts)
FOLDER = Path("reproduction/mesh")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
