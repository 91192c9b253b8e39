"""Which of many substrings or regular expressions are in which texts.

All substrings are found in one pass by an Aho-Corasick automaton, all regular expressions in one pass per thousand by
a set of RE2; that needs the extra `patterns`. Without it, Arrow tries one pattern after the other.

>>> rows, patterns = patterns_of(Op.CONTAINS, pa.array(["error", "disk"])).pairs(pa.array(["disk error", "fine"]))
>>> sorted(zip(rows.tolist(), patterns.tolist()))
[(0, 0), (0, 1)]

References
----------
A. Aho, M. Corasick, *Efficient string matching: an aid to bibliographic search*, 1975.
R. Cox, *Regular expression matching in the wild*, 2010 (RE2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import QueryError
from anabranch.model.arrays import Mask, Rows
from anabranch.rules.factors import Op
from anabranch.rules.texts import Texts

PATTERNS_PER_SET = 1_000
SET_BYTES = 256 << 20
"""Memory that a set of RE2 may take for the states that it has met."""
PACKAGES = {Op.CONTAINS: ("ahocorasick_rs", "ahocorasick-rs"), Op.REGEX: ("re2", "google-re2")}


class Patterns(Protocol):
    """Distinct patterns, numbered from 0."""

    how: str

    def pairs(self, texts: pa.Array) -> tuple[Rows, Rows]:
        """Places of texts without NULLs, and the patterns in each of them, in the order of places."""

    def holds(self, texts: pa.Array, rows: Rows, patterns: Rows) -> Mask:
        """Which pairs of a text's place and a pattern match."""


def patterns_of(op: Op, patterns: pa.Array) -> Patterns:
    """The fastest way there is to find patterns, which are distinct texts."""
    module, _ = PACKAGES[op]
    if find_spec(module) is None:
        return OneByOne(op, patterns)
    return Substrings(patterns) if op is Op.CONTAINS else RegexSets(patterns)


class OneByOne:
    """Patterns that are tried one after the other, by Arrow; for machines without the packages of the extra."""

    def __init__(self, op: Op, patterns: pa.Array) -> None:
        self._patterns = patterns.to_pylist()
        self._matches = pc.match_substring if op is Op.CONTAINS else pc.match_substring_regex
        self.how = f"one by one, since {PACKAGES[op][1]} is not installed (pip install 'anabranch[patterns]')"
        for pattern in self._patterns:
            try:
                self._matches(pa.array([""]), pattern)
            except pa.ArrowInvalid as error:
                raise _refused(pattern, str(error)) from None

    def pairs(self, texts: pa.Array) -> tuple[Rows, Rows]:
        """See `Patterns`."""
        found = [np.flatnonzero(self._mask(texts, pattern)) for pattern in range(len(self._patterns))]
        patterns = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
        rows = np.concatenate([np.empty(0, np.int64), *found])
        order = np.argsort(rows, kind="stable")
        return rows[order], patterns[order]

    def holds(self, texts: pa.Array, rows: Rows, patterns: Rows) -> Mask:
        """See `Patterns`."""
        held = np.zeros(len(rows), np.bool_)
        order = np.argsort(patterns, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(patterns[order])) + 1):
            if len(places):
                held[places] = self._mask(texts.take(pa.array(rows[places])), patterns[places[0]])
        return held

    def _mask(self, texts: pa.Array, pattern: int) -> Mask:
        return np.asarray(self._matches(texts, self._patterns[pattern]).to_numpy(zero_copy_only=False), np.bool_)


class _Together(ABC):
    """Patterns that are found together: a pair holds if it is among those that are found."""

    _count: int

    @abstractmethod
    def pairs(self, texts: pa.Array) -> tuple[Rows, Rows]:
        """See `Patterns`."""

    def holds(self, texts: pa.Array, rows: Rows, patterns: Rows) -> Mask:
        """See `Patterns`."""
        used, place = np.unique(rows, return_inverse=True)
        found_rows, found = self.pairs(texts.take(pa.array(used)))
        return np.isin(place * self._count + patterns, found_rows * self._count + found)

    def _distinct(self, rows: Rows, patterns: Rows) -> tuple[Rows, Rows]:
        both = np.unique(rows * max(self._count, 1) + patterns)
        return both // max(self._count, 1), both % max(self._count, 1)


