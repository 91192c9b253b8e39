"""`anabranch reproduce qpipe`: the experiments of *Multi-query optimization opportunities in QPipe*."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.qpipe import interarrivals, throughput
from anabranch.reproduce.qpipe.claims import CLAIMS
from anabranch.reproduce.qpipe.page import INTRODUCTION

GROUPS = (interarrivals, throughput)
FOLDER = Path("reproduction/qpipe")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
