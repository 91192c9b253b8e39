"""Tables of elements: to read and set their columns, to find equal rows, and to put those of one row together.

Rows are equal if all their values are; NULLs are equal here, NaN equals NaN, and 0.0 equals -0.0, as where SQL groups.

>>> table = elements(pa.table({"city": ["Oslo", "Rome", "Oslo"]}), [1, 2, 5], [9, 9, 9], [1, 1, -1])
>>> row = identities(table, ["city", "_end"])
>>> bool(row[0] == row[2]), bool(row[0] == row[1])
(True, False)
>>> order, ends, weights = settle(row, *(ints(table, name) for name in ELEMENT))
>>> sorted(zip(order.tolist(), ends.tolist(), weights.tolist()))
[(0, 5, 1), (1, 9, 1), (2, 9, 0)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.base import ELEMENT, END, FOREVER, START, WEIGHT, Micros

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

KEY = "_key"

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def ints(table: pa.Table, name: str) -> Micros:
    """A column of integers without NULLs, as an array."""
    return np.asarray(table.column(name).to_numpy(), dtype=np.int64)


def elements(table: pa.Table, start: npt.ArrayLike, end: npt.ArrayLike, weight: npt.ArrayLike) -> pa.Table:
    """The table with these three columns, in place of its own if it has them."""
    return with_ints(without(table, ELEMENT), {START: start, END: end, WEIGHT: weight})


def with_ints(table: pa.Table, columns: Mapping[str, npt.ArrayLike]) -> pa.Table:
    """The table with columns of integers, in place of its own of that name or behind them."""
    added = {name: pa.array(np.asarray(values, dtype=np.int64)) for name, values in columns.items()}
    return pa.table(dict(zip(table.column_names, table.columns, strict=True)) | added)


def without(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """The table without those of these columns that it has."""
    dropped = set(names)
    return table.select([name for name in table.column_names if name not in dropped])


def take(table: pa.Table, indices: Rows) -> pa.Table:
    """The rows at these places, in this order."""
    if not table.num_columns:
        return bare(len(indices))
    return table.take(pa.array(indices, type=pa.int64()))


def bare(rows: int) -> pa.Table:
    """A table without columns that still has rows."""
    return pa.table({"_": pa.nulls(rows)}).select([])


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, in one chunk; the dictionaries of the parts may differ."""
    return stacked(tables).combine_chunks()


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, in chunks: nothing is copied."""
    if not tables[0].num_columns:
        return bare(sum(len(table) for table in tables))
    return pa.concat_tables(tables).unify_dictionaries()


def identities(table: pa.Table, names: Iterable[str]) -> Rows:
    """A number per row, from 0 without gaps: the same where the rows agree on the columns, and only there."""
    return _numbered([part for name in names for part in _parts(table.column(name))], len(table))


def codes(table: pa.Table, names: Iterable[str]) -> Rows:
    """A hash per row, of its long integers and doubles: the same for equal rows, in every process."""
    kinds = {name: table.schema.field(name).type for name in names}
    wide = [name for name, kind in kinds.items() if pa.types.is_float64(kind) or pa.types.is_int64(kind)]
    values = [pc.fill_null(table.column(name), 0) for name in wide]
    return _mixed([part for column in values for part in _parts(column)], len(table)).view(np.int64)


def suspects(table: pa.Table, rows: Rows, marked: Flags) -> tuple[Rows, Rows]:
    """Of some rows of a table, the marked ones and all that equal one of them, with their numbers as in `identities`.

    A few others may be among them. It costs little for the rows that are not.
    """
    parts = [part[rows] for column in table.columns for part in _parts(column)]
    bits = int(16 * np.count_nonzero(marked)).bit_length()
    slots = _mixed(parts, len(rows)) >> np.uint64(64 - max(bits, 1))
    taken = np.zeros(1 << max(bits, 1), np.bool_)
    taken[slots[marked]] = True
    chosen = np.flatnonzero(taken[slots])
    return rows[chosen], _numbered([part[chosen] for part in parts], len(chosen))


def firsts(groups: Rows) -> Rows:
    """The place of one member of each group, by its number."""
    places = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    places[groups] = np.arange(len(groups))
    return places


def net_weights(groups: Rows, weight: Micros) -> Micros:
    """The sum of each group's weights at one of its rows, 0 at its other rows."""
    sums = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, groups, weight)
    member = np.empty_like(sums)
    member[groups] = np.arange(len(groups))
    return np.where(member[groups] == np.arange(len(groups)), sums[groups], 0)


def same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Flags:
    """Where two columns agree. Where Arrow cannot compare their types, they agree."""
    left, right = _plain(left), _plain(right)
    if _comparable(left.type, right.type):
        agree = pc.fill_null(pc.equal(left, right), False).to_numpy()
        if left.null_count and right.null_count:
            agree = agree | pc.and_(left.is_null(), right.is_null()).to_numpy()
        if pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
            nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
            agree = agree | pc.fill_null(nan, False).to_numpy()
        return np.asarray(agree, dtype=np.bool_)
    if left.type != right.type:
        return np.ones(len(left), np.bool_)
    both = _numbered(list(_parts(pa.chunked_array([*left.chunks, *right.chunks], left.type))), 2 * len(left))
    return np.asarray(both[: len(left)] == both[len(left) :])


