"""The demo's data and rules: four hours of packets on their way to a network, and five tests that an alert must pass.

No test is always the best one to start with. In the quiet hour most packets go to hosts that nobody can reach from
outside; then a scan goes exactly for the reachable ones, a flood of decoys passes every cheap test, and at last the
traffic moves on. So the right order changes with every hour.

>>> packets = generate(hour=0, rows=500, first=0, seed=1)
>>> packets.num_rows, packets.schema.names
(500, ['seq', 'ts', 'src', 'dst', 'port', 'payload'])
>>> generate(hour=0, rows=500, first=0, seed=1).equals(packets)
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from anabranch.model.arrays import Floats

Integers = NDArray[np.integer[Any]]
ROWS_PER_FILE = 8_000
BODY_WORDS = 36
THRESHOLD = 0.5
ORDINARY_EVIDENCE = 60.0
BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
HOUR_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True)
class Hour:
    """Shares of an hour's packets that have each property: a known signature, an obfuscated look, and so on."""

    name: str
    signed: float
    obfuscated: float
    encoded: float
    anonymous: float
    exposed: float


HOURS = (
    Hour("quiet", signed=0.50, obfuscated=0.45, encoded=0.55, anonymous=0.97, exposed=0.08),
    Hour("scan", signed=0.55, obfuscated=0.45, encoded=0.60, anonymous=0.05, exposed=0.98),
    Hour("decoys", signed=0.80, obfuscated=0.08, encoded=0.99, anonymous=0.99, exposed=0.97),
    Hour("aftermath", signed=0.60, obfuscated=0.50, encoded=0.04, anonymous=0.97, exposed=0.80),
)

NETWORKS = tuple(f"10.{16 + i // 8}.{32 * (i % 8)}.0/22" for i in range(64))
"""Networks that can be reached from outside."""

TARGETS = ("auth", "cmd", "exec", "ldap", "mem", "proc", "reg", "root", "sql", "tmp")
ACTS = ("dump", "spawn", "inject")
SIGNATURES = tuple(f"{target}_{act}" for target in TARGETS for act in ACTS)
VOCABULARY = """account address archive balance basket browse catalogue change city confirm country current customer
delivery detail discount display email enter example export filter first folder format gallery guest history holiday
image invoice item label language last letter list local login manual market member message method mobile month
newsletter number offer option order page parcel password payment period phone photo picture place postcode preview
price print product profile public query range receipt record region release remember report request result return
review sample search season select service setting shipping shop simple site size status stock store street submit
summary support switch table terms theme ticket title today total track travel update upload user value version
video view visit voucher week welcome window year"""
WORDS = VOCABULARY.split()
NOISE = (
    "$_=[]+{};$$=!![]+~[];",
    "(![]+[])[+!![]]^{}[[]]",
    "';--/**/||'#{$}<%=%>",
    "<?=$_^$__.$$[~{}]?>",
    "{{$%&/()}}[];^~|<<>>",
)

_ENCODED = re.compile(r"(?:%[0-9a-f]{2}){8}")
_SESSION = re.compile(r"session=[0-9a-f]{24}")
_SIGNATURE = re.compile(f"(?:{'|'.join(TARGETS)})_(?:{'|'.join(ACTS)})", re.IGNORECASE)


def signature(payload: str) -> bool:
    """Whether the payload holds one of the known signatures, in any case of letters."""
    return _SIGNATURE.search(payload) is not None


def encoded(payload: str) -> bool:
    """Whether a long stretch of the payload is percent-encoded."""
    return _ENCODED.search(payload) is not None


def anonymous(payload: str) -> bool:
    """Whether the packet belongs to no session."""
    return _SESSION.search(payload) is None


def score(payload: str) -> float:
    """How much the payload looks obfuscated, from 0 to 1: a logistic model over its pairs of bytes."""
    evidence = float(_WEIGHTS[_byte_pairs(payload)].sum()) - ORDINARY_EVIDENCE
    return float(1.0 / (1.0 + np.exp(-np.clip(evidence, -30.0, 30.0))))


def suspicious(value: float) -> bool:
    """Whether a score is high enough for an alert."""
    return value > THRESHOLD