class Substrings(_Together):
    """An Aho-Corasick automaton, which runs over the bytes of all texts at once."""

    how = "Aho-Corasick automaton"

    def __init__(self, patterns: pa.Array) -> None:
        self._patterns = patterns
        self._count = len(patterns)
        lengths = np.asarray(pc.binary_length(patterns).to_numpy(), np.int64)
        self._places, self._empty = np.flatnonzero(lengths), np.flatnonzero(lengths == 0)

    def __getstate__(self) -> dict[str, Any]:
        """The automaton is made anew where it is needed: it does not pickle."""
        return {name: value for name, value in self.__dict__.items() if name != "_automaton"}

    @cached_property
    def _automaton(self) -> Any:
        from ahocorasick_rs import BytesAhoCorasick

        return BytesAhoCorasick(self._patterns.take(pa.array(self._places)).cast(pa.large_binary()).to_pylist())

    def pairs(self, texts: pa.Array) -> tuple[Rows, Rows]:
        """See `Patterns`."""
        spans = Texts.of(texts)
        found = self._automaton.find_matches_as_indexes(spans.data.tobytes(), overlapping=True)
        pattern, begin, end = np.array(found, np.int64).reshape(-1, 3).T
        row = np.searchsorted(spans.ends, begin, side="right")
        within = row < len(texts)
        within[within] = end[within] <= spans.ends[row[within]]
        always = np.repeat(np.arange(len(texts)), len(self._empty)), np.tile(self._empty, len(texts))
        rows = np.concatenate((row[within], always[0]))
        return self._distinct(rows, np.concatenate((self._places[pattern[within]], always[1])))


class RegexSets(_Together):
    """Sets of RE2, each of which finds all its expressions in one pass over a text."""

    how = "sets of RE2"

    def __init__(self, patterns: pa.Array) -> None:
        self._patterns = patterns.to_pylist()
        self._count = len(patterns)
        _ = self._sets  # an expression that is none is an error now

    def __getstate__(self) -> dict[str, Any]:
        """The sets are made anew where they are needed: they do not pickle."""
        return {name: value for name, value in self.__dict__.items() if name != "_sets"}

    @cached_property
    def _sets(self) -> list[Any]:
        return [self._set(self._patterns[at : at + PATTERNS_PER_SET]) for at in range(0, self._count, PATTERNS_PER_SET)]

    def _set(self, patterns: Iterable[str]) -> Any:
        import re2

        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = SET_BYTES, False, True
        made = re2.Set.SearchSet(options)
        for pattern in patterns:
            try:
                made.Add(pattern)
            except re2.error as error:
                raise _refused(pattern, str(error)) from None
        made.Add("")
        try:
            made.Compile()
        except re2.error:  # too large for its memory
            return None
        return made

    def pairs(self, texts: pa.Array) -> tuple[Rows, Rows]:
        """See `Patterns`. RE2 takes one text at a time, so each distinct one is taken once."""
        coded = texts.dictionary_encode()
        found = [self._found(text) for text in coded.dictionary.cast(pa.large_binary()).to_pylist()]
        offsets = np.cumsum([0, *map(len, found)])
        flat = np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64)
        which = coded.indices.to_numpy()
        counts = offsets[which + 1] - offsets[which]
        rows = np.repeat(np.arange(len(texts)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, flat[offsets[which][rows] + within]

    def _found(self, text: bytes) -> Rows:
        found: list[int] = []
        for number, one in enumerate(self._sets):
            first = number * PATTERNS_PER_SET
            last = min(PATTERNS_PER_SET, self._count - first)
            matched = [] if one is None else one.Match(text) or []
            if last in matched:  # the empty expression, which RE2 finds unless it runs out of memory
                found += [first + pattern for pattern in matched if pattern != last]
            else:
                found += self._one_by_one(text, first, first + last)
        return np.array(found, np.int64)

    def _one_by_one(self, text: bytes, first: int, last: int) -> list[int]:
        import re2

        decoded = text.decode()
        return [place for place in range(first, last) if re2.search(self._patterns[place], decoded) is not None]


def _refused(pattern: str, why: str) -> QueryError:
    return QueryError(
        f"{pattern!r} is not a regular expression of RE2: {why}",
        hint="RE2 has no look-around and no back references; write the condition without them",
    )
