"""Relations that change: rows are inserted, deleted or replaced at an instant, and queries see it exactly then.

A relation is a bag of rows that varies with time. It begins with the rows it was registered with. Every change is a
file of rows with `_time` and `_weight` (1 for what enters, -1 for what leaves), which a manifest names. With the first
change the rows before it are written, too: an engine that is started again goes on with what the files say.

Queries read a relation in one of two ways. Operators with state take the *changes* of a tick. Where rows of streams are
looked up at their own instant, as those of `[Now]`, nothing has to be remembered: they meet the *versions* of rows,
each with the times between which it is valid.

Notes
-----
Time-varying relations are those of CQL (thesis, sections 2.2.1 and 2.2.2).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StructField, StructType

from anabranch import storage
from anabranch.engine.failures import summarize
from anabranch.engine.inputs import RelationInput
from anabranch.engine.layout import prefix_of
from anabranch.engine.manifest import Manifest, RelationState, StoredFile
from anabranch.engine.store import WRITTEN_ROW, BufferTask
from anabranch.errors import QueryError, UnknownColumn, in_a_line
from anabranch.model.moments import micros, moment
from anabranch.model.names import quoted
from anabranch.operators.base import EVER, FOREVER, TIME, WEIGHT
from anabranch.planning.stages import VALID_FROM, VALID_TO
from anabranch.spark.mapping import map_in_arrow
from anabranch.spark.schemas import empty_frame

Rows: TypeAlias = DataFrame | Sequence[object]
_CHANGED = (StructField(TIME, LongType()), StructField(WEIGHT, LongType()))
MOST_FILES = 32
"""Changes are merged into one file once they are more."""
_COPY, _ENTERS = "_copy", "_enters"


class Relations:
    """The contents of one engine's relations.

    Parameters
    ----------
    spark
        The session in which files are read.
    folder
        Of the checkpoint.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._versions: dict[str, tuple[str, DataFrame]] = {}
        self._merged: list[Path] = []
        self._log: dict[str, list[str]] = {}  # files of changes, in the order in which they came

    # -- what queries read

    def changes(
        self, relation: RelationInput, manifest: Manifest, start: int, until: int, *, begins: bool
    ) -> DataFrame:
        """Rows that enter or leave from `start` on and before `until`; if `begins`, also all before, as of ever."""
        state = manifest.relations.get(relation.name)
        if state is None:
            return _of_ever(relation.df) if begins else self._nothing(relation)
        files = [file for file in state.files if file.first < until and (begins or file.last >= start)]
        if not files:
            return self._nothing(relation)
        due = self._stored(relation, files).where(f"{TIME} < {until}L" + ("" if begins else f" AND {TIME} >= {start}L"))
        return due.withColumn(TIME, F.expr(f"if({TIME} < {start}L, {EVER}L, {TIME})")) if begins else due

    def versions(self, relation: RelationInput, manifest: Manifest) -> DataFrame:
        """All rows that there have been, each with the times between which it is valid."""
        state = manifest.relations.get(relation.name)
        version = self.version(relation.name, manifest)
        known = self._versions.get(relation.name)
        if known is None or known[0] != version:
            made = self.unchanged(relation) if state is None else self._valid(relation, state).persist()
            self._unpersist(relation.name)
            known = self._versions[relation.name] = (version, made)
        return known[1]

    def version(self, name: str, manifest: Manifest) -> str:
        """Another one after every change."""
        state = manifest.relations.get(name)
        return state.files[-1].path if state is not None and state.files else ""

    def position(self, name: str, manifest: Manifest) -> int:
        """How many changes a relation has had; see `since`."""
        state = manifest.relations.get(name)
        return len(self._log.setdefault(name, [file.path for file in state.files] if state else []))

    def since(self, relation: RelationInput, manifest: Manifest, position: int) -> DataFrame | None:
        """What has come and gone since a position, as versions: those that went end before they begin.

        None if that is not known any more, as files have been merged.
        """
        state, log = manifest.relations.get(relation.name), self._log.get(relation.name, [])
        files = [file for file in state.files if file.path in log[position:]] if state else []
        if not position or len(files) < len(log) - position:
            return None
        until = F.when(F.col(WEIGHT) > 0, F.lit(FOREVER)).otherwise(F.lit(EVER))
        return self._stored(relation, files).select(
            *map(quoted, relation.df.columns), F.col(TIME).alias(VALID_FROM), until.alias(VALID_TO)
        )

    def unchanged(self, relation: RelationInput) -> DataFrame:
        """The rows that it was registered with, as versions."""
        return _valid_ever(relation.df)

    def contents(self, relation: RelationInput, manifest: Manifest) -> DataFrame:
        """The rows that are there after all changes."""
        now = self.versions(relation, manifest).where(f"{VALID_TO} = {FOREVER}L")
        return now.drop(VALID_FROM, VALID_TO)

    def forget(self, name: str) -> None:
        """A relation is gone."""
        self._log.pop(name, None)
        self._unpersist(name)

    def _unpersist(self, name: str) -> None:
        _, versions = self._versions.pop(name, ("", None))
        if versions is not None and versions.is_cached:
            versions.unpersist()

    # -- changes

    def insert(self, relation: RelationInput, manifest: Manifest, rows: Rows, time: int) -> int:
        """Add rows at a time; returns how many."""
        return self._write(relation, manifest, [(self._frame(relation, rows), 1)], time)

    def delete(self, relation: RelationInput, manifest: Manifest, rows: Rows | str | Column, time: int) -> int:
        """Take away rows at a time: one copy of each that is given, or all that meet a condition; returns how many."""
        _require_comparable(relation)
        there = self.contents(relation, manifest)
        if isinstance(rows, str | Column):
            try:
                gone = there.where(rows)
            except PySparkException as error:
                raise QueryError(
                    f"the condition on relation {relation.name!r} is invalid: {summarize(error)}",
                    hint=f"its columns are {', '.join(relation.df.columns)}",
                ) from None
        else:
            gone = there.intersectAll(self._frame(relation, rows))
        return self._write(relation, manifest, [(gone, -1)], time)

    def replace(self, relation: RelationInput, manifest: Manifest, rows: Rows, time: int) -> int:
        """Let the relation hold these rows from a time on; returns how many rows enter or leave."""
        _require_comparable(relation)
        new, there = self._frame(relation, rows), self.contents(relation, manifest)
        return self._write(relation, manifest, [(there.exceptAll(new), -1), (new.exceptAll(there), 1)], time)

    def _write(
        self, relation: RelationInput, manifest: Manifest, parts: Sequence[tuple[DataFrame, int]], time: int
    ) -> int:
        state = manifest.relations.get(relation.name)
        before = [*(state.files if state else self._written(relation, _of_ever(relation.df)))]
        log = self._log.setdefault(relation.name, [file.path for file in before])
        deletes = state is not None and state.deletes
        new: list[StoredFile] = []
        for rows, weight in parts:
            made = self._written(relation, rows.selectExpr("*", f"{time}L AS {TIME}", f"{weight}L AS {WEIGHT}"))
            new += made
            deletes |= bool(made) and weight < 0
        count = sum(file.rows for file in new)
        if len(before) + len(new) > MOST_FILES:
            self._merged += [self._folder / file.path for file in before]
            before = self._written(relation, self._stored(relation, before).coalesce(1))
        log += [file.path for file in new]
        files = [*before, *new]
        storage.settle(self._folder / file.path for file in files)
        columns = relation.df.schema.simpleString()
        manifest.relations[relation.name] = RelationState(columns, files, time if count else EVER, deletes)
        if state is not None and not count:
            manifest.relations[relation.name].changed = state.changed
        return count

    def remove_merged(self) -> None:
        """A change was committed: delete the files whose rows are in others by now."""
        for path in self._merged:
            storage.remove(path)
        self._merged.clear()

    def _written(self, relation: RelationInput, rows: DataFrame) -> list[StoredFile]:
        prefix = prefix_of(0, uuid.uuid4().hex[:8])
        storage.make_folder(self._folder / "kept" / relation.name)
        task = BufferTask(relation.name, str(self._folder), prefix, EVER, FOREVER, skew=EVER)
        try:
            written = map_in_arrow(rows, task, WRITTEN_ROW).collect()
        except PySparkException as error:
            raise QueryError(
                f"rows for relation {relation.name!r} cannot be read: {summarize(error)}",
                hint="it stays as it was; correct them and try again",
            ) from None
        return [StoredFile(row["path"], row["rows"], row["first"], row["last"]) for row in written]

    def _frame(self, relation: RelationInput, rows: Rows) -> DataFrame:
        """Given rows with the columns of the relation, in their order and of their types."""
        schema, name = relation.df.schema, relation.name
        if not isinstance(rows, DataFrame):
            try:
                return relation.df.sparkSession.createDataFrame(list(rows), schema).coalesce(1)
            except (PySparkException, ValueError, TypeError) as error:
                raise QueryError(
                    f"rows for relation {name!r} do not fit its columns: {in_a_line(error)}",
                    hint=f"its columns are {schema.simpleString()[len('struct<') : -1]}",
                ) from None
        if rows.isStreaming:
            raise QueryError(f"rows for relation {name!r} are a stream", hint="use Create Relation ... From Stream")
        for column in schema.names:
            if column not in rows.columns:
                raise UnknownColumn(column, rows.columns, where=f"the rows for relation {name!r}")
        for each in schema:
            given = rows.schema[each.name].dataType
            if given != each.dataType:
                raise QueryError(
                    f"column {each.name!r} for relation {name!r} is of type {given.simpleString()}, "
                    f"not {each.dataType.simpleString()}",
                    hint=f"cast it first, as in df.withColumn({each.name!r}, df[{each.name!r}].cast("
                    f"{each.dataType.simpleString()!r}))",
                )
        return rows.select(*map(quoted, schema.names))

    # -- files

    def _stored(self, relation: RelationInput, files: Sequence[StoredFile]) -> DataFrame:
        schema = StructType([*relation.df.schema.fields, *_CHANGED])
        return self._spark.read.schema(schema).parquet(*(storage.uri(self._folder / file.path) for file in files))

    def _valid(self, relation: RelationInput, state: RelationState) -> DataFrame:
        """The k-th copy of a row that leaves is the k-th that entered."""
        if not state.files:
            return _valid_ever(relation.df.limit(0))
        changes = self._stored(relation, state.files)
        if not state.deletes:
            bounds = (F.col(TIME).alias(VALID_FROM), F.lit(FOREVER).alias(VALID_TO))
            return changes.select(*map(quoted, relation.df.columns), *bounds)
        columns = [F.col(quoted(name)) for name in relation.df.columns]
        enters = changes.withColumn(_ENTERS, F.col(WEIGHT) > 0)
        place = F.row_number().over(Window.partitionBy(*columns, _ENTERS).orderBy(TIME))
        paired = enters.withColumn(_COPY, place).groupBy(*columns, _COPY)
        ends = F.max(F.when(~F.col(_ENTERS), F.col(TIME)))
        found = paired.agg(
            F.max(F.when(F.col(_ENTERS), F.col(TIME))).alias(VALID_FROM),
            F.coalesce(ends, F.lit(FOREVER)).alias(VALID_TO),
        )
        return found.where(f"{VALID_FROM} < {VALID_TO}").drop(_COPY)

    def _nothing(self, relation: RelationInput) -> DataFrame:
        return empty_frame(self._spark, StructType([*relation.df.schema.fields, *_CHANGED]))