def generate(*, hour: int, rows: int, first: int, seed: int) -> pa.Table:
    """Some packets of an hour, numbered from `first`; the same seed gives the same packets."""
    rng = np.random.default_rng([seed, hour, first])
    shares = HOURS[hour]
    seq = np.arange(first, first + rows)
    moment = (
        int(BEGINNING.timestamp() * 1e6) + hour * HOUR_MICROSECONDS + np.sort(rng.integers(0, HOUR_MICROSECONDS, rows))
    )
    return pa.table(
        {
            "seq": pa.array(seq),
            "ts": pa.array(moment, pa.timestamp("us", tz="UTC")),
            "src": _addresses(np.full(rows, 203), rng.integers(0, 256, rows), rng.integers(0, 4, rows), rng),
            "dst": _destinations(rng, rows, shares.exposed),
            "port": pa.array(rng.choice(np.array([80, 443, 8080, 8443], dtype=np.int32), rows)),
            "payload": _payloads(rng, rows, shares),
        }
    )


def write(folder: Path, rows: int, *, seed: int = 2024) -> list[Path]:
    """Write the packets as Parquet, a folder per hour with some files in each, and return the folders."""
    folders = [folder / f"hour={hour}" for hour in range(len(HOURS))]
    files = files_per_hour(rows)
    edges = np.linspace(0, rows, len(HOURS) * files + 1).astype(int)
    for at, (first, end) in enumerate(pairwise(edges)):
        hour, file = divmod(at, files)
        folders[hour].mkdir(parents=True, exist_ok=True)
        table = generate(hour=hour, rows=int(end - first), first=int(first), seed=seed)
        pq.write_table(table, folders[hour] / f"part-{file:04}.parquet", use_dictionary=False)
    return folders


def files_per_hour(rows: int) -> int:
    """Files that an hour of so many packets in all is written to.

    >>> files_per_hour(400_000), files_per_hour(1_000)
    (12, 1)
    """
    return max(1, rows // len(HOURS) // ROWS_PER_FILE)


def _payloads(rng: np.random.Generator, rows: int, shares: Hour) -> pa.Array:
    """A request, a session for some, then words among which the telling parts stand at random places."""
    columns = [_pick(rng, WORDS, rows) for _ in range(BODY_WORDS)]
    runs = ["".join(f"%{byte:02x}" for byte in rng.integers(0, 256, 12)) for _ in range(256)]
    for share, texts in ((shares.signed, SIGNATURES), (shares.obfuscated, NOISE), (shares.encoded, runs)):
        place = int(rng.integers(BODY_WORDS // 2, BODY_WORDS))
        marked = pa.array(rng.random(rows) < share)
        columns[place] = pc.if_else(
            marked, pc.binary_join_element_wise(columns[place], _pick(rng, texts, rows), " "), columns[place]
        )
    sessions = [f"session={rng.bytes(12).hex()}" for _ in range(1024)]
    session = pc.if_else(pa.array(rng.random(rows) < shares.anonymous), "session=none", _pick(rng, sessions, rows))
    return pc.binary_join_element_wise("POST", _pick(rng, [f"/{w}" for w in WORDS], rows), session, *columns, " ")


def _destinations(rng: np.random.Generator, rows: int, share: float) -> pa.Array:
    """Hosts, a share of them inside the networks that can be reached from outside."""
    network = rng.integers(0, len(NETWORKS), rows)
    inside = rng.random(rows) < share
    third = 32 * (network % 8) + np.where(inside, rng.integers(0, 4, rows), rng.integers(4, 12, rows))
    return _addresses(np.full(rows, 10), 16 + network // 8, third, rng)


def _addresses(first: Integers, second: Integers, third: Integers, rng: np.random.Generator) -> pa.Array:
    parts = (first, second, third, rng.integers(1, 3, len(first)))
    return pc.binary_join_element_wise(*(pa.array(part).cast(pa.string()) for part in parts), ".")


def _pick(rng: np.random.Generator, texts: Sequence[str], rows: int) -> pa.Array:
    return pa.array(texts).take(pa.array(rng.integers(0, len(texts), rows)))


def _byte_pairs(text: str) -> Integers:
    codes = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.intp)
    return codes[:-1] * 256 + codes[1:]


def _weights() -> Floats:
    """Log-odds of each pair of bytes in obfuscated text against ordinary words, where they speak for the former."""
    odd = np.bincount(_byte_pairs("".join(NOISE)), minlength=65536) + 0.02
    plain = np.bincount(_byte_pairs(" ".join((*WORDS, *SIGNATURES))), minlength=65536) + 0.02
    weights: Floats = np.maximum(np.log(odd / odd.sum()) - np.log(plain / plain.sum()), 0.0)
    return weights


_WEIGHTS = _weights()
