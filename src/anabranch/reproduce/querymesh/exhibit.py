"""What this reproduction shows of one figure, and the names of the systems it compares."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.reproduce.querymesh.claims import CLAIMS
from anabranch.reproduce.thesis.claims import Claim
from anabranch.reproduce.thesis.exhibit import Exhibit as ThesisExhibit

MESH, SMALL_MESH, SINGLE, EDDY, BATCHED = "mesh", "mesh, Table 1", "single plan", "Eddy", "Eddy in batches"
SKEWED, UNIFORM = "skewed", "uniform"


@dataclass(frozen=True)
class Exhibit(ThesisExhibit):
    """One figure of the paper, re-created."""

    @property
    def claim(self) -> Claim:
        """What the paper says."""
        return CLAIMS[self.name]
