"""Internet addresses and networks as keys: texts of bytes in the order of addresses, those of version 4 first.

Addresses of version 4 are read with operations on whole columns; others one by one, each distinct text once.

>>> keys, there = addresses_of(pa.array(["10.2.0.1", "fe80::1", "10.2.0.256", "nowhere"]))
>>> there.tolist()
[True, True, False, False]
>>> first, last = networks_of(pa.array(["10.2.0.0/16", "::/0"]))
>>> [text.as_py().hex() for text in last.array()][0]
'040a02ffff'
"""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.arrays import Mask, Rows
from anabranch.model.prefixes import network_bounds
from anabranch.rules.domains import present
from anabranch.rules.texts import Texts

_DOT, _SLASH, _ZERO = ord("."), ord("/"), ord("0")
_BYTES = {4: 4, 6: 16}


def addresses_of(array: pa.Array) -> tuple[Texts, Mask]:
    """The keys of addresses, and which texts are one; a NULL is none."""
    texts = Texts.of(array)
    numbers, there = _version_4(texts)
    keys = _keys_4(numbers)
    others = np.flatnonzero(~there)
    valid = present(array)
    if valid is not None:
        there, others = there & valid, others[valid[others]]
    if not len(others):
        return keys, there
    coded = array.take(pa.array(others)).dictionary_encode()
    read = [_address(text) for text in coded.dictionary.to_pylist()]
    found = np.array([key is not None for key in read], np.bool_)[coded.indices.to_numpy()]
    there[others] = found
    places = np.full(len(array), -1)
    places[others] = coded.indices.to_numpy()
    return _replaced(keys, places, [key or b"" for key in read]), there


def networks_of(array: pa.Array) -> tuple[Texts, Texts]:
    """The keys of the first and the last address of each network."""
    texts = Texts.of(array)
    cut, length, there = _lengths(texts)
    numbers, address = _version_4(Texts(texts.data, texts.begins, cut))
    there &= address
    hosts = (np.int64(1) << (32 - length)) - 1
    first, last = _keys_4(numbers & ~hosts), _keys_4(numbers | hosts)
    others = np.flatnonzero(~there)
    if not len(others):
        return first, last
    coded = array.take(pa.array(others)).dictionary_encode()
    bounds = [network_bounds(text) for text in coded.dictionary.to_pylist()]
    places = np.full(len(array), -1)
    places[others] = coded.indices.to_numpy()
    firsts = [_key(version, low) for version, low, _ in bounds]
    lasts = [_key(version, high) for version, _, high in bounds]
    return _replaced(first, places, firsts), _replaced(last, places, lasts)


def _key(version: int, address: int) -> bytes:
    return bytes((version,)) + address.to_bytes(_BYTES[version])


def _address(text: str) -> bytes | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return _key(address.version, int(address))


def _keys_4(numbers: Rows) -> Texts:
    data = np.empty((len(numbers), 5), np.uint8)
    data[:, 0] = 4
    data[:, 1:] = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
    return Texts.of_width(data)


def _replaced(keys: Texts, places: Rows, others: list[bytes]) -> Texts:
    """The keys, but for those at places that have the number of another one."""
    more = Texts.of(pa.array(others, pa.large_binary()))
    own = places < 0
    begins = np.where(own, keys.begins, more.begins[places] + len(keys.data))
    ends = np.where(own, keys.ends, more.ends[places] + len(keys.data))
    return Texts(np.concatenate((keys.data, more.data)), begins, ends).gathered()


def _version_4(texts: Texts) -> tuple[Rows, Mask]:
    """Addresses of four numbers with dots between them, and which texts are one."""
    dots = np.flatnonzero(texts.data == _DOT)
    first = np.searchsorted(dots, texts.begins)
    there = np.searchsorted(dots, texts.ends) - first == 3
    numbers = np.zeros(len(texts), np.int64)
    rows = np.flatnonzero(there)
    edges = np.stack([texts.begins[rows] - 1, *(dots[first[rows] + i] for i in range(3)), texts.ends[rows]], axis=1)
    right = np.ones(len(rows), np.bool_)
    for part in range(4):
        number, good = _decimal(texts.data, edges[:, part] + 1, edges[:, part + 1])
        right &= good & (number <= 255)
        numbers[rows] = numbers[rows] << 8 | number
    there[rows] = right
    numbers[~there] = 0
    return numbers, there


def _lengths(texts: Texts) -> tuple[Rows, Rows, Mask]:
    """Where the address of a network ends, the bits of its prefix, and which texts have them in the usual form."""
    slashes = np.flatnonzero(texts.data == _SLASH)
    first = np.searchsorted(slashes, texts.begins)
    count = np.searchsorted(slashes, texts.ends) - first
    with_length = np.flatnonzero(count == 1)
    cut = texts.ends.copy()
    cut[with_length] = slashes[first[with_length]]
    length = np.full(len(texts), 32, np.int64)
    there = count == 0
    length[with_length], there[with_length] = _decimal(texts.data, cut[with_length] + 1, texts.ends[with_length])
    there &= length <= 32
    return cut, np.where(there, length, 32), there


def _decimal(data: npt.NDArray[np.uint8], begins: Rows, ends: Rows) -> tuple[Rows, Mask]:
    """Numbers of one to three digits without leading zeros, and which spans are one."""
    width = ends - begins
    good = (width >= 1) & (width <= 3)
    number = np.zeros(len(begins), np.int64)
    for place in range(3):
        within = good & (place < width)
        digit = data[np.where(within, begins + place, 0)].astype(np.int64) - _ZERO
        good &= ~within | ((digit >= 0) & (digit <= 9))
        number = np.where(within, number * 10 + digit, number)
    good &= (width == 1) | (data[np.where(good, begins, 0)] != _ZERO)
    return np.where(good, number, 0), good
