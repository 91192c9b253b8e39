"""Value classes: the data cut along one attribute or a pair of attributes, and a route for every class.

A `Split` turns an attribute into a small number of codes: one per frequent value, or one per range. Integers of few
values are split both ways, and times by their hour and weekday, too: what comes back while the times themselves grow.
`ValueClasses` combines one or two splits; each combination of codes is a class, and each class belongs to a route.
Values that were never seen belong to route 0, the one for everything.

>>> import pyarrow as pa
>>> zones = split("zone", pa.array(["north", "south", "north"]))
>>> classes = ValueClasses((zones,), np.array([1, 2, 0]))
>>> classes.classify({"zone": pa.array(["south", "north", "east", None])}).tolist()
[2, 1, 0, 0]
>>> classes.tests(2)
("zone in ('south')",)

Notes
-----
Partitioning functions f_j with d partitions of section 4.1: d -> `MOST_CODES`, and `RANGES` for numbers.

Differs from the paper
----------------------
Frequent values have codes of their own instead of hash buckets, so that a route can be explained, and ranges follow the
quantiles of a sample instead of running extremes, so that outliers do not empty them. A small sample is cut into fewer
ranges than a large one, so that each has rows enough for an order of its own.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, sections 3, 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Floats, Mask
from anabranch.model.attributes import (
    AttributeArrays,
    ClockPart,
    clock_part,
    clock_parts,
    in_utc,
    is_discrete,
    is_numeric,
    numbers,
    python_values,
)
from anabranch.model.floats import canonical
from anabranch.routing.json_values import from_json, to_json

MOST_CODES = 32
MOST_CLASSES_OF_PAIR = 48
SEQUENCE = 0.9
COMES_BACK = 0.9
ROWS_TO_COME_BACK = 8
RANGES = 12
FEWEST_RANGES = 4
ROWS_PER_RANGE = 14

Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class ValueSplit:
    """One code per listed value; all others, NULL too, share the last code."""

    attribute: str
    values: tuple[Any, ...]
    part: ClockPart | None = None

    @property
    def codes(self) -> int:
        """Number of codes."""
        return len(self.values) + 1

    def encode(self, array: pa.Array) -> Codes:
        """The code of every row."""
        array = _looked_at(self, array)
        found = pc.index_in(canonical(array), value_set=self._listed(array.type))
        codes: Codes = pc.fill_null(found, len(self.values)).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def describe(self, codes: Sequence[int]) -> str:
        """The condition that a row has one of the codes; nothing where all rows have."""
        listed = [self.values[c] for c in codes if c < len(self.values)]
        if len(self.values) in codes:
            missing = [v for c, v in enumerate(self.values) if c not in codes]
            return f"{label(self)} not in {_listing(missing)}" if missing else ""
        return f"{label(self)} in {_listing(listed)}"

    def _listed(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self.values, type=kind.value_type if pa.types.is_dictionary(kind) else kind)


@dataclass(frozen=True)
class RangeSplit:
    """One code per range between the bounds (upper bounds included), and a last one for NULL and NaN."""

    attribute: str
    bounds: tuple[float, ...]
    part: ClockPart | None = None

    @property
    def codes(self) -> int:
        """Number of codes."""
        return len(self.bounds) + 2

    def encode(self, array: pa.Array) -> Codes:
        """The code of every row."""
        values = numbers(_looked_at(self, array))
        codes: Codes = np.searchsorted(np.array(self.bounds), values, side="left").astype(np.int64)
        codes[np.isnan(values)] = self.codes - 1
        return codes

    def describe(self, codes: Sequence[int]) -> str:
        """The condition that a row has one of the codes; nothing where all rows have."""
        chosen = sorted(c for c in codes if c < self.codes - 1)
        parts = [self._interval(first, last) for first, last in runs(chosen)]
        if self.codes - 1 in codes and len(chosen) < self.codes - 1:
            parts.append(f"{label(self)} is null")
        return " or ".join(parts) if len(chosen) < self.codes - 1 else ""

    def _interval(self, first: int, last: int) -> str:
        low = f"{self.bounds[first - 1]:g} < " if first else ""
        high = f" <= {self.bounds[last]:g}" if last < len(self.bounds) else ""
        return f"{low}{label(self)}{high}"


Split = ValueSplit | RangeSplit


def label(s: Split) -> str:
    """What a split looks at, as SQL writes it."""
    return f"{s.part}({s.attribute})" if s.part else s.attribute


def _looked_at(s: Split, array: pa.Array) -> pa.Array:
    return clock_part(array, s.part) if s.part else array


def splits(attribute: str, array: pa.Array) -> list[Split]:
    """All the ways to split an attribute by a sample of its values, in the sequence in which they arrived.

    >>> splits("hour", pa.array([i * 7 % 24 for i in range(240)]))[1].values[:4]
    (0, 7, 14, 21)
    """
    found = [split(attribute, array)]
    if pa.types.is_integer(array.type) and not isinstance(found[0], ValueSplit):
        found.append(_coming_back(_by_value(attribute, array, pc.value_counts(array.drop_null())), array))
    for part in clock_parts(array.type):
        inner = [replace(s, part=part) for s in splits(attribute, clock_part(array, part))]
        found += [_coming_back(s, array) for s in inner]
    return [s for s in found if s is not None]


def split(attribute: str, array: pa.Array) -> Split | None:
    """A split of an attribute by a sample of its values; None where it cannot tell rows apart usefully.

    Constants cannot; nor can discrete attributes in which nearly every row has a value of its own, or numbers that only
    grow or fall, but for a few jumps, such as sequences and timestamps: their values do not come back. Nor can columns
    of nested and other rare types, or with values that Python does not have, such as dates after the year 9999.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    discrete = is_discrete(kind) or pa.types.is_binary(kind)
    if not (discrete or is_numeric(kind)):
        return None
    array = in_utc(array)
    counts = pc.value_counts(canonical(array.drop_null()))
    distinct = len(counts)
    if distinct < 2 and not (distinct == 1 and array.null_count):
        return None
    if discrete or distinct <= RANGES:
        return _by_value(attribute, array, counts)
    if pa.types.is_temporal(kind) and not _readable(array):
        return None
    values = numbers(array)
    values = values[np.isfinite(values)]
    steps = np.diff(values)
    if len(steps) and max(np.mean(steps > 0), np.mean(steps < 0)) > SEQUENCE:
        return None
    return RangeSplit(attribute, _quantiles(values))


