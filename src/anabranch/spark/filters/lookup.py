"""Look-ups in workers: whole Arrow columns, probed at once.

A value is in a table where Spark's `isin` or left semi join says so: both sides are compared in Spark's common type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.utils import is_remote

from anabranch.errors import DataError, QueryError
from anabranch.model.attributes import python_values
from anabranch.model.floats import canonical
from anabranch.model.predicates import LookupPredicate
from anabranch.model.prefixes import PrefixSet

REHASHED_VALUES = 1000
MOST_DIGITS = 38
"""Of a decimal in Spark."""

LOCAL_TIME, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class SessionRules:
    """Settings of a session that decide how values of different types are compared.

    Parameters
    ----------
    time_zone
        That of local times and dates, where they are compared with instants.
    ansi
        Whether it is in ANSI mode.
    local_times
        Whether a time without a zone is a `timestamp_ntz` to it (`spark.sql.timestampType`), not an instant.
    """

    time_zone: str = "UTC"
    ansi: bool = True
    local_times: bool = False


class MemberTest:
    """Whether values are in a set. NULL is neither in nor out.

    >>> MemberTest(pa.array(["a", "b"]))(pa.array(["a", "c", None])).to_pylist()
    [True, False, None]
    >>> MemberTest(pa.array([1.5, 2.0]))(pa.array([1, 2])).to_pylist()
    [False, True]
    """

    def __init__(
        self, values: pa.Array, *, negate: bool = False, name: str = "lookup", rules: SessionRules | None = None
    ) -> None:
        self.values, self.negate, self.name, self.rules = values, negate, name, rules or SessionRules()
        self._table: _Table | None = None

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        if pa.types.is_null(column.type):
            return column.cast(pa.bool_())
        if self._table is None or self._table.asked != column.type:
            self._table = _Table(self.values, column.type, self.name, self.rules)
        found = self._table.holds(column)
        return pc.if_else(column.is_valid(), pc.invert(found) if self.negate else found, pa.scalar(None, pa.bool_()))


class _Table:
    """A set of values that columns of one type are looked up in; both are compared in their common type."""

    def __init__(self, values: pa.Array, asked: pa.DataType, name: str, rules: SessionRules) -> None:
        self.asked, self._time_zone = asked, rules.time_zone
        self._compared = _common_type(name, values.type, asked, rules)
        if pa.types.is_integer(asked) and not pa.types.is_floating(self._compared):
            values, self._compared = held(converted(values, self._compared, self._time_zone), asked), asked
        self._values = self._comparable(values)
        # Arrow hashes the set anew at every call, which a large one makes slower than a Python set.
        known = python_values(self._values) if len(values) > REHASHED_VALUES else None
        self._hashed = None if known is None else frozenset(known)

    def holds(self, column: pa.Array) -> pa.Array:
        column = self._comparable(column)
        asked = None if self._hashed is None else python_values(column)
        if self._hashed is None or asked is None:
            return pc.is_in(column, value_set=self._values, skip_nulls=True)
        found = pa.array([value in self._hashed for value in asked], type=pa.bool_())
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(self._values)).as_py():
            found = pc.or_kleene(found, pc.is_nan(column))
        return found

    def _comparable(self, values: pa.Array) -> pa.Array:
        values = converted(canonical(values), self._compared, self._time_zone)
        # As numbers, times of any year can be hashed, and fast.
        return values.view(f"int{values.type.bit_width}") if pa.types.is_temporal(values.type) else values


def _common_type(name: str, values: pa.DataType, asked: pa.DataType, rules: SessionRules) -> pa.DataType:
    """The type in which Spark compares values of two types."""
    if pa.types.is_null(values):
        return asked
    kind = family(asked)
    if family(values) != kind:
        raise DataError(
            f"{name!r} looks up values of type {asked} among values of type {values}",
            hint="bring both to one type: cast the column, or convert the values",
        )
    if kind == "number":
        return _common_number(values, asked, rules)
    if kind == "time":
        return common_time(values, asked)
    return asked


def _common_number(one: pa.DataType, other: pa.DataType, rules: SessionRules) -> pa.DataType:
    """The one that holds both; of a float and another number a double, or, without ANSI mode, of an integer a float.

    >>> _common_number(pa.int64(), pa.decimal128(10, 2), SessionRules())
    Decimal128Type(decimal128(22, 2))
    >>> [_common_number(pa.int64(), pa.float32(), SessionRules(ansi=ansi)) for ansi in (True, False)]
    [DataType(double), DataType(float)]
    """
    if one == other:
        return one
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        narrow = pa.types.is_float32(one) or pa.types.is_float32(other)
        whole = pa.types.is_integer(one) or pa.types.is_integer(other)
        return pa.float32() if narrow and whole and not rules.ansi else pa.float64()
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    digits = [_digits(kind) for kind in (one, other)]
    before_point = max(before for before, _ in digits)
    after_point = min(max(after for _, after in digits), MOST_DIGITS - before_point)
    return pa.decimal128(before_point + after_point, after_point)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """How many digits a number has before and after its point."""
    if pa.types.is_integer(kind):
        return {8: 3, 16: 5, 32: 10, 64: 20}[kind.bit_width], 0
    return kind.precision - kind.scale, kind.scale


def common_time(*kinds: pa.DataType) -> pa.DataType:
    """The type in which Spark compares instants, local times and dates."""
    if any(getattr(kind, "tz", None) for kind in kinds):
        return INSTANT
    return LOCAL_TIME if any(map(pa.types.is_timestamp, kinds)) else pa.date32()


def converted(values: pa.Array, kind: pa.DataType, time_zone: str) -> pa.Array:
    """Values in another type, as Spark casts them."""
    had = values.type
    if had == kind or pa.types.is_null(had):
        return values.cast(kind)
    if pa.types.is_decimal(had) and pa.types.is_floating(kind):
        return values.cast(pa.string()).cast(kind)  # Arrow's own way makes 0.30000000000000004 of 0.3
    if pa.types.is_decimal(had) and pa.types.is_decimal(kind) and had.scale > kind.scale:
        values = pc.round(values.cast(pa.decimal256(76, had.scale)), kind.scale, round_mode="half_towards_infinity")
    if kind == INSTANT and not getattr(had, "tz", None):
        return instants(values.cast(LOCAL_TIME, safe=False), time_zone)
    return values.cast(kind, safe=False)


def held(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in a narrower type, without those that it does not hold.

    >>> held(pa.array([2, 300]), pa.int8()).to_pylist()
    [2]
    """
    kept = values.cast(kind, safe=False)
    return kept.filter(pc.equal(kept.cast(values.type, safe=False), values))


