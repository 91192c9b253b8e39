"""NEXMark: an auction house, its queries in CQL, their answers by DuckDB, and a race against Flink.

`events.py` makes persons, auctions and bids; `answers.py` has queries 0 to 8 with what they must answer; `race.py` is
`anabranch bench nexmark`.
"""

from pathlib import Path


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Race Flink on the queries with joins and windows: see `race.py`."""
    from anabranch.benches.nexmark import race  # starts Spark

    return race.main(quick=quick, json_path=json_path)