def change_time(name: str, given: datetime | None, earliest: int, latest: int) -> int:
    """When a change takes effect: at a given time, which must not be answered yet, or else after all that has come.

    Parameters
    ----------
    name
        Of the relation.
    given
        By the user.
    earliest
        Microseconds: what is before has been answered, or changed later.
    latest
        Microseconds: after all rows that have come.
    """
    if given is None:
        return latest
    time = micros(given, "at")
    if time < earliest:
        raise QueryError(
            f"relation {name!r} cannot be changed at {given.isoformat(sep=' ')}: "
            f"the time before {moment(earliest).isoformat(sep=' ')} is settled",
            hint="give a later time, or none: the change then takes effect after all rows that have come",
        )
    return time


def _of_ever(df: DataFrame) -> DataFrame:
    return df.selectExpr("*", f"{EVER}L AS {TIME}", f"1L AS {WEIGHT}")


def _valid_ever(df: DataFrame) -> DataFrame:
    return df.selectExpr("*", f"{EVER}L AS {VALID_FROM}", f"{FOREVER}L AS {VALID_TO}")


def _require_comparable(relation: RelationInput) -> None:
    for each in relation.df.schema:
        if isinstance(each.dataType, MapType):
            raise QueryError(
                f"relation {relation.name!r} has a column {each.name!r} of maps, and maps do not compare",
                hint="rows can be inserted into it; to delete some, keep its maps as texts, as in to_json(m)",
            )