def _by_value(attribute: str, array: pa.Array, counts: pa.Array) -> ValueSplit | None:
    if len(counts) > max(MOST_CODES, len(array) // 4):
        return None
    ranked = sorted(python_values(counts) or (), key=lambda c: -c["counts"])
    return ValueSplit(attribute, tuple(c["values"] for c in ranked[: MOST_CODES - 1])) if ranked else None


def _coming_back(s: Split | None, array: pa.Array) -> Split | None:
    """A split, unless its codes rather tell early rows from late ones: the first hour of a sample from the second."""
    if s is None:
        return None
    codes, half = s.encode(array), len(array) // 2
    early, late = (np.bincount(part, minlength=s.codes) for part in (codes[:half], codes[half:]))
    frequent = early + late >= ROWS_TO_COME_BACK
    again = (early > 0) & (late > 0)
    return s if frequent.any() and again[frequent].mean() >= COMES_BACK else None


def _readable(array: pa.Array) -> bool:
    """Whether Python has all dates or times of an array: it has those between any two that it has."""
    ends = pc.min_max(array)
    return python_values(pa.array([ends["min"], ends["max"]])) is not None


@dataclass(frozen=True, eq=False)
class ValueClasses:
    """Splits, and the route of every class (a flat array over the combinations of codes, last split fastest)."""

    splits: tuple[Split, ...]
    route_of: Codes

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes to look at."""
        return tuple(dict.fromkeys(s.attribute for s in self.splits))

    @cached_property
    def routes(self) -> int:
        """Number of routes; route 0 always exists."""
        return int(self.route_of.max(initial=0)) + 1

    def classify(self, columns: AttributeArrays) -> Codes:
        """The route of every row."""
        found: Codes = self.route_of[classes_of(self.splits, columns)]
        return found

    def tests(self, route: int) -> tuple[str, ...]:
        """The conditions on attributes under which a row takes a route, one text per alternative."""
        return self._described(self.route_of == route)

    def shown(self, routes: Sequence[int]) -> tuple[str, ...]:
        """The same for several routes together, as people read it: what was never seen is not listed.

        >>> by_zone = ValueClasses((ValueSplit("zone", ("north", "south")),), np.array([1, 2, 0]))
        >>> by_zone.shown([1, 2]), by_zone.shown([0, 1])
        (("zone in ('north', 'south')",), ('all other rows',))
        """
        return ("all other rows",) if 0 in routes else self._described(np.isin(self.route_of, routes))

    def _described(self, chosen_cells: Mask) -> tuple[str, ...]:
        if not chosen_cells.any():
            return ()
        if len(self.splits) == 1:
            return (self.splits[0].describe(np.flatnonzero(chosen_cells).tolist()),)
        first, second = self.splits
        table = chosen_cells.reshape(first.codes, second.codes)
        rows: dict[tuple[int, ...], list[int]] = {}
        for code in range(first.codes):
            if chosen := tuple(np.flatnonzero(table[code]).tolist()):
                rows.setdefault(chosen, []).append(code)
        both = [(first.describe(codes), second.describe(chosen)) for chosen, codes in rows.items()]
        return tuple(" and ".join(f"({t})" if " or " in t else t for t in texts if t) for texts in both)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"splits": [_split_dict(s) for s in self.splits], "route_of": self.route_of.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValueClasses:
        """From what `to_dict` gave."""
        return cls(tuple(map(_split_of, data["splits"])), np.array(data["route_of"], dtype=np.int64))


def _split_dict(s: Split) -> dict[str, Any]:
    part = {"part": s.part} if s.part else {}
    if isinstance(s, RangeSplit):
        return {"attribute": s.attribute, "bounds": [to_json(b) for b in s.bounds]} | part
    return {"attribute": s.attribute, "values": [to_json(v) for v in s.values]} | part


def _split_of(data: Mapping[str, Any]) -> Split:
    if "bounds" in data:
        return RangeSplit(data["attribute"], tuple(map(from_json, data["bounds"])), data.get("part"))
    return ValueSplit(data["attribute"], tuple(map(from_json, data["values"])), data.get("part"))


def classes_of(splits: Sequence[Split], columns: AttributeArrays) -> Codes:
    """The class of every row."""
    return all_classes([splits], columns)[0]


def all_classes(many: Sequence[Sequence[Split]], columns: AttributeArrays) -> list[Codes]:
    """The class of every row by each of many combinations; every split encodes its column once."""
    codes = {s: s.encode(columns[s.attribute]) for s in {s for splits in many for s in splits}}
    return [reduce(lambda classes, s: classes * s.codes + codes[s], rest, codes[first]) for first, *rest in many]


def class_count(splits: Sequence[Split]) -> int:
    """Number of classes."""
    return math.prod(s.codes for s in splits)


def pairs(found: Sequence[Split]) -> list[tuple[Split, ...]]:
    """Every pair of splits of different things with a bearable number of classes."""
    apart = [p for p in combinations(found, 2) if label(p[0]) != label(p[1])]
    return [p for p in apart if class_count(p) <= MOST_CLASSES_OF_PAIR]


def coarse(s: Split) -> Split:
    """A split with few codes, for pairs."""
    if isinstance(s, RangeSplit) and len(s.bounds) > 3:
        step = (len(s.bounds) + 1) // 4
        return replace(s, bounds=s.bounds[step - 1 :: step][:3])
    return s


def _quantiles(values: Floats) -> tuple[float, ...]:
    """Bounds of ranges with about as many rows each; they lie between values, where rounding moves no row."""
    ranges = min(max(len(values) // ROWS_PER_RANGE, FEWEST_RANGES), RANGES)
    distinct, places = np.unique(values), np.arange(1, ranges) * len(values) // ranges
    above = np.unique(np.searchsorted(distinct, np.sort(values)[places], side="right"))
    above = above[above < len(distinct)]
    return tuple((distinct[above - 1] / 2 + distinct[above] / 2).tolist())


def _listing(values: Sequence[Any]) -> str:
    return "(" + ", ".join(repr(v) for v in sorted(values)) + ")"


def runs(codes: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of every stretch of codes that follow each other."""
    found: list[tuple[int, int]] = []
    for c in codes:
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return found
