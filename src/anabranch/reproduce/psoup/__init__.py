"""`anabranch reproduce psoup`: the experiments of *Streaming Queries over Streaming Data*."""

from __future__ import annotations

from pathlib import Path

from anabranch.reproduce import experiments
from anabranch.reproduce.psoup import arrivals, join_costs, responses
from anabranch.reproduce.psoup.claims import CLAIMS
from anabranch.reproduce.psoup.page import INTRODUCTION

GROUPS = (responses, arrivals, join_costs)
FOLDER = Path("reproduction/psoup")


def main(*, quick: bool, json_path: Path | None = None, out: Path = FOLDER) -> int:
    """Run all experiments, print the claims, write page and JSON; 0 when every claim holds, 3 otherwise."""
    return experiments.run(GROUPS, CLAIMS, INTRODUCTION, out, quick=quick, json=json_path)
