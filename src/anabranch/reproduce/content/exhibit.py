"""What this reproduction shows of one figure or table."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.reproduce.content.claims import CLAIMS
from anabranch.reproduce.thesis.claims import Claim
from anabranch.reproduce.thesis.exhibit import Exhibit as ThesisExhibit

CALLS, TIME, BOUND, SBR, LEARNS = "Learns, routing calls", "Learns, time", "Knows, routing calls", "SBR", "Learns"
ROOM, SHARE, RATIO = "room sensors", "selectivity", "gain ratio of sensorID"
SENSOR, HOUR, OTHERS = "sensorID", "hour", "all others"


@dataclass(frozen=True)
class Exhibit(ThesisExhibit):
    """One figure or table of the paper, re-created."""

    @property
    def claim(self) -> Claim:
        """What the paper says."""
        return CLAIMS[self.name]