def instants(local: pa.Array, time_zone: str, *, twice: Literal["earliest", "latest"] = "earliest") -> pa.Array:
    """When the clocks of a zone show some times; if never, as if they had not been put forward.

    >>> skipped = pa.array([datetime(2024, 3, 31, 2, 30)])
    >>> str(instants(skipped, "Europe/Berlin")[0]), str(instants(skipped, "+02:00")[0])
    ('2024-03-31 01:30:00+00:00', '2024-03-31 00:30:00+00:00')
    """
    if time_zone[0] in "+-":  # not every version of Arrow takes offsets
        offset = datetime.strptime(time_zone, "%z").utcoffset()
        return pc.subtract(local, pa.scalar(offset, pa.duration("us"))).cast(INSTANT)
    found = pc.assume_timezone(local, time_zone, ambiguous=twice, nonexistent="earliest")
    skipped = pc.subtract(local, pc.local_timestamp(found))
    return pc.add(found, skipped).cast(INSTANT)


def family(kind: pa.DataType) -> str | None:
    """Types whose values can be compared; None if values of a type cannot be looked up."""
    types = pa.types
    families = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
        "time": (types.is_date, types.is_timestamp),
        "time of day": (types.is_time,),
        "duration": (types.is_duration,),
        "truth": (types.is_boolean,),
        "nothing": (types.is_null,),
    }
    return next((name for name, tests in families.items() if any(test(kind) for test in tests)), None)


class UnderPrefix:
    """Whether addresses or texts lie under one of some prefixes; each distinct value of a column is looked up once."""

    def __init__(self, prefixes: PrefixSet, *, negate: bool = False, name: str = "lookup") -> None:
        self.prefixes, self.negate, self.name = prefixes, negate, name

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        if pa.types.is_null(column.type):
            return column.cast(pa.bool_())
        if family(column.type) != "text":
            raise DataError(
                f"{self.name!r} looks for prefixes in values of type {column.type}", hint="cast the column to string"
            )
        encoded = column.dictionary_encode()
        found = [self.prefixes.contains(value) != self.negate for value in texts(encoded.dictionary)]
        return pa.array(found, type=pa.bool_()).take(encoded.indices)


def texts(values: pa.Array) -> list[Any]:
    """The values in Python, also of texts that are not UTF-8."""
    found = python_values(values)
    if found is not None:
        return found
    read = values.cast(pa.large_binary()).to_pylist()
    return [None if v is None else v.decode(errors="surrogateescape") for v in read]


def member_test(lookup: LookupPredicate, values: pa.Array, rules: SessionRules) -> MemberTest | UnderPrefix:
    """The test that a worker runs for a look-up."""
    if lookup.match == "prefix":
        prefixes = PrefixSet(v for v in texts(values) if v is not None)
        return UnderPrefix(prefixes, negate=lookup.negate, name=lookup.name)
    if family(values.type) == "time":
        rules = replace(rules, time_zone=arrow_zone(lookup, rules.time_zone))
    return MemberTest(values.drop_null(), negate=lookup.negate, name=lookup.name, rules=rules)


def _java() -> Any:
    """Java's objects, to ask about a time zone; None on Spark Connect."""
    if is_remote():
        return None
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else context._jvm


def arrow_zone(lookup: LookupPredicate, zone: str) -> str:
    """A session's time zone by a name that Arrow knows, or as an offset: Spark also takes `GMT+9`, `JST` and `Z`."""
    if zone[0] not in "+-" and _is_known(zone):
        return zone
    jvm = _java()
    name = zone
    if jvm is not None:
        name = str(jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).normalized().getId())
    name = "UTC" if name == "Z" else name
    if name[0] not in "+-" and not _is_known(name):
        raise QueryError(
            f"{lookup.name!r} looks up times in the session's time zone {zone!r}, which Arrow does not know",
            hint="set spark.sql.session.timeZone to another name of it, or to an offset such as +09:00",
        )
    return name


def _is_known(zone: str) -> bool:
    try:
        pc.assume_timezone(pa.array([0], LOCAL_TIME), zone)
    except pa.ArrowInvalid:
        return False
    return True
