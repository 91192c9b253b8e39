"""A set of address prefixes that answers membership in logarithmic time.

Networks (`10.2.0.0/16`, IPv6 too) and whole addresses become disjoint intervals of integers; anything else is leading
text, but for what looks like a network with a mistake (`10.2.0.0/99`).

>>> exposed = PrefixSet(["10.2.0.0/16", "192.168.7.", "fe80::/10"])
>>> [exposed.contains(a) for a in ("10.2.9.1", "10.3.0.1", "192.168.7.44", "fe80::1", "not an address")]
[True, False, True, True, False]
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from anabranch.errors import QueryError

IN_NETWORK = "in_network"
"""What queries call `in_network`."""
LIKE_A_NETWORK = re.compile(r"(\d+(\.\d+)+|[\da-f:.]*:[\da-f:.]*)/\d+", re.IGNORECASE)


def network_bounds(text: str) -> tuple[int, int, int]:
    """The version of a network or an address, and its first and last address as integers.

    >>> network_bounds("10.2.0.0/16") == (4, 0x0A020000, 0x0A02FFFF)
    True
    """
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise QueryError(f"{text!r} is not a network", hint="write networks as 10.2.0.0/16 or fe80::/10") from None
    return network.version, int(network.network_address), int(network.broadcast_address)


def in_network(address: str | None, network: str | None) -> bool | None:
    """Whether an address lies in a network; a text that is no address lies in none.

    >>> [in_network(each, "10.2.0.0/16") for each in ("10.2.9.1", "10.3.0.1", "nowhere", None)]
    [True, False, False, None]
    """
    if address is None or network is None:
        return None
    version, first, last = _bounds(network)
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return found.version == version and first <= int(found) <= last


class PrefixSet:
    """Membership of addresses and texts under a set of prefixes."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        bounds: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
        texts: list[str] = []
        for prefix in prefixes:
            if not isinstance(prefix, str):
                raise QueryError(f"a prefix must be a string, not {type(prefix).__name__}: {prefix!r}")
            try:
                version, first, last = network_bounds(prefix)
                bounds[version].append((first, last))
            except QueryError:
                if LIKE_A_NETWORK.fullmatch(prefix.strip()):
                    raise
                texts.append(prefix)
        self._intervals = {version: _intervals(found) for version, found in bounds.items()}
        self._texts = _shortest(texts)

    def __len__(self) -> int:
        return sum(len(starts) for starts, _ in self._intervals.values()) + len(self._texts)

    def contains(self, value: str) -> bool:
        """Whether a value lies in one of the networks or begins with one of the texts."""
        at = bisect_right(self._texts, value)
        if at and value.startswith(self._texts[at - 1]):
            return True
        try:
            address = ip_address(value)
        except ValueError:
            return False
        return self._in_network(address)

    def _in_network(self, address: IPv4Address | IPv6Address) -> bool:
        starts, ends = self._intervals[address.version]
        at = bisect_right(starts, int(address))
        return bool(at) and int(address) <= ends[at - 1]


_bounds = lru_cache(maxsize=65_536)(network_bounds)


def _intervals(bounds: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Starts and ends of the union of some closed intervals."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(bounds):
        if ends and start <= ends[-1] + 1:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _shortest(texts: list[str]) -> list[str]:
    """Drop texts that another one is a prefix of, so that one look to the left decides."""
    kept: list[str] = []
    for text in sorted(texts):
        if not kept or not text.startswith(kept[-1]):
            kept.append(text)
    return kept
