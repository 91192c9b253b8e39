"""What this reproduction shows of one figure or table, and the names of the systems that it compares."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.reproduce.psoup.claims import CLAIMS
from anabranch.reproduce.thesis.claims import Claim
from anabranch.reproduce.thesis.exhibit import Exhibit as ThesisExhibit

NOMAT, PARTIAL, COMPLETE, ARRAYS = "NoMat", "PSoup-P", "PSoup-C", "PSoup-C, arrays"

# A claim about a magnitude holds within half an order of it.
HALF_ORDER = 10**0.5
ONE_ORDER, TWO_ORDERS = 10 / HALF_ORDER, 100 / HALF_ORDER
UNCHANGED = 1.5


@dataclass(frozen=True)
class Exhibit(ThesisExhibit):
    """One figure or table of the paper, re-created."""

    @property
    def claim(self) -> Claim:
        """What the paper says."""
        return CLAIMS[self.name]