def sorted_places(table: pa.Table) -> Rows:
    """The places of the rows in the order of their columns, as far as Arrow can sort those."""
    columns = [part for column in table.columns for part in _sortable(column)]
    names = [str(i) for i in range(len(columns))]
    keys = [(name, "ascending") for name in names]
    return np.asarray(pc.sort_indices(pa.table(columns, names=names), sort_keys=keys).to_numpy(), dtype=np.int64)


def settle(rows: Rows, start: Micros, end: Micros, weight: Micros) -> tuple[Rows, Micros, Micros]:
    """Elements of equal rows with equal ends, as elements one after the other: places, their ends and weights.

    `rows` has a number for each pair of a row and an end. What has been taken back from some instant on ends there, and
    the element that took it back weighs nothing. The rows and the starts stay what they were.
    """
    order = by_both(rows, start)
    starts, ends, ordered = start[order], end[order], rows[order]
    follows = ordered[1:] == ordered[:-1]
    first = np.concatenate((np.ones(min(1, len(order)), np.bool_), ~follows))
    weights = sums_so_far(weight[order], first)
    ends[:-1] = np.where(follows, starts[1:], ends[:-1])
    return order, ends, weights


def by_both(major: Rows, minor: Micros) -> Rows:
    """The order by two numbers, the first of which counts from 0; equal pairs come in any order."""
    if not len(minor):
        return np.empty(0, np.int64)
    low, high = int(minor.min()), int(minor.max())
    if (int(major.max()) + 1) * (high - low + 1) > FOREVER:
        return np.lexsort((minor, major))
    # One number sorts several times faster than two.
    return np.argsort(major * (high - low + 1) + (minor - low))


def sums_so_far(values: Micros, first: Flags) -> Micros:
    """Running sums that start anew where `first` says so."""
    total = np.cumsum(values)
    before = (total - values)[first]
    return np.asarray(total - np.repeat(before, np.diff(np.append(np.flatnonzero(first), len(values)))))


def _numbered(parts: list[Micros], rows: int) -> Rows:
    mixed = _mixed(parts, rows)
    order = np.argsort(mixed)
    differs = _steps(mixed[order])
    if any((_steps(part[order]) & ~differs).any() for part in parts):
        order = np.lexsort(parts)
        differs = np.logical_or.reduce([_steps(part[order]) for part in parts])
    numbers = np.zeros(rows, np.int64)
    numbers[order[1:]] = np.cumsum(differs)
    return numbers


def _mixed(parts: list[Micros], rows: int) -> npt.NDArray[np.uint64]:
    mixed = np.zeros(rows, np.uint64)
    for part in parts:
        mixed ^= part.view(np.uint64)
        mixed *= _MIX
        mixed ^= mixed >> _SHIFT
    return mixed


def _steps(values: npt.NDArray[np.generic]) -> Flags:
    return np.asarray(values[1:] != values[:-1])


def _parts(column: pa.ChunkedArray) -> Iterator[Micros]:
    """Arrays of integers that are equal where the values of the column are equal."""
    column = _plain(column)
    kind = column.type
    if column.null_count and not pa.types.is_null(kind):
        yield column.is_null().to_numpy().astype(np.int64)
    if pa.types.is_struct(kind):
        for field in column.flatten():
            yield from _parts(field)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        yield from _parts(_items(column))
    elif pa.types.is_floating(kind):
        yield _bits(column)
    elif pa.types.is_integer(kind) and kind.bit_width == 64:
        yield pc.fill_null(column, 0).to_numpy().view(np.int64)
    elif not pa.types.is_null(kind):
        codes = pc.dictionary_encode(column, null_encoding="encode")
        yield np.concatenate([np.empty(0, np.int64), *(chunk.indices.to_numpy() for chunk in codes.chunks)])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without an encoding that says nothing about its values."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return column.cast(pa.list_(kind.value_type))
    return column


def _bits(column: pa.ChunkedArray) -> Micros:
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy() + 0.0
    return np.where(np.isnan(values), np.float64("nan"), values).view(np.int64)


def _sortable(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    column = _plain(column)
    if pa.types.is_struct(column.type):
        yield column.is_null()
        for field in column.flatten():
            yield from _sortable(field)
    elif _has_order(column.type):
        yield column


def _items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists as binary values: the numbers of their items."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_map(whole.type):
        whole = whole.cast(pa.list_(pa.struct([whole.type.key_field, whole.type.item_field])))
    items = whole.flatten()
    numbers = _numbered(list(_parts(pa.chunked_array([items]))), len(items))
    lengths = pc.fill_null(pc.list_value_length(whole), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))) * numbers.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers)]
    return pa.chunked_array([pa.Array.from_buffers(pa.large_binary(), len(whole), buffers)])


@lru_cache(maxsize=1024)
def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Arrow has no list of the types that it compares: it is asked."""
    try:
        pc.equal(pa.array([], left), pa.array([], right))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


@lru_cache(maxsize=1024)
def _has_order(kind: pa.DataType) -> bool:
    """Arrow has no list of the types that it sorts: it is asked."""
    try:
        pc.sort_indices(pa.table({"_": pa.array([], kind)}), sort_keys=[("_", "ascending")])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True
