"""Look-up tables for workers: collected once, bounded in size, probed as whole Arrow columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import QueryError, ResourceError, UnknownColumn, suggest
from anabranch.model.predicates import LookupPredicate
from anabranch.model.prefixes import PrefixSet

LARGEST_TABLE_ROWS = 5_000_000
LARGEST_TABLE_BYTES = 256 * 1024 * 1024


class Member:
    """Whether values are in a set. NULL is neither in nor out.

    >>> Member(pa.array(["a", "b"]))(pa.array(["a", "c", None])).to_pylist()
    [True, False, None]
    """

    def __init__(self, values: pa.Array, *, negate: bool = False) -> None:
        self.values, self.negate = values, negate

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        found = pc.is_in(column, value_set=self.values.cast(column.type), skip_nulls=True)
        return pc.if_else(column.is_valid(), pc.invert(found) if self.negate else found, pa.scalar(None, pa.bool_()))


class UnderPrefix:
    """Whether addresses or texts lie under one of some prefixes; each distinct value of a column is looked up once."""

    def __init__(self, prefixes: PrefixSet, *, negate: bool = False) -> None:
        self.prefixes, self.negate = prefixes, negate

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        encoded = column.dictionary_encode()
        found = [self.prefixes.contains(value) != self.negate for value in encoded.dictionary.to_pylist()]
        return pa.array(found, type=pa.bool_()).take(encoded.indices)


def member_test(lookup: LookupPredicate, values: pa.Array) -> Member | UnderPrefix:
    """The test that a worker runs for a look-up."""
    if lookup.match == "prefix":
        return UnderPrefix(PrefixSet(v for v in values.to_pylist() if v is not None), negate=lookup.negate)
    return Member(values.drop_null(), negate=lookup.negate)


def collect_values(lookup: LookupPredicate) -> pa.Array:
    """The distinct values of a look-up's set or table."""
    values = lookup.values
    if hasattr(values, "toArrow"):
        values = _collect(lookup, values)
    elif hasattr(values, "to_frame") or hasattr(values, "iloc"):
        values = pa.table({str(values.name or "value"): values}) if values.ndim == 1 else pa.Table.from_pandas(values)
    if isinstance(values, pa.Table | pa.RecordBatch):
        values = values.column(_chosen(lookup, values.schema.names))
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        values = _from_python(lookup, values)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(array) > LARGEST_TABLE_ROWS or array.nbytes > LARGEST_TABLE_BYTES:
        raise _too_big(lookup, f"{len(array):,} values, {array.nbytes / 1e6:,.0f} MB")
    return array.unique()


def _collect(lookup: LookupPredicate, df: Any) -> pa.Table:
    name = _chosen(lookup, df.columns)
    table = df.select(name).distinct().limit(LARGEST_TABLE_ROWS + 1).toArrow()
    if table.num_rows > LARGEST_TABLE_ROWS:
        raise _too_big(lookup, f"more than {LARGEST_TABLE_ROWS:,} values")
    return table


def _from_python(lookup: LookupPredicate, values: Any) -> pa.Array:
    try:
        return pa.array(list(values))
    except (TypeError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise QueryError(
            f"the values of {lookup.name!r} are not a set of one type: {error}",
            hint="pass a set, a list, a pandas or Arrow table, or a small Spark DataFrame",
        ) from error


def _chosen(lookup: LookupPredicate, columns: list[str]) -> str:
    if lookup.on in columns:
        return str(lookup.on)
    if lookup.on is not None and not (lookup.on == "prefix" and len(columns) == 1):
        raise UnknownColumn(lookup.on, columns, where=f"the table of {lookup.name!r}")
    if len(columns) != 1:
        raise QueryError(
            f"the table of {lookup.name!r} has {len(columns)} columns",
            hint=f"name one with on=... {suggest('', columns, 'columns')}",
        )
    return columns[0]


def _too_big(lookup: LookupPredicate, size: str) -> ResourceError:
    return ResourceError(
        f"the table of {lookup.name!r} is too big to ship to the workers: {size}",
        hint=f"the limits are {LARGEST_TABLE_ROWS:,} values and {LARGEST_TABLE_BYTES // 2**20} MiB; join larger tables",
    )
