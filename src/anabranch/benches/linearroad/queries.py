"""The queries of Linear Road in CQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """When a segment costs something, and what a car gets for leaving.

    A toll is twice the square of the cars above the crowd; there is none where an accident lies ahead.

    Parameters
    ----------
    crowd
        Cars; a segment with more of them may cost a toll.
    slow
        Miles per hour; a toll is due only below this average of five minutes.
    credit
        What a car gets back that leaves the road while an accident lies ahead.
    ahead
        Segments after the own one in which an accident counts.
    """

    crowd: int = 50
    slow: int = 40
    credit: int = 10
    ahead: int = 4


def queries(rules: Rules = Rules()) -> dict[str, str]:  # noqa: B008  a frozen value
    """The queries as CQL, in the order of definition: each is a view for those after it.

    Streams are *CarExitStr*, *CarSegEntryStr*, *TollStr* and *NegTollStr*; the others are relations.
    """
    crowd, slow, credit, ahead = rules.crowd, rules.slow, rules.credit, rules.ahead
    return {
        "CurActiveCars": "Select Distinct cid From CarStr [Range 30 Seconds]",
        "CurCarSeg": """
Select L.cid, L.sid
From CarStr [Partition By cid Rows 1] As L, CurActiveCars As A
Where L.cid = A.cid""",
        # The figure asks for Count(Distinct xpos) = 1 per car, which is the same for groups of four.
        "AccCars": "Select cid From CarStr [Partition By cid Rows 4] Group By cid, xpos Having Count(*) = 4",
        "AccSeg": "Select Distinct C.sid From CurCarSeg As C, AccCars As A Where C.cid = A.cid",
        # A car has left when its last report gets older than 30 seconds.
        "CarExitStr": "Select Dstream(cid) From CurActiveCars",
        "SegAvgSpeed": "Select sid, Avg(speed) As speed From CarStr [Range 5 Minutes] Group By sid",
        "SegVol": "Select sid, Count(*) As volume From CurCarSeg Group By sid",
        "AccAhead": f"""
Select Distinct V.sid
From SegVol As V, AccSeg As A
Where A.sid >= V.sid And A.sid <= V.sid + {ahead}""",
        "SegToll": f"""
Select V.sid, 2 * (V.volume - {crowd}) * (V.volume - {crowd}) As toll
From SegAvgSpeed As S, SegVol As V
Where S.sid = V.sid And S.speed < {slow} And V.volume > {crowd} And V.sid Not In (Select sid From AccAhead)""",
        "CarSegEntryStr": "Select Istream(cid, sid) From CurCarSeg",
        "TollStr": """
Select Rstream(E.cid, E.sid, T.toll)
From CarSegEntryStr [Now] As E, SegToll As T
Where E.sid = T.sid""",
        # Our reading, as the thesis gives the name alone: a car that leaves the road while there is an accident in the
        # segment of its last report, or in one of those ahead, gets a credit, once.
        "NegTollStr": f"""
Select Istream(D.cid, D.sid, -{credit} As toll)
From (Select Distinct E.cid, L.sid
      From CarExitStr [Now] As E, CarStr [Partition By cid Rows 1] As L, AccSeg As A
      Where E.cid = L.cid And A.sid >= L.sid And A.sid <= L.sid + {ahead}) As D""",
    }


QUERIES = queries()
